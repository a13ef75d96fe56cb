"""Verdicts on hidden tests: right, wrong, and every way of leaving a check early."""

import gzip
import json

import pytest

from erpo_jax.evaluate.checks import checked_program
from erpo_jax.evaluate.estimates import EvaluationError, mean_pass_at_k
from erpo_jax.evaluate.grade import Grader, problem_limits
from erpo_jax.evaluate.hidden import Case, HiddenTests
from erpo_jax.evaluate.measurement import count
from erpo_jax.problems import Problem
from erpo_jax.sandbox import Outcome, Sandbox

DOUBLE = Problem("double", "Print twice the number.", time_limit_s=1.0)
DOUBLE_TESTS = HiddenTests("double", "stdin", tuple(Case(f"{n}\n", f"{2 * n}\n") for n in range(5)))
ADD = Problem("add", "Add.", mode="function", entry_point="add", time_limit_s=1.0)
ADD_TESTS = HiddenTests("add", "function", (Case("[1, 2]", "3"), Case("[[1], [2]]", "[1, 2]")), "add")
CHECKED = Problem("checked", "Add.", mode="function", entry_point="add", time_limit_s=1.0)
CHECKED_TESTS = HiddenTests(
    "checked",
    "program",
    (),
    "add",
    "import math\n\n{program}\n\n"
    "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(-1, 1) == 0\n\ncheck(add)\n",
)
PROBLEMS = [DOUBLE, ADD, CHECKED]
HIDDEN = {tests.id: tests for tests in (DOUBLE_TESTS, ADD_TESTS, CHECKED_TESTS)}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2) as opened:
        yield opened


class Counting:
    """A sandbox that counts executions and can be made to fail."""

    def __init__(self, sandbox, faulty=lambda job: False):
        self.sandbox, self.faulty, self.inputs = sandbox, faulty, []

    def stream(self, jobs):
        handed = []

        def counted():
            for job in jobs:
                handed.append(job)
                self.inputs += [(job.program, text) for text in job.inputs]
                yield job

        for index, row in self.sandbox.stream(counted()):
            yield index, [Outcome("sandbox_error")] * len(row) if self.faulty(handed[index]) else row


def grade(sandbox, name, *programs):
    return Grader(sandbox, PROBLEMS, HIDDEN).grade({name: programs})[name]


def test_standard_input(sandbox):
    assert grade(
        sandbox,
        "double",
        "print(2 * int(input()))",
        "print(int(input()) ** 2)",  # right for 0 and 2 alone
        "print(2 * int(input()), end=' ')",
        "print(2.0 * int(input()))",
        "while True: pass",
        "syntax error",
        None,
        "import os; print(2 * int(input()), flush=True); os._exit(1)",
    ) == [True, False, True, True, False, False, False, False]


def test_functions(sandbox):
    assert grade(
        sandbox,
        "add",
        "def add(a, b): return a + b",
        "class Solution:\n    def add(self, a, b): return a + b",
        "def add(a, b): return a + b if isinstance(a, int) else tuple(a + b)",
        "def add(a, b): return 3",
        "def plus(a, b): return a + b",
    ) == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("program", "passes"),
    [
        ("def add(a, b): return a + b", True),
        ("from __future__ import annotations\ndef add(a: X, b): return a + b", True),
        ("def add(a, b): return round(math.fsum([a, b]))", True),  # the check's imports are there
        ("print('noise')\ndef add(a, b):\n    print(a)\n    return a + b", True),
        ("def add(a, b): return a + b\nif __name__ == '__main__':\n    add(*map(int, input().split()))", True),
        ("def add(a, b): return a - b", False),
        ("import sys; sys.exit(0)\ndef add(a, b): return a + b", False),
        ("import os; os._exit(0)", False),
        ("def add(a, b): raise SystemExit(0)", False),
        ("def add(a, b):\n    import os\n    os._exit(0)", False),
        ("def add(a, b): return a + b\nx = '''", False),
        ("def add(a, b): return a + b\n'''", False),
        ("", False),
        ("class Any:\n    def __eq__(self, other): return False\ndef add(a, b): return Any()", False),
        ("import sys\ndef add(a, b):\n    sys.stdout.write('proof')\n    sys.exit(0)", False),
    ],
)
def test_checks(sandbox, program, passes):
    assert grade(sandbox, "checked", program) == [passes]


def test_the_proof_differs_from_program_to_program():
    seen = set()

    class Spy:
        def stream(self, jobs):
            for index, job in enumerate(jobs):
                seen.add(job.program)
                yield index, [Outcome("ok", "0" * 32)]

    assert grade(Spy(), "checked", "a = 1") == [False]
    assert grade(Spy(), "checked", "a = 1") == [False]
    assert len(seen) == 2


def test_a_check_holds_the_program_as_it_stands():
    odd = 's = \'{program} {x} \\\\ """\'\n'
    assert repr(odd) in checked_program("{program}\nassert s", odd, "p")


def test_a_program_may_return_where_the_publisher_runs_it_in_a_function(sandbox):
    """APPS and TACO: two of five real solutions of apps/2287 do."""
    programs = (
        "from math import *\nn = int(input())\ndef double(n): return 2 * n\nprint(double(n))\nif n < 9: return\n1/0",
        "return print(3)",
        "print(2 * int(input()))",
    )
    found = []
    for compare in ("apps", "key"):
        tests = HiddenTests("double", "stdin", DOUBLE_TESTS.cases, compare=compare)
        found.append(Grader(sandbox, [DOUBLE], {"double": tests}).grade({"double": programs})["double"])
    assert found == [[True, False, True], [False, False, True]]


