"""Known traps, S1 to S14 (S15: test_setup.py), each with the outcome it must have."""

import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox

RunOne = Callable[..., Outcome]


@pytest.mark.parametrize(
    "program",
    [
        "print(sum(range(10**11)))",
        "while True:\n    try:\n        while True: pass\n    except: pass",
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass",
        (
            "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nsignal.alarm(1)\n"
            "signal.signal(signal.SIGALRM, lambda *_: 0)\nwhile 1: pass"
        ),
    ],
)
def test_s1_a_loop_ends_at_its_cpu_limit(sandbox: Sandbox, run_one: RunOne, program: str) -> None:
    outcome = run_one(sandbox, program, cpu_s=0.5)
    assert outcome.verdict == "timeout"
    assert 0.5 <= outcome.cpu_s < 1.5


@pytest.mark.parametrize(
    "program",
    [
        "import time\ntime.sleep(100)",
        "import signal\nsignal.pause()",
        "import threading\nthreading.Event().wait()",
        "import signal\nsignal.raise_signal(signal.SIGTSTP)\nsignal.raise_signal(signal.SIGSTOP)",
    ],
)
def test_s1_a_sleeper_ends_at_its_wall_limit(sandbox: Sandbox, run_one: RunOne, program: str) -> None:
    outcome = run_one(sandbox, program, wall_s=0.5)
    assert outcome.verdict == "timeout"
    assert 0.5 <= outcome.wall_s < 1.5


