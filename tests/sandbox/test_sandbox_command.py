"""`python -m erpo_jax.sandbox`, as root and as a user without rights."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from erpo_jax.sandbox.__main__ import main
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
    assert (function.returncode, function.stdout) == (0, '["l",42]\n')


@pytest.mark.parametrize(
    ("words", "text", "said"),
    [
        (["run", "nowhere.py"], b"", "cannot read nowhere.py"),
        (["run", "."], b"", "cannot read .: "),
        (["run", "binary"], b"", "cannot read binary: 'utf-8' codec can't decode"),
        (["run", "program.py"], b"\xff", "standard input is not UTF-8"),
        (["run", "program.py", "--cpu", "0"], b"", "--cpu 0 must be greater than 0"),
        (["run", "program.py", "--memory", "-1"], b"", "--memory -1 must be greater than 0"),
        (["run", "program.py", "--output", "x"], b"", "argument --output: invalid int value: 'x'"),
        (["run", "program.py", "--tier", "docker"], b"", "argument --tier: invalid choice: 'docker'"),
        (["run", "program.py", "--tier", "unsafe"], b"", "unsafe=True"),
        (["start"], b"", "argument command: invalid choice: 'start'"),
    ],
)
def test_mistakes_end_with_one_line_and_status_2(
    words: list[str],
    text: bytes,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text("pass")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    try:
        status = main(words)
    except SystemExit as end:
        status = end.code
    found = capsys.readouterr()
    assert (status, found.out, found.err.count("\n")) == (2, "", 1)
    assert said in found.err


def test_arguments_that_are_none(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("pass")
    arguments = command("run", str(program), "--function", "f", text="21")
    assert (arguments.returncode, arguments.stderr.splitlines()[-1]) == (
        2,
        "input 0 is not a JSON list of arguments: '21'",
    )


def test_the_example_of_the_documentation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "sandbox.md"
    example, said = re.findall(r"```(?:python|text)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[:2]
    exec(compile(example, str(page), "exec"), {})
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("tier", ["namespaces", "landlock", "seccomp"])
def test_self_test_of_each_tier_without_rights(tier: str) -> None:
    with readable_copy() as folder:
        done = run_without_rights(folder, "-m", "erpo_jax.sandbox", "selftest", "--tier", tier)
    assert done.stdout.startswith(f"tier {tier}: ok"), done.stderr
