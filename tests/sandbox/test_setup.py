"""Case S15: a sandbox that is not what it should be stops the run, and is never a verdict on a program."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox, SandboxError, selftest, worker

RunOne = Callable[..., Outcome]


def test_s15_a_failing_self_test_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # a program that the sandbox gets "wrong", because what is expected of it is not what it does
    monkeypatch.setattr(selftest, "_ALLOWED", {"namespaces": "read\n", "landlock": "read\n", "seccomp": "socket\n"})
    with pytest.raises(SandboxError, match=r"fails its self-test.*escapes: expected ok with 'read"):
        Sandbox(workers=1)


def test_s15_the_self_test_sees_a_tier_without_isolation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(selftest._ALLOWED, "unsafe", "")
    with Sandbox(workers=1, tier="unsafe", unsafe=True) as sandbox:
        assert "WITHOUT ISOLATION" in caplog.text
        wrong = selftest.failures(sandbox.run, "landlock")
    assert any(line.startswith("escapes") and "read" in line and "write" in line and "fork" in line for line in wrong)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str, str], None]:
    """Workers that run a copy of the package in which a line of one file is another."""

    def breaks(file: str, line: str, other: str) -> None:
        source = Path(worker.__file__).parent
        for path in source.glob("*.py"):
            shutil.copy(path, tmp_path)
        text = (source / file).read_text()
        assert line in text
        (tmp_path / file).write_text(text.replace(line, other))
        monkeypatch.setattr(worker, "__file__", str(tmp_path / "worker.py"))

    return breaks


REFUSED = {
    "a limit, for the program": (
        "program.py",
        "            resource.setrlimit(name, pair)\n",
        "            resource.setrlimit(name, pair if self.output_bytes != 777 else (2, 1))\n",
        "the program could not be confined: ValueError",
    ),
    "the filter": (
        "program.py",
        "            confinement.filters.load(os.getpid())\n",
        "            confinement.filters.load(os.getpid() if self.output_bytes != 777 else 'x')\n",
        "the program could not be confined: TypeError",
    ),
    "a limit, for the compiler": (
        "candidate.py",
        "        _limit(resource.RLIMIT_CPU, ",
        "        _limit(resource.RLIMIT_CPU, (2, 1)) if limits['output_bytes'] == 777 else None\n"
        "        _limit(resource.RLIMIT_CPU, ",
        "setrlimit",
    ),
    "a pipe": (
        "judge.py",
        "        self.out, out = os.pipe()\n",
        "        if self.cap == 777: raise OSError(24, 'no descriptor left')\n        self.out, out = os.pipe()\n",
        "the sandbox worker ended",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_s15_a_set_up_that_is_refused_is_no_verdict_on_the_program(broken: Callable[..., None], what: str) -> None:
    *change, said = REFUSED[what]
    broken(*change)
    job = Job("print(1)", ("", ""))
    with Sandbox(workers=1) as sandbox:
        found = sandbox.run([job, replace(job, limits=Limits(output_bytes=777)), replace(job, program="print(2)")])
    verdicts = [[outcome.verdict for outcome in outcomes] for outcomes in found]
    assert verdicts == [["ok", "ok"], ["sandbox_error", "sandbox_error"], ["ok", "ok"]]
    assert found[1][0].detail.startswith(said), found[1][0]


def test_s15_a_set_up_that_is_always_refused_stops_the_run(broken: Callable[..., None]) -> None:
    broken(
        "program.py", "            resource.setrlimit(name, pair)\n", "            resource.setrlimit(name, (2, 1))\n"
    )
    with pytest.raises(SandboxError, match=r"fails its self-test.*a sum: expected ok .*, got sandbox_error"):
        Sandbox(workers=1)


def test_s15_no_program_can_pass_for_a_refused_set_up(sandbox: Sandbox, run_one: RunOne) -> None:
    claim = "import os\nos.write(63, b'{}')\nos._exit(1)"
    for words in ("OSError: refused", "sandbox_error:refused", ""):
        assert run_one(sandbox, claim.format(words)).verdict == "error"
