"""The pool: order, worker counts, lost workers, the trainer's death, identical programs, bad jobs."""

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox, SandboxError
from erpo_jax.sandbox.worker import Worker
from tests.sandbox.processes import below, gone, settles

MIXED = [
    Job("print(sum(map(int, input().split())))", ("1 2", "3 4 5", "x")),
    Job("while True: pass", ("", ""), limits=Limits(cpu_s=0.2)),
    Job("x = [0] * 10**9", ("",), limits=Limits(memory_mb=64)),
    Job("while True: print(1)", ("",), limits=Limits(output_bytes=1000)),
    Job(None, ("", "")),
    Job("def f(x): return {x: (1.5, None)}", ("[1]", '["a"]'), "function", "f"),
    Job("print(", ("",)),
    Job("print(1)", ()),
    *[Job(f"import random\nprint({n}, random.random(), *set('abc'))", ("",) * 3) for n in range(12)],
]


def bare(outcome: Outcome) -> tuple[str, str | None, bool]:
    return outcome.verdict, outcome.output, outcome.skipped


def test_one_and_four_workers_agree_and_order_does_not_matter() -> None:
    with Sandbox(workers=1) as one, Sandbox(workers=4) as four:
        first = one.run(MIXED)
        second = four.run(MIXED)
        backwards = four.run(MIXED[::-1])[::-1]
    assert [[bare(o) for o in outcomes] for outcomes in first] == [[bare(o) for o in outcomes] for outcomes in second]
    assert [[bare(o) for o in outcomes] for outcomes in first] == [
        [bare(o) for o in outcomes] for outcomes in backwards
    ]
    assert [o.verdict for outcomes in first[:8] for o in outcomes] == [
        "ok",
        "ok",
        "error",
        "timeout",
        "timeout",
        "memory",
        "output_limit",
        "no_program",
        "no_program",
        "ok",
        "ok",
        "error",
    ]
    assert first[5][0].output == '["d",[1,["t",1.5,null]]]'


def test_results_stream_as_they_end_and_jobs_are_read_as_they_are_needed(sandbox: Sandbox) -> None:
    read: list[int] = []

    def endless() -> Iterator[Job]:
        n = 0
        while True:
            read.append(n)
            yield Job(f"print({n})", ("",))
            n += 1

    stream = sandbox.stream(endless())
    seen = [next(stream) for _ in range(10)]
    assert sorted(index for index, _ in seen)[:6] == list(range(6))
    assert all(outcomes[0].output == f"{index}\n" for index, outcomes in seen)
    assert len(read) <= 10 + 2 * 2
    with pytest.raises(SandboxError, match="a stream of this sandbox is under way"):
        sandbox.run([Job("print(7)", ("",))])
    stream.close()  # type: ignore[attr-defined]
    assert sandbox.run([Job("print(7)", ("",))])[0][0].output == "7\n"


@pytest.mark.parametrize(
    ("victim", "tier"),
    [("worker", "namespaces"), ("zygote", "namespaces"), ("everything", "namespaces"), ("worker", "landlock")],
)
def test_a_worker_killed_in_the_middle_costs_a_retry(victim: str, tier: str) -> None:
    with Sandbox(workers=2, tier=tier) as sandbox:
        pids = sandbox.worker_pids
        under = below(pids[0])
        jobs = [Job(f"import time\ntime.sleep(0.05)\nprint({n})", ("",) * 2) for n in range(12)]

        def kill() -> None:
            time.sleep(0.2)
            targets = {"worker": [pids[0]], "zygote": below(pids[0])[:1], "everything": [pids[0], *below(pids[0])]}[
                victim
            ]
            for pid in targets:
                with contextlib.suppress(ProcessLookupError):  # the first one's death may have taken it along
                    os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        found = sandbox.run(jobs)
        killer.join()
        assert [[outcome.output for outcome in outcomes] for outcomes in found] == [[f"{n}\n"] * 2 for n in range(12)]
        assert len(sandbox.worker_pids) == 2
        assert pids[0] not in sandbox.worker_pids
        assert gone([pids[0], *under])


