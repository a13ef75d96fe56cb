"""The real data sets with programs of known verdicts, as folders that launch/evaluate.py reads.

    python -m tests.evaluate.real_sets SHARED/data OUT            writes the folders below
    python -m tests.evaluate.real_sets SHARED/data OUT --rules    counts where our rules and the publishers' part
    python -m tests.evaluate.real_sets SHARED/data OUT --codet    selectors on a 16B model's samples, nothing executed

OUT/codecontests and OUT/leetcode hold human programs, large models' and one-token mutants (people.jsonl: without the
mutants); OUT/mbpp_mutants and OUT/mbpp_full_mutants hold the references and mutants of them, with the verdict of a
plain process that knows nothing of our sandbox. LeetCode's file is in no publisher's layout, so no loader of the
package knows it.
"""

import ast
import copy
import gzip
import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from erpo_jax.evaluate.benchmarks import livecodebench, mbpp, prepare
from erpo_jax.evaluate.reading import read_rows
from erpo_jax.evaluate.rules import RULES
from erpo_jax.evaluate.selection import Ballot, lines, measure_selectors
from erpo_jax.evaluate.solutions import Solution, load_solutions
from erpo_jax.problems import save_problems
from erpo_jax.sandbox import Job, Limits, Sandbox
from tests.evaluate import published


def rows_of(file: Path) -> Iterator[dict]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def codecontests(data: Path, out: Path) -> Path:
    """53 problems on standard input with 1,054 programs, by CodeContests' rule."""
    folder = out / "codecontests"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row | {"compare": "codecontests"} for row in rows_of(data / "codecontests_stdin.jsonl.gz")]
    source = folder / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepare("own", [source], folder)
    return _without_mutants(folder)


def leetcode(data: Path, out: Path) -> Path:
    """65 LeetCode problems in function mode with 638 programs."""
    pairs, programs = [], {}
    for row in rows_of(data / "lcb_functional.jsonl.gz"):
        columns = row | {
            "public_test_cases": json.dumps(row["public_tests"]),
            "private_test_cases": json.dumps(row["hidden_tests"]),
            "metadata": json.dumps({"func_name": row["fn_name"]}),
        }
        pairs.append(livecodebench.split(columns, "")[:2])
        programs[pairs[-1][0].id] = [
            Solution(one["code"], one["label"] == "correct", one["origin"]) for one in row["candidates"]
        ]
    return _without_mutants(_written(out / "leetcode", pairs, programs))


def mbpp_mutants(data: Path, out: Path, name: str, file: str) -> Path:
    """MBPP's references and two one-token mutants of each, labelled by `passes_plainly`."""
    pairs, programs = [], {}
    for _, row in read_rows(data / file):
        problem, tests, references = mbpp.split(row, "")
        pairs.append((problem, tests))
        imports, setup = row.get("test_imports") or [], row.get("test_setup_code") or ""
        found = programs[problem.id] = []
        for number, program in enumerate([references[0].program, *mutants(references[0].program)]):
            whole = "\n".join([*imports, program, setup, *row["test_list"]])
            found.append(Solution(program, passes_plainly(whole), "mutant" if number else "reference"))
    return _written(out / name, pairs, programs)


def _written(folder: Path, pairs: list, programs: dict[str, list[Solution]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_problems(folder / "problems.jsonl", [problem for problem, _ in pairs])
    (folder / "hidden.jsonl").write_text("".join(tests.line() + "\n" for _, tests in pairs))
    _write(folder / "solutions.jsonl", programs)
    return folder


def _write(file: Path, programs: dict) -> None:
    file.write_text("".join(one.line(name) + "\n" for name, row in programs.items() for one in row))


def _without_mutants(folder: Path) -> Path:
    whole = load_solutions(folder / "solutions.jsonl")
    people = {name: [one for one in row if one.source != "mutant"] for name, row in whole.items()}
    _write(folder / "people.jsonl", people)
    return folder


_NEIGHBOUR = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
              ast.Add: ast.Sub, ast.Sub: ast.Add}  # fmt: skip


class _Mutation(ast.NodeTransformer):
    """Changes place number `place`: a whole number grows by 1, + and - change, a comparison becomes its neighbour."""

    def __init__(self, place: int):
        self.place, self.seen = place, -1

    def _here(self) -> bool:
        self.seen += 1
        return self.seen == self.place

    def visit_Constant(self, node):
        whole = isinstance(node.value, int) and not isinstance(node.value, bool)
        return ast.Constant(node.value + 1) if whole and self._here() else node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if type(node.op) in _NEIGHBOUR and self._here():
            node.op = _NEIGHBOUR[type(node.op)]()
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) == 1 and type(node.ops[0]) in _NEIGHBOUR and self._here():
            node.ops[0] = _NEIGHBOUR[type(node.ops[0])]()
        return node