def test_equal_programs_run_once_and_failures_stop_early(sandbox):
    counting = Counting(sandbox)
    grader = Grader(counting, PROBLEMS, HIDDEN)
    wrong, right = "print(1)", "print(2 * int(input()))"
    assert grader.grade({"double": [wrong, right, wrong, wrong]}) == {"double": [False, True, False, False]}
    assert [text for program, text in counting.inputs if program == wrong] == ["0\n"]
    assert sorted(text for program, text in counting.inputs if program == right) == [f"{n}\n" for n in range(5)]
    before = len(counting.inputs)
    assert grader.grade({"double": [right, wrong]}) == {"double": [True, False]}
    assert len(counting.inputs) == before


def test_a_failure_of_the_last_test_counts(sandbox):
    assert grade(sandbox, "double", "n = int(input()); print(2 * n if n < 4 else 0)") == [False]


def test_a_sandbox_fault_is_no_verdict_and_is_tried_again(sandbox):
    right, wrong = "print(2 * int(input()))", "print(1)"
    counting = Counting(sandbox, faulty=lambda job: job.program == right)
    grader = Grader(counting, PROBLEMS, HIDDEN)
    verdicts = grader.grade({"double": [right, wrong, None]})
    assert verdicts == {"double": [None, False, False]}
    assert count(verdicts) == {"double": (2, 0)}
    counting.faulty = lambda job: False
    assert grader.grade({"double": [right]}) == {"double": [True]}


def test_a_problem_without_any_verdict_is_not_counted():
    assert count({"a": [None, None], "b": [True, None, False]}) == {"b": (2, 1)}


def test_same_verdicts_with_1_and_8_workers(shared_data):
    jobs = json.loads((shared_data / "sandbox" / "good" / "jobs.json").read_text())[:6]
    problems = [Problem(str(index), "-", time_limit_s=4.0) for index in range(len(jobs))]
    hidden = {
        problem.id: HiddenTests(problem.id, "stdin", tuple(map(Case, job["inputs"][:3], job["outputs"][:3])))
        for problem, job in zip(problems, jobs, strict=True)
    }
    # each problem gets its own program and its neighbours' (wrong here)
    programs = {problem.id: [other["code"] for other in jobs[:4]] for problem in problems}
    found = []
    for workers in (1, 8):
        with Sandbox(workers=workers) as opened:
            found.append(Grader(opened, problems, hidden).grade(programs))
    assert found[0] == found[1]
    assert [found[0][str(index)][index] for index in range(4)] == [True] * 4
    assert sum(map(sum, found[0].values())) < 12


def test_progress_counts_distinct_programs(sandbox):
    told = []
    Grader(sandbox, PROBLEMS, HIDDEN).grade(
        {"double": ["print(1)", "print(1)", "print(2)"]}, lambda *at: told.append(at)
    )
    assert told == [(1, 2), (2, 2)]


def test_mistakes_are_named(sandbox):
    with pytest.raises(EvaluationError, match="problem 'add' has no hidden tests"):
        Grader(sandbox, PROBLEMS, {"double": DOUBLE_TESTS})
    with pytest.raises(EvaluationError, match="'double' is of mode 'stdin', its hidden tests of kind 'function'"):
        Grader(sandbox, [DOUBLE], {"double": ADD_TESTS})
    with pytest.raises(EvaluationError, match="programs for 'other'"):
        Grader(sandbox, PROBLEMS, HIDDEN).grade({"other": ["x"]})


def test_limits_come_from_the_problem():
    limits = problem_limits(Problem("a", "-", time_limit_s=3.5, memory_limit_mb=77))
    assert (limits.cpu_s, limits.memory_mb) == (3.5, 77)


def test_humaneval_verdicts_agree_with_the_published_ones(shared_data, sandbox):
    """Samples of a 16B model with official verdicts, every 20th problem: the program is prompt + raw completion."""
    from erpo_jax.evaluate.benchmarks import humaneval

    data = shared_data / "data"
    with gzip.open(data / "humaneval.jsonl.gz", "rt") as stream:
        rows = {row["task_id"]: row for row in map(json.loads, stream)}
    with gzip.open(data / "humaneval_codegen16b_samples.jsonl.gz", "rt") as stream:
        sampled = [json.loads(line) for line in stream][::20]
    splits = {one["task_id"]: humaneval.split(rows[one["task_id"]], "") for one in sampled}
    grader = Grader(
        sandbox, [views.problem for views in splits.values()], {name: views.tests for name, views in splits.items()}
    )
    checked = disagreed = 0
    for one in sampled:
        name = one["task_id"]
        samples = [sample for sample in one["samples"] if sample["verdict"] != "timeout"][:12]
        verdicts = grader.grade({name: [one["prompt"] + sample["completion"] for sample in samples]})[name]
        for sample, verdict in zip(samples, verdicts, strict=True):
            checked += 1
            disagreed += verdict is not (sample["verdict"] == "pass")
    assert checked > 80
    assert disagreed == 0


def test_references_pass_their_own_benchmark(shared_data, sandbox):
    from erpo_jax.evaluate.benchmarks import humaneval, mbpp

    data = shared_data / "data"
    with gzip.open(data / "humaneval.jsonl.gz", "rt") as stream:
        human = [json.loads(line) for line in stream][::8]
    with gzip.open(data / "mbpp_sanitized.json.gz", "rt") as stream:
        basic = json.load(stream)[::20]
    splits = [humaneval.split(row, "") for row in human] + [mbpp.split(row, "") for row in basic]
    grader = Grader(sandbox, [one[0] for one in splits], {one[0].id: one[1] for one in splits})
    verdicts = grader.grade({one.problem.id: [one.solutions[0].program, "pass"] for one in splits})
    assert [name for name, row in verdicts.items() if row != [True, False]] == []
    assert mean_pass_at_k(list(count(verdicts).values()), 1).value == 0.5