def test_a_program_killed_from_outside_is_tried_again_and_then_a_sandbox_error() -> None:
    with Sandbox(workers=1) as sandbox:
        begun = [0]
        stop = threading.Event()

        def kill_programs() -> None:
            while not stop.is_set():
                zygote = below(sandbox.worker_pids[0])
                if len(zygote) >= 3:
                    begun[0] += 1
                    os.kill(zygote[2], signal.SIGKILL)
                    time.sleep(0.1)
                time.sleep(0.01)

        killer = threading.Thread(target=kill_programs)
        killer.start()
        outcome = sandbox.run([Job("import time\ntime.sleep(1)", ("",))])[0][0]
        stop.set()
        killer.join()
        assert (outcome.verdict, begun[0]) == ("sandbox_error", 2)
        assert sandbox.run([Job("print(7)", ("",))])[0][0].output == "7\n"


def test_a_job_that_loses_its_worker_twice_is_a_sandbox_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(workers=1) as sandbox:
        take = Worker.take

        def broken(worker: Worker) -> list:
            if b"poison" in worker.given[0].frame:
                raise EOFError
            return take(worker)

        monkeypatch.setattr(Worker, "take", broken)
        found = sandbox.run([Job("print(1)", ("",)), Job("'poison'", ("", "")), Job("print(2)", ("",))])
    assert [outcome.verdict for outcomes in found for outcome in outcomes] == [
        "ok",
        "sandbox_error",
        "sandbox_error",
        "ok",
    ]


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_nothing_outlives_a_killed_trainer(tier: str) -> None:
    program = f"""
import sys
from erpo_jax.sandbox import Job, Sandbox
sandbox = Sandbox(workers=2, tier={tier!r})
print(*sandbox.worker_pids, flush=True)
sandbox.run([Job("import time\\ntime.sleep(60)", ("",)), Job("while True: pass", ("",))])
"""
    mounts = Path("/proc/self/mounts").read_text()
    trainer = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert trainer.stdout is not None
    workers = [int(word) for word in trainer.stdout.readline().split()]
    depth = 3 if tier == "namespaces" else 2
    end = time.monotonic() + 10
    while min(len(below(pid)) for pid in workers) < depth and time.monotonic() < end:
        time.sleep(0.02)
    everything = [*workers, *[found for pid in workers for found in below(pid)]]
    assert len(everything) == 2 * (depth + 1)
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    assert gone(everything)
    assert Path("/proc/self/mounts").read_text() == mounts


def test_a_closed_sandbox_leaves_nothing_and_says_so() -> None:
    before = len(os.listdir("/proc/self/fd"))
    sandbox = Sandbox(workers=2)
    pids = [found for pid in sandbox.worker_pids for found in (pid, *below(pid))]
    sandbox.close()
    sandbox.close()
    assert gone(pids, 0.5)
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(SandboxError, match="the sandbox is closed"):
        sandbox.run([Job("print(1)", ("",))])


