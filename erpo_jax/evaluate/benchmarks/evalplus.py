"""HumanEval+ and MBPP+ (EvalPlus): the problems of HumanEval and MBPP with many more tests.

Two layouts are read. The releases' own (`base_input`, `plus_input`) stores no outputs: the hidden test runs the
reference and compares by EvalPlus's rule, `evalplus_check.py`. The hub's rows hold a self-contained `test`, read like
HumanEval's and MBPP's (MBPP+'s imports numpy).
Left out: `contract` (it guards inputs, and these are right already), and a time limit for each single input: one limit
covers the whole check.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from importlib.resources import files
from typing import Any

from erpo_jax.evaluate.benchmarks import humaneval, mbpp
from erpo_jax.evaluate.benchmarks.row import BadRow, Split, number, text, texts
from erpo_jax.evaluate.hidden import PLACE, HiddenTests
from erpo_jax.evaluate.solutions import Solution
from erpo_jax.problems import Problem

TIME_LIMIT_S = 20.0
SLOW = {"Mbpp/599": 120.0}
"""Tasks whose reference alone needs more (sums of 10^8 numbers)."""
MEMORY_LIMIT_MB = 4096
"""EvalPlus's own; the reference of Mbpp/255 needs 2.2 GB."""

_RULES = {
    "HumanEval/32": "root",
    "Mbpp/164": "anything",
    "Mbpp/295": "or zero",
    "Mbpp/581": "pyramid",
    "Mbpp/558": "digit by digit",
    **dict.fromkeys(
        ("Mbpp/2", "Mbpp/7", "Mbpp/111", "Mbpp/140", "Mbpp/232", "Mbpp/249", "Mbpp/579", "Mbpp/769"), "as sets"
    ),
}
_NOT_NONE = ("check_str", "text_match_three", "text_starta_endb")

# JSON has no tuples, sets and complex numbers. How EvalPlus restores MBPP+'s arguments, by task: an expression of the
# list of arguments `a`; `t` makes a tuple, `tt` one all the way down.
_RESTORED = {
    "[t(x) for x in a]": (
        2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809,
    ),
    "[[t(x) for x in y] for y in a]": (63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780),
    "[[t(x) for x in a[0]], a[1]]": (75, 413, 444, 753),
    "[a[0], t(a[1])]": (106, 750),
    "[[set(x) if isinstance(x, list) and x else {} for x in a[0]]]": (115,),
    "[float(a[0]), complex(a[1])]": (124,),
    "[t(a[0]), *a[1:]]": (250, 307, 405, 446, 617, 720, 763, 808),
    "[complex(a[0])]": (252,),
    "[t(t(x) for x in y) for y in a]": (259, 401, 445),
    "[t(t(x) if isinstance(x, list) else x for x in a[0])]": (278,),
    "[tt(x) for x in a]": (580, 615, 791),
    "[{name: t(x) for name, x in a[0].items()}, *a[1:]]": (722,),
}  # fmt: skip
_PLAIN = "a"
_RESTORE = {f"Mbpp/{task}": expression for expression, tasks in _RESTORED.items() for task in tasks}


def split_humaneval(row: Any, release: str, index: int = 0) -> Split:
    """The views of a row of HumanEvalPlus.jsonl or of the hub's evalplus/humanevalplus. Raises BadRow."""
    problem, tests, _ = humaneval.split(row, release)
    problem = _renamed(problem, "humaneval", release)
    reference = text(row, "prompt") + text(row, "canonical_solution")
    if "plus_input" in row:
        before = tests.test.partition(PLACE)[0] if tests.test else ""
        tests = HiddenTests(problem.id, "program", (), problem.entry_point, before + _check(row, problem, reference))
    elif problem.id == "HumanEval/32":
        raise BadRow("the self-contained test of find_zero passes for no root; use the release's own file")
    return Split(problem, tests, (Solution(reference, True, "evalplus reference"),))


def split_mbpp(row: Any, release: str, index: int = 0) -> Split:
    """The views of a row of MbppPlus.jsonl or of the hub's evalplus/mbppplus. Raises BadRow."""
    if isinstance(row, dict) and "plus_input" not in row:
        problem, tests, _ = mbpp.split(row, release)
        check = "\n".join([*texts(row, "test_imports"), PLACE, text(row, "test"), ""])
        problem = _renamed(problem, "mbpp", release)
        reference = text(row, "code")
        tests = HiddenTests(problem.id, "program", (), problem.entry_point, check)
    else:
        statement, entry_point = text(row, "prompt").strip().strip('"').strip(), text(row, "entry_point")
        reference = text(row, "canonical_solution")
        lines = [line for line in statement.split("\n") if line.startswith("assert")]
        problem = Problem(
            id=text(row, "task_id"),
            statement=statement,
            mode="function",
            entry_point=entry_point,
            public_tests=mbpp.public_test(lines[0], entry_point) if lines else (),
        )
        problem = _renamed(problem, "mbpp", release)
        tests = HiddenTests(problem.id, "program", (), entry_point, _check(row, problem, reference))
    return Split(problem, tests, (Solution(reference, True, "evalplus reference"),))


def _renamed(problem: Problem, name: str, release: str) -> Problem:
    return replace(
        problem,
        source=f"evalplus {name} {release}".strip(),
        time_limit_s=SLOW.get(problem.id, TIME_LIMIT_S),
        memory_limit_mb=MEMORY_LIMIT_MB,
    )


def _check(row: Any, problem: Problem, reference: str) -> str:
    """The program's place and, after it, EvalPlus's check on all inputs."""
    parts = [row.get(name) or [] for name in ("base_input", "plus_input")]
    inputs = [one for part in parts if isinstance(part, list) for one in part]
    if not inputs or not all(isinstance(one, list) for one in [*parts, *inputs]):
        raise BadRow("base_input and plus_input must be lists of argument lists, and not both empty")
    entry_point, atol = problem.entry_point, number(row, "atol")
    rule = "not none" if entry_point in _NOT_NONE else _RULES.get(problem.id)
    source = (files(__package__) / "evalplus_check.py").read_text(encoding="utf-8")
    return f"""{PLACE}

def _inputs():
    import json
    t = tuple
    def tt(x):
        return tuple(map(tt, x)) if isinstance(x, list) else x
    return [{_RESTORE.get(problem.id, _PLAIN)} for a in json.loads({json.dumps(inputs)!r})]

_check, _reference = {{}}, {{}}
exec({source!r}, _check)
exec({reference!r}, _reference)
_check["check"]({entry_point}, _reference[{entry_point!r}], _inputs(), {atol!r}, {rule!r})
"""


_INPUTS = re.compile(r"^    return \[(.+) for a in json\.loads\(('.*'|\".*\")\)\]$", re.MULTILINE)


def inputs_of(test: str) -> tuple[str, ...] | None:
    """The argument lists, as JSON, of a hidden test that was made here; none where JSON cannot carry them. None for
    any other test."""
    found = _INPUTS.search(test)
    if found is None:
        return None
    rows = json.loads(ast.literal_eval(found[2])) if found[1] == _PLAIN else []
    return tuple(json.dumps(arguments) for arguments in rows)