def mutants(program: str) -> list[str]:
    """The program with one token changed, at its first and at its third place for it, where there are such."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in published code are not ours
        tree = ast.parse(program)
    found = []
    for place in (0, 2):
        mutation = _Mutation(place)
        changed = ast.fix_missing_locations(mutation.visit(copy.deepcopy(tree)))
        if mutation.seen >= place:
            found.append(ast.unparse(changed))
    return found


_PLAIN = """import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
exec(compile(sys.stdin.read(), "program", "exec"), {})
"""


def passes_plainly(program: str) -> bool:
    """Whether the program ends well in a plain process, within 3 s of CPU time."""
    ended = subprocess.run(
        [sys.executable, "-I", "-W", "ignore", "-c", _PLAIN], input=program.encode(), capture_output=True, timeout=300
    )
    return ended.returncode == 0


def rules(data: Path) -> list[str]:
    """Every program of CodeContests on the first six tests of its problem: our rules on its output, beside the
    publishers' comparisons as `published` has them."""
    jobs, tests = [], []
    for row in rows_of(data / "codecontests_stdin.jsonl.gz"):
        first = (row["public_tests"] + row["hidden_tests"])[:6]
        for one in row["candidates"]:
            jobs.append(Job(one["code"], tuple(test["input"] for test in first), limits=Limits(cpu_s=4.0)))
            tests.append(first)
    outputs, agree, accepted = 0, Counter(), Counter()
    held = [(name, name, getattr(published, name)) for name in ("apps", "codecontests", "livecodebench")]
    held.append(("apps", "taco_repository", published.taco_repository))
    with Sandbox() as sandbox:
        for number, outcomes in sandbox.stream(iter(jobs)):
            for test, outcome in zip(tests[number], outcomes, strict=True):
                if outcome.verdict != "ok":
                    continue
                outputs += 1
                for rule, name, comparison in held:
                    theirs = comparison(outcome.output, test["output"])
                    agree[name] += RULES[rule].texts(test["output"], outcome.output) == theirs
                    accepted[name] += theirs
    return [f"{name}: {agree[name]} of {outputs} outputs agree; it accepts {accepted[name]}" for _, name, _ in held]


def codegen_16b(data: Path) -> list[Ballot]:
    """CodeGen-Mono-16B's 100 samples of each HumanEval problem, with the verdicts and the passes of self-written
    asserts that the data set carries."""
    ballots = []
    for row in rows_of(data / "humaneval_codegen16b_samples.jsonl.gz"):
        samples = [sample for sample in row["samples"] for _ in range(sample["count"])]
        passed = np.array([[letter == "1" for letter in sample["passes"]] for sample in samples]).reshape(
            len(samples), -1
        )
        right = np.array([sample["verdict"] == "pass" for sample in samples])
        ballots.append(Ballot(row["task_id"], right, np.where(passed, 1, -1), passed))
    return ballots


if __name__ == "__main__":
    data, out = map(Path, sys.argv[1:3])
    if sys.argv[3:] == ["--rules"]:
        print("\n".join(rules(data)))
    elif sys.argv[3:] == ["--codet"]:
        print("\n".join(lines(measure_selectors(codegen_16b(data), [1, 4, 10, 32, 100]))))
    else:
        for folder in (
            codecontests(data, out),
            leetcode(data, out),
            mbpp_mutants(data, out, "mbpp_mutants", "mbpp_sanitized.json.gz"),
            mbpp_mutants(data, out, "mbpp_full_mutants", "mbpp.jsonl.gz"),
        ):
            print(folder)
