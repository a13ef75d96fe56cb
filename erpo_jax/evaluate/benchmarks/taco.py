"""TACO (BAAI/TACO) and APPS (codeparrot/apps): one layout, standard input or a function named by `fn_name`.

All columns are texts; `solutions` and `input_output` hold JSON (or a Python literal, or JSON of JSON, in mirrors). A
program passes when it passes all tests by the official comparison (rule `apps`), which forgives the order of lines and
of tokens. Public are the tests that the statement shows. TACO's rows have no id: theirs is their place in the files.
Left out: arguments that are objects with integer keys, which JSON turned into texts; difficulty, tags and skills.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.benchmarks.row import BadRow, Split, examples_in, text, text_or_none, unix
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import Case, HiddenTests
from erpo_jax.evaluate.reading import read_rows
from erpo_jax.evaluate.solutions import Solution
from erpo_jax.problems import Problem

TACO_TIME_LIMIT_S = 10.0
APPS_TIME_LIMIT_S = 4.0
SPECIAL_JUDGE = {
    0: "needs a special judge",
    1: "several answers are right, one is accepted",
    2: "letter case does not count",
    3: "numbers are right within a tolerance",
}


def split_taco(row: Any, release: str, index: int = 0) -> Split:
    """The views of TACO's row number `index`. Raises BadRow."""
    date = row.get("date") if isinstance(row, dict) else None
    day = re.match(r"\d{4}-\d\d-\d\d", date) if isinstance(date, str) else None
    return _split(row, f"taco/{index}", "taco", release, TACO_TIME_LIMIT_S, day[0] if day else None)


def split_apps(row: Any, release: str, index: int = 0) -> Split:
    """The views of a row of APPS. Raises BadRow."""
    number = row.get("problem_id") if isinstance(row, dict) else None
    if not isinstance(number, (int, str)):
        raise BadRow(f"field 'problem_id' is {type(number).__name__}, must be a number")
    return _split(row, f"apps/{number}", "apps", release, APPS_TIME_LIMIT_S, None)


def special_judge(file: Path) -> dict[int, str]:
    """Why a row of TACO's test split cannot be judged by comparison, by its index: the published list
    output_spj.jsonl. Raises EvaluationError for another file."""
    try:
        rows = [row for _, row in read_rows(file)]
        return {int(row["idx"]): SPECIAL_JUDGE[row["case"]] for row in rows if row["special_judge"]}
    except (TypeError, KeyError, ValueError) as error:
        raise EvaluationError(f"{file} is not TACO's list of special judges: needs idx, special_judge, case") from error


def folder_rows(folder: Path) -> Iterator[tuple[str, Any]]:
    """Rows of APPS as it lies on disk: a folder a problem."""
    for question in sorted(folder.glob("*/question.txt")):
        row: dict[str, Any] = {"problem_id": question.parent.name, "question": question.read_text(encoding="utf-8")}
        for column, name in (
            ("solutions", "solutions.json"),
            ("input_output", "input_output.json"),
            ("starter_code", "starter_code.py"),
        ):
            file = question.parent / name
            row[column] = file.read_text(encoding="utf-8") if file.is_file() else ""
        yield f"{folder.name}/{question.parent.name}", row


def _split(row: Any, identity: str, name: str, release: str, time_limit_s: float, date: str | None) -> Split:
    statement = text(row, "question")
    tests = _decoded(row.get("input_output"), "input_output")
    if not isinstance(tests, dict):
        raise BadRow("has no tests" if tests is None else "input_output must hold inputs and outputs")
    inputs, outputs = tests.get("inputs"), tests.get("outputs")
    if not (isinstance(inputs, list) and isinstance(outputs, list) and len(inputs) == len(outputs)):
        raise BadRow("input_output must hold the lists inputs and outputs, of one length")
    if not inputs:
        raise BadRow("has no tests")
    function = tests.get("fn_name")
    if function is None:
        pairs = list(zip(map(_lines, inputs), map(_lines, outputs), strict=True))
        public = examples_in(statement, pairs)
    else:
        if not isinstance(function, str) or not function.isidentifier():
            raise BadRow(f"fn_name is {function!r}, must be the name of a function")
        pairs = list(zip(map(_arguments, inputs), map(json.dumps, outputs), strict=True))
        public = ()
    problem = Problem(
        id=identity,
        statement=statement,
        mode="stdin" if function is None else "function",
        entry_point=function,
        starter_code=(text_or_none(row, "starter_code") or "").rstrip() or None,
        public_tests=public,
        time_limit_s=time_limit_s,
        source=f"{name} {release}".strip(),
        date=date,
    )
    cases = tuple(Case(given, expected) for given, expected in dict.fromkeys(pairs))
    programs = _decoded(row.get("solutions"), "solutions") or []
    if not isinstance(programs, list) or not all(isinstance(program, str) for program in programs):
        raise BadRow("solutions must be a list of texts")
    solutions = tuple(Solution(unix(program), True, f"{name} solutions") for program in programs)
    return Split(problem, HiddenTests(identity, problem.mode, cases, function, compare="apps"), solutions)


def _decoded(field: Any, name: str) -> Any:
    """What the field holds, however often it was wrapped; None for an empty one."""
    while isinstance(field, str):
        if not field.strip():
            return None
        try:
            field = json.loads(field)
        except ValueError:
            try:
                field = ast.literal_eval(field)
            except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
                raise BadRow(f"{name} is neither JSON nor a Python literal: {error}") from error
    return field


def _lines(value: Any) -> str:
    """One input or output: a text, or a list of lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "\n".join(value)
    if not isinstance(value, str):
        raise BadRow(f"an input or output is a {type(value).__name__}, must be a text or a list of lines")
    return unix(value)


def _arguments(value: Any) -> str:
    if not isinstance(value, list):
        raise BadRow(f"arguments are a {type(value).__name__}, must be a list")
    if len(value) == 1 and isinstance(value[0], dict) and value[0] and all(map(_integer, value[0])):
        raise BadRow("an argument has integer keys, which JSON turned into texts")
    return json.dumps(value)


def _integer(key: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d+\s*", key) is not None
