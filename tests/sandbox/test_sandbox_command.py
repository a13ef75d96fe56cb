"""`python -m erpo_jax.sandbox`, as root and as a user without rights."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.unprivileged import readable_copy, run_without_rights


def command(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "erpo_jax.sandbox", *words)
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=60)


def test_run(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print(int(input()) + 1)\n")
    good = command("run", str(program), text="41\n")
    assert (good.returncode, good.stdout) == (0, "42\n")
    assert "ok (CPU " in good.stderr
    bad = command("run", str(program), text="x\n")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "error: ValueError: invalid literal for int() with base 10: 'x' (line 1)" in bad.stderr
    program.write_text("def double(x): return [2 * x]")
    function = command("run", str(program), "--function", "double", text="[21]")
    assert (function.returncode, function.stdout) == (0, '["l",42]')


def test_mistakes_end_with_status_2(tmp_path: Path) -> None:
    missing = command("run", "nowhere.py")
    assert (missing.returncode, "cannot read nowhere.py" in missing.stderr) == (2, True)
    program = tmp_path / "program.py"
    program.write_text("pass")
    unsafe = command("run", str(program), "--tier", "unsafe")
    assert (unsafe.returncode, "unsafe=True" in unsafe.stderr) == (2, True)
    arguments = command("run", str(program), "--function", "f", text="21")
    assert (arguments.returncode, "input 0 is not a JSON list of arguments: '21'" in arguments.stderr) == (2, True)


@pytest.mark.parametrize("tier", ["namespaces", "landlock", "seccomp"])
def test_self_test_of_each_tier_without_rights(tier: str) -> None:
    with readable_copy() as folder:
        done = run_without_rights(folder, "-m", "erpo_jax.sandbox", "selftest", "--tier", tier)
    assert done.stdout.startswith(f"tier {tier}: ok"), done.stderr
