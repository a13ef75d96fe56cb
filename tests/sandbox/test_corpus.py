"""The hostile corpus in each tier, each program followed by a good one; and the good corpus."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox
from tests.sandbox.hostile import Case, cases, wrong
from tests.sandbox.unprivileged import interpreter_for_everybody, readable_copy, run_without_rights

LIMITS = {
    "01_fork_bomb": Limits(cpu_s=1.0),
    "02_memory_hog": Limits(cpu_s=5.0, memory_mb=200),
    "05_sleep": Limits(wall_s=1.0),
    "22_deep_recursion": Limits(cpu_s=10.0),
    "24_huge_pow": Limits(cpu_s=0.4),
}
SHORT = Limits(cpu_s=0.4)
LOOPS = ("03_infinite_loop", "18_catch_everything", "32_raise_rlimits")
VERDICT = {"error": "error", "timeout": "timeout", "memory": "memory", "output": "output_limit", "ok-with-output": "ok"}


def expectation(text: str) -> tuple[set[str], str | None]:
    """The verdicts that an EXPECT line allows, and the output where it names one."""
    line = re.search(r"# EXPECT: (.*)", text).group(1)  # type: ignore[union-attr]
    words = re.split(r"[;,]", re.sub(r"\(.*?\)", "", line))[0]
    found = {VERDICT[word] for word in re.findall(r"ok-with-output|output|error|timeout|memory", words)}
    found |= {"timeout"} if "or timeout" in line else {"memory"} if "or memory" in line else set()
    output = re.search(r"ok-with-output '(.*?)'", line)
    return found, None if output is None else output.group(1) + "\n"


def hostile_cases(data: Path, port: int, tier: str) -> list[Case]:
    """The shared hostile programs; `port` is one on which nobody may knock."""
    files = sorted((data / "sandbox" / "hostile").glob("*.py"))
    assert len(files) >= 27
    found: list[Case] = []
    for file in files:
        text = file.read_text().replace("18777", str(port))
        function = file.stem.startswith("fn_")
        limits = LIMITS.get(file.stem, SHORT if file.stem in LOOPS else Limits(cpu_s=2.0))
        verdicts, output = expectation(text)
        if tier == "seccomp" and file.stem == "11_read_secrets":
            verdicts = {"ok", "error"}  # what this tier says it does not cover
        mode, inputs = ("function", ["[[1]]", "[[1]]"]) if function else ("stdin", [""])
        found.append((file.stem, text, mode, inputs, asdict(limits), sorted(verdicts), output))
    return found


@contextlib.contextmanager
def nobody_knocks() -> Iterator[int]:
    """A port of this machine, and the check that nobody came; and that no file was written."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server.getsockname()[1]
        with pytest.raises(BlockingIOError):
            server.accept()
    for folder in ("/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~"), "."):
        assert not os.path.exists(os.path.join(folder, "sandbox_escape_marker"))


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_hostile_programs_get_their_verdict_and_harm_nobody(sandboxes: Callable[[str], Sandbox], tier: str) -> None:
    assert wrong(sandboxes(tier), cases()) == []


def test_shared_hostile_programs_get_their_verdict_and_harm_nobody(
    each: Sandbox, tier: str, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_SECRET", "secret")
    with nobody_knocks() as port:
        assert wrong(each, hostile_cases(shared_data, port, tier)) == []


def without_rights(tier: str, programs: list[Case]) -> list[str]:
    """What `wrong` says where the trainer is nobody, whoever runs the tests."""
    with readable_copy() as folder:
        done = run_without_rights(folder, f"{folder}/hostile.py", tier, text=json.dumps(programs))
    assert done.returncode == 0, done.stderr
    user, found = json.loads(done.stdout)
    assert user != 0 or not interpreter_for_everybody()
    return found


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_hostile_programs_where_the_trainer_has_no_rights(tier: str) -> None:
    assert without_rights(tier, []) == []


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_shared_hostile_programs_where_the_trainer_has_no_rights(tier: str, shared_data: Path) -> None:
    with nobody_knocks() as port:
        assert without_rights(tier, hostile_cases(shared_data, port, tier)) == []


def test_big_output_and_fresh_function_state(
    sandbox: Sandbox, shared_data: Path, run_one: Callable[..., Outcome]
) -> None:
    hostile = shared_data / "sandbox" / "hostile"
    big = run_one(sandbox, (hostile / "37_big_output_ok.py").read_text())
    assert (big.verdict, len(big.output or "")) == ("ok", 800_000)
    job = Job((hostile / "fn_mutates_arg.py").read_text(), ("[[1]]",) * 3, "function", "solve")
    assert [outcome.output for outcome in sandbox.run([job])[0]] == ["1", "1", "1"]


def test_good_programs_give_the_output_of_a_plain_interpreter(each: Sandbox, shared_data: Path) -> None:
    cases = json.loads((shared_data / "sandbox" / "good" / "jobs.json").read_text())
    found = each.run([Job(case["code"], tuple(case["inputs"])) for case in cases])
    differ = [
        (case["code"], text)
        for case, outcomes in zip(cases, found, strict=True)
        for text, output, outcome in zip(case["inputs"], case["outputs"], outcomes, strict=True)
        if (outcome.verdict, outcome.output) != ("ok", output)
    ]
    if sys.version_info[:2] != (
        3,
        12,
    ):  # its own limit on recursion in C code ends five of them, outside the sandbox too
        assert not differ
    for code, text in differ:
        plain = subprocess.run(
            [sys.executable, "-I", "-c", code], input=text, capture_output=True, text=True, check=False
        )
        assert "RecursionError" in plain.stderr
    assert sum(map(len, found)) == 200
