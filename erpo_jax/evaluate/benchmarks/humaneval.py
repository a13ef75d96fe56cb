"""HumanEval: complete a Python function from its signature and docstring; hidden are the asserts of its `check`.

By the official rule a program is `prompt + completion`, run with `check(entry_point)` after it, 3 seconds in all. A
chat model writes the function whole, so what stands before it in the prompt (imports, helper functions) runs before the
program, and the prompt's own stub is left away. Public tests are the docstring's examples whose arguments and value
JSON can carry. A few docstrings contradict the reference (HumanEval/47, 116, 130); they stay as published.
"""

from __future__ import annotations

import ast
import doctest
import json
import re
from typing import Any

from erpo_jax.evaluate.benchmarks.row import BadRow, Split, text
from erpo_jax.evaluate.hidden import PLACE, HiddenTests
from erpo_jax.evaluate.solutions import Solution
from erpo_jax.problems import Example, Problem

TIME_LIMIT_S = 3.0
_SIGN = re.compile(r"==|=>|->|=|➞|→|\breturns?\b|\bshould return\b")


def split(row: Any, release: str, index: int = 0) -> Split:
    """The two views of a row of HumanEval.jsonl. Raises BadRow."""
    prompt, entry_point, test = text(row, "prompt"), text(row, "entry_point"), text(row, "test")
    stub = _function(prompt, entry_point)
    preamble = "\n".join(prompt.split("\n")[: stub.lineno - 1]).strip()
    problem = Problem(
        id=text(row, "task_id"),
        statement=f"Complete the Python function `{entry_point}`.\n\n```python\n{prompt.strip()}\n```",
        mode="function",
        entry_point=entry_point,
        starter_code=prompt,
        public_tests=public_tests(ast.get_docstring(stub) or "", entry_point),
        time_limit_s=TIME_LIMIT_S,
        source=f"openai_humaneval {release}".strip(),
    )
    check = f"{preamble}\n\n{PLACE}\n\n{test.strip()}\n\ncheck({entry_point})\n".lstrip()
    solution = Solution(prompt + text(row, "canonical_solution"), True, "humaneval reference")
    return Split(problem, HiddenTests(problem.id, "program", (), entry_point, check), (solution,))


def _function(prompt: str, entry_point: str) -> ast.FunctionDef:
    try:
        tree = ast.parse(prompt)
    except (SyntaxError, ValueError) as error:
        raise BadRow(f"the prompt is not Python: {error}") from error
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == entry_point:
            return node
    raise BadRow(f"the prompt does not define {entry_point!r}")


def public_tests(docstring: str, entry_point: str) -> tuple[Example, ...]:
    """The examples of a docstring as JSON, those alone that come back from JSON as they were.

    Two forms are read: doctest's `>>> f(1)` with the value below it, and `f(1) == 2` on one line (also with `=`, `=>`,
    `->`, an arrow sign, `returns`, `should return`).
    """
    try:
        pairs = [(one.source, one.want) for one in doctest.DocTestParser().get_examples(docstring)]
    except ValueError:  # a docstring that doctest cannot read
        pairs = []
    for line in docstring.split("\n"):
        start = line.find(f"{entry_point}(")
        if start >= 0:
            pairs += [(line[start : sign.start()], line[sign.end() :]) for sign in _SIGN.finditer(line, start)]
    found = []
    for call, value in pairs:
        arguments = call_arguments(call.strip(), entry_point)
        expected = json_literal(value.strip())
        if arguments is not None and expected is not None:
            found.append(Example(arguments, expected))
    return tuple(dict.fromkeys(found))


def call_arguments(source: str, entry_point: str) -> str | None:
    """The arguments of the expression `entry_point(literal, ...)` as a JSON list, or None for any other source."""
    try:
        call = ast.parse(source, mode="eval").body
    except SyntaxError:
        return None
    if (
        not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == entry_point)
        or call.keywords
    ):
        return None
    values = [json_literal(ast.unparse(argument)) for argument in call.args]
    return None if None in values else f"[{', '.join(value for value in values if value is not None)}]"


def json_literal(source: str) -> str | None:
    """A Python literal as JSON text, or None when it is no literal or JSON would change it (tuples, sets, int keys)."""
    try:
        value = ast.literal_eval(source)
        encoded = json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return encoded if _same(json.loads(encoded), value) else None


def _same(back: Any, value: Any) -> bool:
    if type(back) is not type(value):
        return False
    if isinstance(value, list):
        return len(back) == len(value) and all(map(_same, back, value))
    if isinstance(value, dict):
        return list(back) == list(value) and all(_same(back[name], value[name]) for name in value)
    return bool(back == value)
