"""Problem files: JSON Lines (plain or .gz), one `Problem` a line. Every mistake is named with file, line and field.

Left out on purpose: the published data sets' own layouts, and hidden tests in any form. A file that holds hidden tests
is refused whole, so that no code that trains can come to read one by accident.
"""

from __future__ import annotations

import dataclasses
import difflib
import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from erpo_jax.errors import UserError
from erpo_jax.problems.problem import Example, Problem

QUICKSTART_PROBLEMS = Path(__file__).parent.parent / "assets" / "quickstart" / "problems" / "problems.jsonl"

_FIELDS = tuple(item.name for item in dataclasses.fields(Problem))
_OPTIONAL_TEXTS = ("entry_point", "starter_code", "input_constraints", "date")


class ProblemError(UserError):
    """A problem file that cannot be used: the message names file, line, field, value, and what is allowed."""


def load_problems(path: str | Path) -> list[Problem]:
    """The problems of a JSON Lines file (`.gz` allowed), in file order; "quickstart" is the set that ships.

    Blank lines are passed over. Raises ProblemError: no such file, not JSON, an unknown or missing field, a value of
    the wrong type or out of range, an id used twice, no problem at all, or a field of hidden tests.
    """
    file = QUICKSTART_PROBLEMS if str(path) == "quickstart" else Path(path)
    problems: list[Problem] = []
    first_line: dict[str, int] = {}
    for number, line in _lines(file):
        where = f"{file}:{number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ProblemError(f"{where}: not JSON ({error}); a problem file has one JSON object a line") from error
        problem = _problem(row, where)
        if problem.id in first_line:
            raise ProblemError(f"{where}: id {problem.id!r} stands in line {first_line[problem.id]} already")
        first_line[problem.id] = number
        problems.append(problem)
    if not problems:
        raise ProblemError(f"{file} holds no problem; it needs one JSON object a line with at least id and statement")
    return problems


def save_problems(path: str | Path, problems: Iterable[Problem]) -> None:
    """Write a file that `load_problems` reads back to equal problems; gzip when the name ends in .gz."""
    file = Path(path)
    text = "".join(json.dumps(dataclasses.asdict(problem), ensure_ascii=False) + "\n" for problem in problems)
    data = text.encode()
    # mtime=0: the same problems make the same bytes.
    file.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    if not file.is_file():
        folder = file.parent
        near = difflib.get_close_matches(file.name, [p.name for p in folder.glob("*.jsonl*")], n=1)
        hint = f"; did you mean {folder / near[0]}?" if near else " (a JSONL file, or 'quickstart')"
        raise ProblemError(f"there is no problem file {file}{hint}")
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        text = data.decode()
    except (OSError, EOFError, zlib.error) as error:
        raise ProblemError(f"{file} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise ProblemError(f"{file} is not UTF-8 text (byte {error.start})") from error
    # Not splitlines(): a JSON string may hold U+2028 and its like.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _problem(row: Any, where: str) -> Problem:
    if not isinstance(row, dict):
        _refuse(where, None, row, "each line is one JSON object")
    for name in row:
        if "hidden" in name.lower() or "private" in name.lower():
            raise ProblemError(
                f"{where}: field {name!r}: hidden tests never stand in a problem file, because training reads it; "
                "put them in a file of their own for evaluate.hidden"
            )
        if name not in _FIELDS:
            near = difflib.get_close_matches(name, _FIELDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; fields are {', '.join(_FIELDS)}"
            raise ProblemError(f"{where}: unknown field {name!r}{hint}")
    for name in ("id", "statement"):
        if name not in row:
            raise ProblemError(f"{where}: field {name!r} is missing; every problem has an id and a statement")
        if not isinstance(row[name], str) or not row[name].strip():
            _refuse(where, name, row[name], "a text that is not empty")
    values = {name: value for name, value in row.items() if name != "public_tests"}
    _check_texts(values, where)
    if values.get("mode", "stdin") not in ("stdin", "function"):
        near = difflib.get_close_matches(str(values["mode"]), ("stdin", "function"), n=1)
        _refuse(where, "mode", values["mode"], "'stdin' or 'function'" + (f"; did you mean {near[0]}?" if near else ""))
    function = values.get("mode") == "function"
    if function and not str(values.get("entry_point") or "").isidentifier():
        _refuse(where, "entry_point", values.get("entry_point"), "the name of the function, in mode 'function'")
    for name in ("time_limit_s", "memory_limit_mb"):
        if name in values:
            values[name] = _limit(values[name], name, where)
    tests = _public_tests(row.get("public_tests", []), function, where)
    return Problem(**values, public_tests=tests)


def _check_texts(values: dict[str, Any], where: str) -> None:
    for name in _OPTIONAL_TEXTS:
        if not isinstance(values.get(name), (str, type(None))):
            _refuse(where, name, values[name], "a text or null")
    if not isinstance(values.get("source", ""), str):
        _refuse(where, "source", values["source"], "a text")


def _limit(value: Any, name: str, where: str) -> float | int:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        _refuse(where, name, value, "a number above 0" + (" (CPU seconds)" if name == "time_limit_s" else " (MiB)"))
    if name == "time_limit_s":
        return float(value)
    if value != int(value):
        _refuse(where, name, value, "a whole number of MiB")
    return int(value)


def _public_tests(tests: Any, function: bool, where: str) -> tuple[Example, ...]:
    if not isinstance(tests, list):
        _refuse(where, "public_tests", tests, 'a list of {"input": text, "output": text}')
    examples = []
    for index, test in enumerate(tests):
        name = f"public_tests[{index}]"
        if not isinstance(test, dict) or set(test) != {"input", "output"}:
            _refuse(where, name, test, '{"input": text, "output": text} and nothing else')
        for part in ("input", "output"):
            if not isinstance(test[part], str):
                _refuse(where, f"{name}.{part}", test[part], "a text (in mode 'function' a text of JSON)")
        if function:
            _check_function_example(test, name, where)
        examples.append(Example(test["input"], test["output"]))
    return tuple(examples)


def _check_function_example(test: dict[str, str], name: str, where: str) -> None:
    for part, what in (("input", "a JSON list of the arguments, such as [[1, 2], 3]"), ("output", "one JSON value")):
        try:
            value = json.loads(test[part])
        except ValueError:
            _refuse(where, f"{name}.{part}", test[part], f"{what}, in mode 'function'")
        if part == "input" and not isinstance(value, list):
            _refuse(where, f"{name}.input", test[part], f"{what}, in mode 'function'")


def _refuse(where: str, name: str | None, value: Any, allowed: str) -> NoReturn:
    shown = json.dumps(value, ensure_ascii=False)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    raise ProblemError(f"{where}: {f'field {name!r} is ' if name else 'found '}{shown}; allowed: {allowed}")
