"""Hidden tests: the type and the reader. Only `erpo_jax.evaluate` opens them; nothing that trains imports this package.

A file is JSON Lines, one problem a line, joined to `Problem` by `id`:

    {"id": ..., "kind": "stdin", "cases": [{"input": text, "output": text}, ...]}
    {"id": ..., "kind": "function", "entry_point": name, "cases": [{"input": "[1, 2]", "output": "3"}, ...]}
    {"id": ..., "kind": "program", "test": "... {program} ..."}

A function case holds a JSON list of arguments and a JSON value. In "program" the text before and after `{program}` runs
before and after the candidate in one namespace; a check that raises is a failure. `compare` (optional) names the rule
that a case's output is judged by, see `erpo_jax.evaluate.rules`.
Left out: checkers for several answers and generated tests in files of their own.
"""

from __future__ import annotations

import json
from collections.abc import Collection
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

    def line(self) -> str:
        """This as one line of a hidden-tests file."""
        kept = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        return json.dumps(kept, ensure_ascii=False)


def hidden_path(path: str | Path) -> Path:
    """The file that `path` names; "quickstart" is the set that ships."""
    if str(path) == "quickstart":
        return Path(str(files("erpo_jax"))) / "assets" / "quickstart" / "problems" / "hidden.jsonl"
    return Path(path)


def load_hidden(path: str | Path, ids: Collection[str] | None = None) -> dict[str, HiddenTests]:
    """Hidden tests by problem id; only those of `ids` when given (other lines are not kept in memory).

    Raises EvaluationError with file and line for a line that is not valid, an id that stands twice, or an id of `ids`
    that has no tests.
    """
    file = hidden_path(path)
    if not file.is_file():
        raise EvaluationError(f"there is no hidden-tests file {file}")
    wanted = None if ids is None else set(ids)
    found: dict[str, HiddenTests] = {}
    with file.open(encoding="utf-8") as lines:
        for number, text in enumerate(lines, 1):
            if not text.strip():
                continue
            where = f"{file}:{number}"
            try:
                row = json.loads(text)
            except ValueError as error:
                raise EvaluationError(f"{where}: not valid JSON: {error}") from error
            tests = _read(row, where)
            if wanted is not None and tests.id not in wanted:
                continue
            if tests.id in found:
                raise EvaluationError(f"{where}: the id {tests.id!r} stands twice in this file")
            found[tests.id] = tests
    missing = sorted((wanted or set()) - set(found))
    if missing:
        raise EvaluationError(f"{file} has no hidden tests for {len(missing)} problem(s), the first is {missing[0]!r}")
    return found


def _read(row: Any, where: str) -> HiddenTests:
    if not isinstance(row, dict):
        raise EvaluationError(f"{where}: must be an object with id and kind, is {type(row).__name__}")
    known = {"id", "kind", "cases", "entry_point", "test", "compare"}
    unknown = sorted(set(row) - known)
    if unknown:
        raise EvaluationError(f"{where}: unknown field {unknown[0]!r}; allowed are {', '.join(sorted(known))}")
    identity = row.get("id")
    if not isinstance(identity, str) or not identity:
        raise EvaluationError(f"{where}: 'id' must be a text that is not empty, is {identity!r}")
    kind = _KINDS.get(row.get("kind"))
    if kind is None:
        raise EvaluationError(f"{where}: 'kind' is {row.get('kind')!r}; allowed are {', '.join(_KINDS)}")
    rule = row.get("compare", "key")
    if rule not in RULES:
        raise EvaluationError(f"{where}: 'compare' is {rule!r}; allowed are {', '.join(sorted(RULES))}")
    entry_point, test = row.get("entry_point"), row.get("test")
    if kind == "function" and not (isinstance(entry_point, str) and entry_point):
        raise EvaluationError(f"{where}: kind 'function' needs 'entry_point', the name to call")
    if kind == "program":
        if not isinstance(test, str) or test.count(PLACE) != 1:
            raise EvaluationError(f"{where}: kind 'program' needs 'test', a text with {PLACE} in it exactly once")
        return HiddenTests(identity, kind, (), entry_point, test, rule)
    return HiddenTests(identity, kind, _cases(row.get("cases"), kind, where), entry_point, None, rule)


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