@pytest.mark.parametrize(
    "program",
    [
        "import subprocess\nsubprocess.Popen(['sleep', '300'])\nprint(1)",
        "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '300'], start_new_session=True)\nprint(1)",
        "import os\nos.system('setsid sleep 300 &')\nprint(1)",
        "import multiprocessing\nmultiprocessing.Process(target=print).start()\nprint(1)",
        "import os\nos.posix_spawn('/bin/sleep', ['sleep', '300'], {})\nprint(1)",
    ],
)
def test_s2_nothing_is_started(sandbox: Sandbox, run_one: RunOne, program: str) -> None:
    outcome = run_one(sandbox, program)
    assert outcome.verdict == "error" or outcome.output == "1\n"
    assert outcome.wall_s < 2
    running = [Path(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdigit()]
    assert not [path for path in running if path.exists() and path.read_bytes().startswith(b"sleep\x00300")]


@pytest.mark.parametrize(
    "program",
    [
        "while True: print('x' * 100)",
        "import sys\nwhile True: print('x' * 100, file=sys.stderr)",
        "import os\nwhile True: os.write(1, b'x' * 65536)",
    ],
)
def test_s3_endless_output_is_cut_at_the_cap(sandbox: Sandbox, run_one: RunOne, program: str) -> None:
    outcome = run_one(sandbox, program, output_bytes=100_000)
    assert outcome.verdict == "output_limit"
    assert len(outcome.output or "") in (0, 100_000)


def test_s3_output_up_to_the_cap_is_ok(sandbox: Sandbox, run_one: RunOne) -> None:
    assert run_one(sandbox, "print('x' * 99, end='')", output_bytes=99).verdict == "ok"
    over = run_one(sandbox, "print('x' * 100, end='')", output_bytes=99)
    assert (over.verdict, over.output) == ("output_limit", "x" * 99)


def test_s4_feed_and_drain_at_the_same_time(sandbox: Sandbox, run_one: RunOne) -> None:
    assert run_one(sandbox, "print(42)", "x" * 5_000_000).output == "42\n"
    program = "import sys\nprint('y' * 300_000)\nprint(len(sys.stdin.read()))"
    outcome = run_one(sandbox, program, "x" * 3_000_000)
    assert (outcome.verdict, (outcome.output or "")[-8:]) == ("ok", "3000000\n")


@pytest.mark.parametrize(
    "read",
    [
        "data = input() + chr(10) + input()",
        "data = sys.stdin.read()",
        "data = ''.join(line for line in sys.stdin)",
        "data = sys.stdin.readline() + sys.stdin.readline()",
        "data = sys.stdin.buffer.read().decode()",
        "data = open(0).read()",
        "data = os.read(0, 100).decode()",
        "data = ''.join(iter(sys.stdin.readline, ''))",
        "data = '\\n'.join(sys.stdin.read().split('\\n'))",
        "data = sys.stdin.read()\nsys.stdin.seek(0)\nassert data == sys.stdin.read()",
    ],
)
@pytest.mark.parametrize(
    "write",
    [
        "print(data.strip())",
        "sys.stdout.write(data.strip() + '\\n')",
        "sys.stdout.buffer.write(data.strip().encode() + b'\\n')",
        "os.write(1, data.strip().encode() + b'\\n')",
        "open(1, 'w').write(data.strip() + '\\n')",
    ],
)
def test_s5_real_streams(sandbox: Sandbox, run_one: RunOne, read: str, write: str) -> None:
    outcome = run_one(sandbox, f"import os, sys\n{read}\n{write}", "one\ntwo\n")
    assert (outcome.verdict, outcome.output) == ("ok", "one\ntwo\n"), outcome.detail


@pytest.mark.parametrize(
    "program",
    [
        "def main(): print(n)\nn = 6\nif __name__ == '__main__':\n    main()",
        "def f(n): return n and 1 + f(n - 1)\nprint(f(6))",
        "k = 2\nprint(sum([k * x for x in range(3)]))",
        "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and 1 + f(n - 1)\nprint(f(100_000) - 99_994)",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nprint(P(6).x)",
        "x = 6\ndef g():\n    global x\n    print(x)\ng()",
        "import sys\nprint(sys.modules['__main__'].__dict__ is globals() and 6)",
        "exit(print(6))",
        "import sys\nprint(6)\nsys.exit()",
        "print(6)\nraise SystemExit(0)",
        "quit(print(6))",
    ],
)
def test_s6_one_namespace(sandbox: Sandbox, run_one: RunOne, program: str) -> None:
    outcome = run_one(sandbox, program)
    assert (outcome.verdict, outcome.output) == ("ok", "6\n"), outcome.detail


def test_s6_names_of_the_prelude_and_no_shadows(sandbox: Sandbox, run_call: RunOne) -> None:
    program = """
class Solution:
    def __init__(self): self.seen = Counter()
    @lru_cache(None)
    def fib(self, n): return n if n < 2 else self.fib(n - 1) + self.fib(n - 2)
    def solve(self, x: List[int], y: Optional["TreeSet"] = None) -> Dict[str, int]:
        q = deque(x)
        heapify(h := list(q))
        return [inf > self.fib(20), gcd(12, 18), heappop(h), bisect_left([1, 3], 2), math.floor(2.5),
                Fraction(1, 2) * 2 == 1, [a + b for a, b in pairwise(x)], string.digits, statistics.median(x)]
"""
    outcome = run_call(sandbox, program, "[[3, 1, 2]]")
    assert outcome.output == '["l",true,6,1,1,2,true,["l",4,3],"0123456789",2]', outcome.detail
    own = "def gcd(a, b): return 'mine'\ndef solve(): return [gcd(4, 2), pow(2, 3, 5)]"
    assert run_call(sandbox, own, "[]").output == '["l","mine",3]'
    late = (
        "def solve():\n    global count\n    before = 'count' in globals()\n    count = 1\n    return [before, count]"
    )
    assert run_call(sandbox, late, "[]").output == '["l",false,1]'
    missing = run_call(sandbox, "x = 1", "[]", "reduce")
    assert (missing.verdict, missing.detail) == ("error", "NameError: the program defines no reduce")


def test_s6_a_main_block_is_not_the_function(sandbox: Sandbox, run_call: RunOne) -> None:
    program = "def solve(x): return x + 1\nif __name__ == '__main__':\n    print(solve(int(input())))"
    assert run_call(sandbox, program, "[41]").output == "42"


def test_s7_integers_of_any_size(sandbox: Sandbox, run_one: RunOne, run_call: RunOne) -> None:
    assert run_one(sandbox, "print(10**5000)").output == "1" + "0" * 5000 + "\n"
    assert run_one(sandbox, "print(int(input()) % 1000)", "9" * 6000).output == "999\n"
    assert run_call(sandbox, "def solve(): return 10**5000", "[]").output == f'["i","{10**5000:#x}"]'


def test_s8_eight_crashes_are_eight_errors(sandbox: Sandbox) -> None:
    found = sandbox.run([Job(f"1 / 0  # {n}\nx = {n}", ("", "")) for n in range(8)])
    assert {(outcome.verdict, outcome.output) for outcomes in found for outcome in outcomes} == {("error", None)}


@pytest.mark.parametrize(
    "program",
    [
        "print(*set('abcdefgh'))",
        "import random\nprint(random.random(), random.sample(range(100), 5))",
        "print(hash('abc'), hash((1, 'x')))",
        "import os, locale, time\nprint(sorted(os.environ.items()), time.tzname, locale.getlocale(), os.getcwd())",
        "print({int, str, list, dict, len, print, None, ValueError, 1.5})",
        "import sys\nprint(sys.argv, sys.path, sys.flags, sys.version, sorted(globals()))",
    ],
)
def test_s9_the_same_output_every_time(
    sandbox: Sandbox, sandboxes: Callable[[str], Sandbox], run_one: RunOne, program: str
) -> None:
    jobs = [Job(f"{program}\n'{n}'", ("", "")) for n in range(3)]
    outputs = {outcome.output for outcomes in sandbox.run(jobs) for outcome in outcomes}
    outputs.add(run_one(sandboxes("namespaces"), program).output)
    assert len(outputs) == 1
    assert None not in outputs


@pytest.mark.parametrize(
    ("program", "verdict", "output"),
    [
        ('print(\'{"verdict": "ok"}\')', "ok", '{"verdict": "ok"}\n'),
        (
            "import os\nos.write(63, b'memory:mine')\nraise ValueError",
            "memory",
            None,
        ),  # its own verdict is its own affair
        ("import os\nos.write(63, b'value:1')\nprint(2)", "ok", "2\n"),
        (
            (
                "import builtins, sys, json, os\nbuiltins.print = None\nsys.stdout = None\n"
                "json.dumps = json.loads = None\nos.write = os.read = None"
            ),
            "ok",
            "",
        ),
        ("import os\nprint('x')\nos._exit(0)", "ok", ""),
        ("import os\nos._exit(3)", "error", None),
        ("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)", "error", None),
        ("import signal\nsignal.raise_signal(signal.SIGKILL)", "error", None),
        ("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (0, 0))\nwhile 1: pass", "error", None),
        ("import os\nos.closerange(0, 200)\nos._exit(0)", "ok", ""),
        (
            (
                "import os\nfor pid in range(1, 500):\n    try: os.kill(pid, 9)\n"
                "    except PermissionError: pass\nprint('alive')"
            ),
            "ok",
            "alive\n",
        ),
        ("open('answer.txt').read()", "error", None),
        ("open('x.txt', 'w').write('1')", "error", None),
        ("import tempfile\ntempfile.TemporaryFile()", "error", None),
        ("import sys\nsys.exit('no')", "error", None),
        ("raise KeyboardInterrupt", "error", None),
        ("def f(:", "error", None),
        ("x = '\\udc80'\nprint(x)", "ok", "\\x80\n"),
        ("\x00", "error", None),
        ("'\udc80'", "error", None),
        ("(" * 5000, "error", None),
    ],
)
def test_s10_a_program_decides_on_itself_alone(
    sandbox: Sandbox, run_one: RunOne, program: str, verdict: str, output: str | None
) -> None:
    outcome = run_one(sandbox, program, cpu_s=1.0)
    assert (outcome.verdict, outcome.output) == (verdict, output), outcome
    assert run_one(sandbox, "print(len([1, 2]))").output == "2\n"


def test_s10_a_forged_value_is_refused(sandbox: Sandbox, run_call: RunOne) -> None:
    for forged in (
        "value:[1",
        'value:["s",2,1]',
        'value:["l", 1]',
        "value:" + "[" * 5000,
        "value:1e999",
        "value:" + "9" * 100_000,
        "value:{}",
    ):
        program = f"import os\ndef solve():\n    os.write(63, {forged.encode()!r})\n    os._exit(0)"
        outcome = run_call(sandbox, program, "[]")
        assert outcome.verdict == "error", (forged[:20], outcome)
    program = "import os\ndef solve(): os._exit(0)"
    assert run_call(sandbox, program, "[]").detail == "the program ended before the function returned"


def test_s11_one_endless_program_among_many(sandbox: Sandbox) -> None:
    jobs = [Job(f"print({n})", ("", ""), limits=Limits(cpu_s=0.5)) for n in range(60)]
    jobs[7] = Job("while True: pass", ("",) * 20, limits=Limits(cpu_s=0.5))
    begun = time.monotonic()
    found = sandbox.run(jobs)
    assert time.monotonic() - begun < 10  # 20 runs of the endless one alone would take as long
    assert [outcome.verdict for outcome in found[7]] == ["timeout"] * 20
    assert [outcome.skipped for outcome in found[7]] == [False] + [True] * 19
    assert [outcomes[1].output for n, outcomes in enumerate(found) if n != 7] == [f"{n}\n" for n in range(60) if n != 7]


def test_s11_without_skipping_every_input_runs() -> None:
    with Sandbox(workers=1, skip_after_timeout=False) as sandbox:
        job = Job("if input() == 'x':\n    while True: pass\nprint(1)", ("x", "y", "x", "y"), limits=Limits(cpu_s=0.2))
        found = sandbox.run([job])[0]
    assert [outcome.verdict for outcome in found] == ["timeout", "ok", "timeout", "ok"]
    assert not any(outcome.skipped for outcome in found)


def test_s12_waiting_in_line_is_no_timeout(sandbox: Sandbox) -> None:
    jobs = [
        Job(
            f"import time\nt = time.process_time()\nwhile time.process_time() - t < 0.01: pass\nprint({n})",
            ("",),
            limits=Limits(cpu_s=0.2, wall_s=5.0),
        )
        for n in range(100)
    ]
    found = sandbox.run(jobs)
    assert {outcome.verdict for outcomes in found for outcome in outcomes} == {"ok"}
    assert all(0.01 <= outcome.cpu_s < 0.2 for outcomes in found for outcome in outcomes)


def test_s13_from_a_thread_under_warnings_as_errors_after_jit() -> None:
    import jax
    import jax.numpy as jnp

    assert float(jax.jit(lambda x: x + 1)(jnp.float32(1))) == 2
    found: list[Outcome] = []
    failed: list[BaseException] = []

    def score() -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with Sandbox(workers=2) as sandbox:
                    found.extend(
                        outcomes[0] for outcomes in sandbox.run([Job(f"print({n})", ("",)) for n in range(64)])
                    )
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=score)
    thread.start()
    thread.join(60)
    assert not failed
    assert [outcome.output for outcome in found] == [f"{n}\n" for n in range(64)]


def test_s14_a_large_parent_and_a_child_with_numpy() -> None:
    import mmap

    no_reserve = 0x4000  # counted as mapped, never as used
    with mmap.mmap(-1, 40 << 30, flags=mmap.MAP_PRIVATE | no_reserve), Sandbox(workers=1) as sandbox:
        outcome = sandbox.run([Job("import numpy\nprint(numpy.arange(4).sum())", ("",), limits=Limits(10.0, 1024))])[0][
            0
        ]
    assert outcome.output == "6\n", outcome
