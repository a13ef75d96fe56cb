"""Hidden tests: the type and the reader. Only `erpo_jax.evaluate` opens them; nothing that trains imports this package.

A file is JSON Lines, one problem a line, joined to `Problem` by `id`:

    {"id": ..., "kind": "stdin", "cases": [{"input": text, "output": text}, ...]}
    {"id": ..., "kind": "function", "entry_point": name, "cases": [{"input": "[1, 2]", "output": "3"}, ...]}
    {"id": ..., "kind": "program", "test": "... {program} ..."}

A function case holds a JSON list of arguments and a JSON value. In "program" the text before and after `{program}` runs
before and after the candidate in one namespace; a check that raises is a failure. `compare` (optional) names the rule
that a case's output is judged by, see `erpo_jax.evaluate.rules`; `checker` (optional, stdin) is a Python program that
judges in its place, see `erpo_jax.evaluate.checks`.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.rules import RULES

Kind = Literal["stdin", "function", "program"]
PLACE = "{program}"
_KINDS: dict[Any, Kind] = {kind: kind for kind in get_args(Kind)}


@dataclass(frozen=True)
class Case:
    """One hidden test: what goes in, what must come out (texts; function kind: a JSON argument list and a JSON
    value)."""

    input: str
    output: str


@dataclass(frozen=True)
class HiddenTests:
    """All hidden tests of one problem. `cases` for stdin and function, `test` (text around `{program}`) for program."""

    id: str
    kind: Kind
    cases: tuple[Case, ...] = ()
    entry_point: str | None = None
    test: str | None = None
    compare: str = "key"
    checker: str | None = None

    def line(self) -> str:
        """This as one line of a hidden-tests file."""
        kept = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        return json.dumps(kept, ensure_ascii=False)


def hidden_path(path: str | Path) -> Path:
    """The file that `path` names; "quickstart" is the set that ships."""
    if str(path) == "quickstart":
        return Path(str(files("erpo_jax"))) / "assets" / "quickstart" / "problems" / "hidden.jsonl"
    return Path(path)


class HiddenFile(Mapping[str, HiddenTests]):
    """Hidden tests by problem id. A file may hold gigabytes: what stays in memory are the places of its lines, and the
    problem that was asked for last."""

    def __init__(self, file: Path, places: Mapping[str, tuple[int, int]]):
        self._file, self._places = file, places
        self._last: HiddenTests | None = None

    def __getitem__(self, name: str) -> HiddenTests:
        number, offset = self._places[name]
        if self._last is None or self._last.id != name:
            with self._file.open("rb") as stream, integers_of_any_length():
                stream.seek(offset)
                self._last = _line(stream.readline(), f"{self._file}:{number}")
        return self._last

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def load_hidden(path: str | Path, ids: Collection[str] | None = None) -> HiddenFile:
    """Hidden tests by problem id; only those of `ids` when given. Every line is read once here, and again when asked.

    Raises EvaluationError with file and line for a line that is not valid, an id that stands twice, or an id of `ids`
    that has no tests.
    """
    file = hidden_path(path)
    if not file.is_file():
        raise EvaluationError(f"there is no hidden-tests file {file}")
    wanted = None if ids is None else set(ids)
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    with file.open("rb") as lines, integers_of_any_length():
        for number, data in enumerate(lines, 1):
            start, offset = offset, offset + len(data)
            if not data.strip():
                continue
            name = _line(data, f"{file}:{number}").id
            if wanted is not None and name not in wanted:
                continue
            if name in places:
                raise EvaluationError(f"{file}:{number}: the id {name!r} stands twice in this file")
            places[name] = (number, start)
    missing = sorted((wanted or set()) - set(places))
    if missing:
        raise EvaluationError(f"{file} has no hidden tests for {len(missing)} problem(s), the first is {missing[0]!r}")
    return HiddenFile(file, places)


@contextmanager
def integers_of_any_length() -> Iterator[None]:
    """Published tests hold integers of more than 4300 digits, which Python else refuses to read or write."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def _line(data: bytes, where: str) -> HiddenTests:
    try:
        row = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{where}: not valid JSON: {error}") from error
    return read_tests(row, where)


def read_tests(row: Any, where: str) -> HiddenTests:
    """The hidden tests that a line's object describes; `where` stands in front of the message. Raises
    EvaluationError."""
    if not isinstance(row, dict):
        raise EvaluationError(f"{where}: must be an object with id and kind, is {type(row).__name__}")
    known = {"id", "kind", "cases", "entry_point", "test", "compare", "checker"}
    unknown = sorted(set(row) - known)
    if unknown:
        raise EvaluationError(f"{where}: unknown field {unknown[0]!r}; allowed are {', '.join(sorted(known))}")
    identity = row.get("id")
    if not isinstance(identity, str) or not identity:
        raise EvaluationError(f"{where}: 'id' must be a text that is not empty, is {identity!r}")
    kind = _KINDS.get(str(row.get("kind")))
    if kind is None:
        raise EvaluationError(f"{where}: 'kind' is {row.get('kind')!r}; allowed are {', '.join(_KINDS)}")
    rule = row.get("compare", "key")
    if not isinstance(rule, str) or rule not in RULES:
        near = "".join(f"; did you mean {one}?" for one in difflib.get_close_matches(str(rule), RULES, n=1))
        raise EvaluationError(f"{where}: 'compare' is {rule!r}; allowed are {', '.join(sorted(RULES))}{near}")
    entry_point, test = row.get("entry_point"), row.get("test")
    if kind == "function" and not (isinstance(entry_point, str) and entry_point):
        raise EvaluationError(f"{where}: kind 'function' needs 'entry_point', the name to call")
    checker = row.get("checker")
    if checker is not None and not (isinstance(checker, str) and kind == "stdin"):
        raise EvaluationError(f"{where}: 'checker' must be the text of a Python program, for kind 'stdin'")
    if kind == "program":
        if not isinstance(test, str) or test.count(PLACE) != 1:
            raise EvaluationError(f"{where}: kind 'program' needs 'test', a text with {PLACE} in it exactly once")
        return HiddenTests(identity, kind, (), entry_point, test, rule)
    return HiddenTests(identity, kind, _cases(row.get("cases"), kind, where), entry_point, None, rule, checker)


def _cases(rows: Any, kind: Kind, where: str) -> tuple[Case, ...]:
    if not isinstance(rows, list) or not rows:
        raise EvaluationError(f"{where}: 'cases' must be a list of at least one input and output")
    cases = []
    for index, row in enumerate(rows):
        here = f"{where}: cases[{index}]"
        if not (isinstance(row, dict) and isinstance(row.get("input"), str) and isinstance(row.get("output"), str)):
            raise EvaluationError(f"{here} must be an object with the texts 'input' and 'output'")
        if kind == "function":
            _check_json(row["input"], row["output"], here)
        cases.append(Case(row["input"], row["output"]))
    return tuple(cases)


def _check_json(given: str, expected: str, where: str) -> None:
    try:
        arguments = json.loads(given)
        json.loads(expected)
    except ValueError as error:
        raise EvaluationError(f"{where}: function kind holds JSON in input and output: {error}") from error
    if not isinstance(arguments, list):
        raise EvaluationError(f"{where}: 'input' must be a JSON list of arguments, is {given[:60]!r}")