def test_identical_programs_run_once() -> None:
    texts = [
        "print(input() + '!')",
        "print(input()+'!') # the same",
        'print((input()) + "!")',
        "print(input() + '?')",
        "print(input() + '!')",
        "print(",
        "print(",
    ]
    with Sandbox(workers=2) as sandbox:
        saved = sandbox.executions_saved
        found = sandbox.run([Job(text, ("a", "b")) for text in texts])
        assert [outcomes[0].output for outcomes in found] == ["a!\n", "a!\n", "a!\n", "a?\n", "a!\n", None, None]
        assert sandbox.executions_saved - saved == 2 * 4
        assert [outcomes[0].shared for outcomes in found] == [False, True, True, False, True, False, True]
        saved = sandbox.executions_saved
        sandbox.run([Job("print(1)", ("",)), Job("print(1)", ("x",)), Job("print(1)", ("",), limits=Limits(cpu_s=1))])
        assert sandbox.executions_saved == saved
        # the same text means another thing elsewhere: 1 and True, 0.0 and -0.0 are equal, the programs are not
        found = sandbox.run([Job(f"print({text})", ("",)) for text in ("1", "True", "1.0", "0.0", "-0.0")])
        assert [outcomes[0].output for outcomes in found] == ["1\n", "True\n", "1.0\n", "0.0\n", "-0.0\n"]
    with Sandbox(workers=2, share_identical=False) as sandbox:
        sandbox.run([Job("print(1)", ("",))] * 3)
        assert sandbox.executions_saved == 0


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (Job("f = 1", ("[]",), "function"), "function mode needs an entry_point"),
        (Job("f = 1", ("[]", "{}"), "function", "f"), "input 1 is not a JSON list of arguments: '{}'"),
        (Job("f = 1", ("[1",), "function", "f"), "input 0 is not a JSON list of arguments"),
        (Job("f = 1", ("",), "script"), "mode=script is not one of stdin, function"),  # type: ignore[arg-type]
        (Job("f = 1", ("",), limits=Limits(cpu_s=0)), "limit cpu_s=0 must be greater than 0"),
        (Job("f = 1", ("",), limits=Limits(wall_s=-1.0)), "limit wall_s=-1.0 must be greater than 0"),
        (Job("f = 1", ("",), limits=Limits(cpu_s=math.inf)), "limit cpu_s=inf must be greater than 0 and at most"),
        (Job("f = 1", "text"), "inputs a tuple of texts"),  # type: ignore[arg-type]
        (Job("f = 1", ("", b"")), "inputs a tuple of texts"),  # type: ignore[arg-type]
    ],
)
def test_a_job_that_is_none_is_refused_and_the_sandbox_lives_on(sandbox: Sandbox, job: Job, said: str) -> None:
    with pytest.raises(SandboxError, match=f"job 1: .*{said.replace('{', '.').replace('}', '.')}"):
        sandbox.run([Job("print(1)", ("",)), job, Job("print(2)", ("",))])
    assert sandbox.run([Job("print(7)", ("",))])[0][0].output == "7\n"


def test_choices_that_are_none() -> None:
    with pytest.raises(SandboxError, match="tier=docker is not one of auto, namespaces, landlock, seccomp, unsafe"):
        Sandbox(tier="docker")
    with pytest.raises(SandboxError, match="needs unsafe=True"):
        Sandbox(tier="unsafe")
    with pytest.raises(SandboxError, match="workers=-1 is less than 0"):
        Sandbox(workers=-1)


def test_limits_and_measures(sandbox: Sandbox, run_one: Callable[..., Outcome]) -> None:
    outcome = run_one(
        sandbox,
        "x = bytearray(100 << 20)\nimport time\nt = time.process_time()\nwhile time.process_time() - t < 0.1: pass",
    )
    assert outcome.verdict == "ok"
    assert 100 < outcome.memory_mb < 150
    assert 0.1 < outcome.cpu_s < 1.0
    assert outcome.wall_s >= 0.1
    assert run_one(sandbox, "x = bytearray(100 << 20)", memory_mb=64).verdict == "memory"
    assert run_one(sandbox, "x = bytearray(100 << 20)", memory_mb=120).verdict == "ok"
    large = Job("x = bytearray(100 << 20)\nprint(len(input()))", ("y" * (20 << 20),) * 4, limits=Limits(memory_mb=180))
    assert [outcome.output for outcome in sandbox.run([large])[0]] == ["20971520\n"] * 4
    caught = "try:\n    x = bytearray(100 << 20)\nexcept MemoryError:\n    print('small')"
    assert run_one(sandbox, caught, memory_mb=64).output == "small\n"


def test_hundreds_of_runs_leave_descriptors_and_memory_flat() -> None:
    with Sandbox(workers=1) as sandbox:
        zygote = below(sandbox.worker_pids[0])[0]

        def state() -> tuple[int, int, int]:
            resident = int(Path(f"/proc/{zygote}/statm").read_text().split()[1]) * 4
            return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{zygote}/fd")), resident

        sandbox.run([Job(f"print({n})", ("",) * 5) for n in range(10)])
        assert settles(lambda: not below(zygote))  # the last supervisor ends a moment after it has answered
        before = state()
        found = sandbox.run([Job(f"print({n})\nx = [0] * 1000", ("x" * 1000,) * 10) for n in range(60)])
        assert settles(lambda: not below(zygote) and state()[:2] == before[:2])
        after = state()
    assert {outcome.verdict for outcomes in found for outcome in outcomes} == {"ok"}
    assert after[2] - before[2] < 300  # KiB
