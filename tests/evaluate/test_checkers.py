"""Python checkers, as open-r1/codeforces calls them, and problems with several answers."""

import json

import pytest

from erpo_jax.evaluate.benchmarks import prepare
from erpo_jax.evaluate.checks import checker_input, checker_program
from erpo_jax.evaluate.grade import Grader
from erpo_jax.evaluate.hidden import Case, HiddenTests, load_hidden
from erpo_jax.problems import Problem, load_problems
from erpo_jax.sandbox import Job, Sandbox

# Any two numbers of that sum.
SUM = """\
import sys
def main():
    with open(sys.argv[1]) as given:
        total = int(given.read())
    answer = open(sys.argv[3], "r", encoding="utf-8").read().split()
    print({verdict})
if __name__ == "__main__":
    main()
"""
RIGHT = "len(answer) == 2 and sum(map(int, answer)) == total"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2) as opened:
        yield opened


def grade(sandbox, checker, *programs):
    problem = Problem("sum", "Two numbers of this sum.", time_limit_s=1.0)
    tests = HiddenTests("sum", "stdin", tuple(Case(f"{n}", f"0 {n}") for n in range(3)), checker=checker)
    return Grader(sandbox, [problem], {"sum": tests}).grade({"sum": programs})["sum"]


@pytest.mark.parametrize(
    "verdict", [f"int({RIGHT})", f"100 if {RIGHT} else 99", f"1.0 if {RIGHT} else 0.5", f"'verdict:', int({RIGHT})"]
)
def test_the_verdict_is_on_standard_output(sandbox, verdict):
    programs = (
        "n = int(input()); print(n - 7, 7)",
        "n = int(input()); print(n, n)",
        "print(1, 0)",
        "print('a b')",
        "1/0",
    )
    assert grade(sandbox, SUM.format(verdict=verdict), *programs) == [True, False, False, False, False]


def test_a_checker_that_fails_or_says_nothing_accepts_nothing(sandbox):
    assert grade(sandbox, "raise SystemExit(0)", "print(0)") == [False]
    assert grade(sandbox, "1/0", "print(0)") == [False]
    assert grade(sandbox, "print('yes')", "print(0)") == [False]


def test_a_checker_reads_all_three_files_by_any_way(sandbox):
    checker = (
        "import pathlib, sys\n"
        "one = pathlib.Path(sys.argv[1]).read_text()\n"
        "two = open(sys.argv[2], 'rb').read()\n"
        "three = open(sys.argv[3]).readlines()\n"
        "print(one, two, three)\n"
    )
    text = checker_input("é 1", "2", "3\n4\n")
    outcome = sandbox.run([Job(checker_program(checker), (text,))])[0][0]
    assert (outcome.verdict, outcome.output) == ("ok", "é 1 b'2' ['3\\n', '4\\n']\n")


def test_codeforces_accepts_any_valid_answer(sandbox, shared_data, tmp_path):
    """1594/A: l, l+1, ..., r sum to n. The reference prints (1 - n, n); a single number n is right as well."""
    rows = shared_data / "data" / "schema_rows"
    prepare("codeforces", [rows / "open_r1_codeforces.jsonl"], tmp_path, generated_tests=rows / "generated_tests")
    problems = [problem for problem in load_problems(tmp_path / "problems.jsonl") if problem.id == "1594/A"]
    hidden = load_hidden(tmp_path / "hidden.jsonl")
    frame = "for _ in range(int(input())):\n    n = int(input())\n    print({answer})"
    other = "*((n // 3 - 1, n // 3 + 1) if n % 3 == 0 else (1 - n, n))"
    verdicts = Grader(sandbox, problems, hidden).grade(
        {"1594/A": [frame.format(answer=answer) for answer in ("1 - n, n", other, "n, n", "-n, n")]}
    )
    assert verdicts["1594/A"] == [True, True, False, False]
    assert "-1 2" in json.dumps([case.output for case in hidden["1594/A"].cases])  # what plain comparison would ask for
