"""MBPP (sanitized or full): a one-line request and three asserts. The first assert is shown, for it alone names the
function.

Usual protocols show all three asserts; here the others are hidden. A program passes, by the official rule, when
all three hold after `test_imports`, the candidate and `test_setup_code`; the shown one is among them.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Any

from erpo_jax.evaluate.benchmarks.humaneval import call_arguments, json_literal
from erpo_jax.evaluate.benchmarks.row import BadRow, Split, text, text_or_none, texts
from erpo_jax.evaluate.hidden import PLACE, HiddenTests
from erpo_jax.evaluate.solutions import Solution
from erpo_jax.problems import Example, Problem

TIME_LIMIT_S = 3.0


def split(row: Any, release: str, index: int = 0) -> Split:
    """The two views of a row of mbpp.jsonl (field `text`) or sanitized-mbpp.json (field `prompt`). Raises BadRow."""
    request = text(row, "prompt" if isinstance(row, Mapping) and "prompt" in row else "text").strip()
    asserts = texts(row, "test_list")
    if len(asserts) < 2:
        raise BadRow(f"test_list has {len(asserts)} assert(s); one is shown, so at least 2 are needed")
    entry_point = _entry_point(asserts[0], text(row, "code"))
    imports = "\n".join(texts(row, "test_imports"))
    # The setup of the two rows that have one uses a class that the program defines: it runs after the program.
    setup = (text_or_none(row, "test_setup_code") or "").strip()
    problem = Problem(
        id=f"Mbpp/{row.get('task_id')}",
        statement=f"{request}\nYour code should pass this test:\n\n{asserts[0]}",
        mode="function",
        entry_point=entry_point,
        public_tests=public_test(asserts[0], entry_point),
        time_limit_s=TIME_LIMIT_S,
        source=f"mbpp {release}".strip(),
    )
    check = "\n".join([imports, PLACE, setup, *asserts, ""]).lstrip()
    solution = Solution(text(row, "code"), True, "mbpp reference")
    return Split(problem, HiddenTests(problem.id, "program", (), entry_point, check), (solution,))


def _entry_point(assertion: str, code: str) -> str:
    """The one function that the assert calls and the reference defines."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in published code are not ours
            tree, test = ast.parse(code), ast.parse(assertion.strip())
        defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        calls = [node.func for node in ast.walk(test) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError) as error:
        raise BadRow(f"the reference or its first assert is not Python: {error}") from error
    named = sorted({call.id for call in calls if isinstance(call, ast.Name)} & defined)
    if not named:
        raise BadRow("the first assert calls nothing that the reference defines")
    return named[0]


def public_test(assertion: str, entry_point: str) -> tuple[Example, ...]:
    """The shown assert as JSON where it is `assert f(literals) == literal`, else none."""
    body = ast.parse(assertion.strip()).body
    test = body[0].test if len(body) == 1 and isinstance(body[0], ast.Assert) else None
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
        return ()
    arguments = call_arguments(ast.unparse(test.left), entry_point)
    value = json_literal(ast.unparse(test.comparators[0]))
    return () if arguments is None or value is None else (Example(arguments, value),)
