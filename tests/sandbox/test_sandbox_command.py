"""`python -m erpo_jax.sandbox`, as root and as a user without rights."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import erpo_jax

NOBODY = 65534


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


@pytest.fixture(scope="module")
def readable_copy() -> Iterator[str]:
    """A folder with the package that every user can read."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(erpo_jax.__file__).parent
        shutil.copytree(source / "sandbox", Path(folder) / "erpo_jax" / "sandbox")
        shutil.copy(source / "__init__.py", Path(folder) / "erpo_jax")
        for path in (Path(folder), *Path(folder).rglob("*")):
            path.chmod(0o755)
        yield folder


def interpreter_for_everybody() -> str | None:
    """An interpreter of 3.11 or newer that user nobody may run; ours may stand in a home directory closed to others."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            check = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
            if subprocess.run(check, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True).returncode == 0:
                return python
        except OSError:
            continue
    return None


@pytest.mark.parametrize("tier", ["namespaces", "landlock", "seccomp"])
def test_self_test_of_each_tier_without_rights(tier: str, readable_copy: str) -> None:
    environment = {"PYTHONPATH": readable_copy, "PYTHONDONTWRITEBYTECODE": "1"}
    words = ["-m", "erpo_jax.sandbox", "selftest", "--tier", tier]
    python = interpreter_for_everybody() if os.geteuid() == 0 else sys.executable
    if python is None:  # then at least as the user we are
        done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=60)
    else:
        rights = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run(
            [python, *words],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            **rights,  # type: ignore[call-overload]
        )
    assert done.stdout.startswith(f"tier {tier}: ok"), done.stderr
