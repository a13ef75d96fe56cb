"""Problem files: JSON Lines (plain or .gz), one `Problem` a line. Every mistake is named with file, line and field.

Left out on purpose: the published data sets' own layouts, and hidden tests in any form. A file that holds hidden tests
is refused whole, so that no code that trains can come to read one by accident.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import gzip
import json
import keyword
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from erpo_jax.errors import UserError
from erpo_jax.problems.problem import Example, Problem

QUICKSTART_PROBLEMS = Path(__file__).parent.parent / "assets" / "quickstart" / "problems" / "problems.jsonl"

_FIELDS = tuple(item.name for item in dataclasses.fields(Problem))
_OPTIONAL_TEXTS = ("entry_point", "starter_code", "input_constraints", "date")
# An hour and 1 TiB: more is a mistake in the unit (milliseconds, bytes).
_MOST = {"time_limit_s": 3600, "memory_limit_mb": 1_048_576}


class ProblemError(UserError):
    """A problem file that cannot be used: the message names file, line, field, value, and what is allowed."""


def load_problems(path: str | Path) -> list[Problem]:
    """The problems of a JSON Lines file (`.gz` allowed), in file order; "quickstart" is the set that ships.

    Blank lines and a byte order mark at the start are passed over. Raises ProblemError: no such file, not JSON, a field
    unknown, missing or written twice, a value of the wrong type or out of range, a text that UTF-8 cannot hold, an id
    used twice, no problem at all, or a field of hidden tests.
    """
    file = QUICKSTART_PROBLEMS if str(path) == "quickstart" else Path(path)
    problems: list[Problem] = []
    first_line: dict[str, int] = {}
    for number, line in _lines(file):
        where = f"{file}:{number}"
        problem = read_problem(_row(line, where), where)
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


def _row(line: str, where: str) -> Any:
    try:
        return json.loads(line, object_pairs_hook=functools.partial(_once, where))
    except ProblemError:
        raise
    except RecursionError as error:
        raise ProblemError(f"{where}: JSON nested too deeply; a problem is one object of texts and numbers") from error
    except ValueError as error:
        raise ProblemError(f"{where}: not JSON ({error}); a problem file has one JSON object a line") from error


def _once(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ProblemError(f"{where}: field {name!r} stands twice; allowed: each field once")
        found[name] = value
    return found


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    if not file.is_file():
        folder = file.parent
        near = difflib.get_close_matches(file.name, [p.name for p in folder.glob("*.jsonl*")], n=1)
        hint = f"; did you mean {folder / near[0]}?" if near else " (a JSONL file, or 'quickstart')"
        raise ProblemError(f"there is no problem file {file}{hint}")
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        text = data.decode().removeprefix("\ufeff")
    except (OSError, EOFError, zlib.error) as error:
        raise ProblemError(f"{file} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise ProblemError(f"{file} is not UTF-8 text (byte {error.start})") from error
    # Not splitlines(): a JSON string may hold U+2028 and its like.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def read_problem(row: Any, where: str) -> Problem:
    """One problem from a line's object; `where` stands in front of the message. Raises ProblemError."""
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
        _check_utf8(row[name], name, where)
    values = {name: value for name, value in row.items() if name != "public_tests"}
    _check_texts(values, where)
    if values.get("mode", "stdin") not in ("stdin", "function"):
        mode = values["mode"] if isinstance(values["mode"], str) else ""
        near = difflib.get_close_matches(mode, ("stdin", "function"), n=1)
        _refuse(where, "mode", values["mode"], "'stdin' or 'function'" + (f"; did you mean {near[0]}?" if near else ""))
    function = values.get("mode") == "function"
    entry_point = values.get("entry_point") or ""
    if function and (not entry_point.isidentifier() or keyword.iskeyword(entry_point)):
        allowed = "the name of the function (not a keyword of Python), in mode 'function'"
        _refuse(where, "entry_point", values.get("entry_point"), allowed)
    for name in ("time_limit_s", "memory_limit_mb"):
        if name in values:
            values[name] = _limit(values[name], name, where)
    tests = _public_tests(row.get("public_tests", []), function, where)
    return Problem(**values, public_tests=tests)


def _check_texts(values: dict[str, Any], where: str) -> None:
    for name in _OPTIONAL_TEXTS:
        if not isinstance(values.get(name), (str, type(None))):
            _refuse(where, name, values[name], "a text or null")
        _check_utf8(values.get(name) or "", name, where)
    if not isinstance(values.get("source", ""), str):
        _refuse(where, "source", values["source"], "a text")
    _check_utf8(values.get("source", ""), "source", where)


def _check_utf8(text: str, name: str, where: str) -> None:
    """JSON can write half of a surrogate pair; no file and no tokenizer can."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = f"\\u{ord(text[error.start]):04x} as character {error.start + 1}"
        raise ProblemError(
            f"{where}: field {name!r} has the lone surrogate {found}; allowed: text that UTF-8 can hold"
        ) from error


def _limit(value: Any, name: str, where: str) -> float | int:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    inside = number and 0 < value <= _MOST[name]  # also False for NaN
    if name == "time_limit_s":
        if not inside:
            _refuse(where, name, value, f"a number above 0 and at most {_MOST[name]} (CPU seconds)")
        return float(value)
    if not inside or value != int(value):
        _refuse(where, name, value, f"a whole number of MiB, from 1 to {_MOST[name]}")
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
            _check_utf8(test[part], f"{name}.{part}", where)
        if function:
            _check_function_example(test, name, where)
        examples.append(Example(test["input"], test["output"]))
    return tuple(examples)


def _check_function_example(test: dict[str, str], name: str, where: str) -> None:
    for part, what in (("input", "a JSON list of the arguments, such as [[1, 2], 3]"), ("output", "one JSON value")):
        try:
            value = json.loads(test[part])
        except (ValueError, RecursionError):
            _refuse(where, f"{name}.{part}", test[part], f"{what}, in mode 'function'")
        if part == "input" and not isinstance(value, list):
            _refuse(where, f"{name}.input", test[part], f"{what}, in mode 'function'")


def _refuse(where: str, name: str | None, value: Any, allowed: str) -> NoReturn:
    try:
        shown = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    except RecursionError:
        shown = "a value nested too deeply to show"
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    raise ProblemError(f"{where}: {f'field {name!r} is ' if name else 'found '}{shown}; allowed: {allowed}")
