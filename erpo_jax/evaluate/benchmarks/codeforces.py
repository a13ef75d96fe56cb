"""open-r1/codeforces: contest problems with checkers, and generated tests in parquet files of their own.

Public are the statement's examples; hidden are the official tests that the site shows whole, and the generated ones
when their folder is given. A problem with `generated_checker` is judged by it, any other token by token. Time and
memory limits are for C++.
Left out: interactive problems, those that read and write files, and those that the publisher calls not executable.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.benchmarks.row import LEAST_MEMORY_MB, PYTHON_FACTOR, BadRow, Split, number, text, text_or_none
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import Case, HiddenTests
from erpo_jax.evaluate.reading import parquet_rows_where
from erpo_jax.problems import Example, Problem

_PARTS = (
    ("", "description"),
    ("Input", "input_format"),
    ("Output", "output_format"),
    ("Note", "note"),
)


def split(row: Any, release: str, index: int = 0) -> Split:
    """The views of a row of any configuration. Raises BadRow."""
    identity = text(row, "id")
    if row.get("interaction_format"):
        raise BadRow("interactive")
    if row.get("executable") is False:
        raise BadRow("the publisher calls it not executable")
    if row.get("input_mode") == "file":
        raise BadRow("reads input.txt and writes output.txt")
    examples = _pairs(row, "examples")
    hidden = _pairs(row, "official_tests") + _pairs(row, "generated")
    if not hidden:
        raise BadRow("has no tests")
    title = text_or_none(row, "title")
    parts = [f"{title}\n"] if title else []
    for heading, name in _PARTS:
        part = text_or_none(row, name)
        if part:
            parts.append(f"{heading}:\n{part}\n" if heading else f"{part}\n")
    problem = Problem(
        id=identity,
        statement="\n".join(parts),
        public_tests=tuple(Example(given, expected) for given, expected in examples),
        time_limit_s=PYTHON_FACTOR * (number(row, "time_limit") or 2.0),
        memory_limit_mb=max(LEAST_MEMORY_MB, int(number(row, "memory_limit"))),
        source=f"codeforces {release}".strip(),
        date=_day(number(row, "contest_start")),
    )
    cases = tuple(Case(given, expected) for given, expected in dict.fromkeys(examples + hidden))
    checker = text_or_none(row, "generated_checker")
    return Split(problem, HiddenTests(identity, "stdin", cases, compare="tokens", checker=checker))


def known_bad(row: Any) -> str | None:
    """Tests that a wrong program may well pass: the site's own are cut, and no generated ones stand in for them."""
    if row.get("official_tests_complete") or row.get("generated"):
        return None
    return "the official tests are incomplete, and there are no generated ones here"


def with_generated_tests(rows: Iterator[tuple[str, Any]], folder: Path) -> Iterator[tuple[str, Any]]:
    """The rows with their generated tests as the field `generated`, from test_cases_NNNN.parquet in `folder`, one file
    a contest. Raises EvaluationError when a row has generated tests and their file is not there."""
    for where, row in rows:
        if isinstance(row, dict) and row.get("generated_tests"):
            try:
                identity, file = text(row, "id"), folder / f"test_cases_{int(row['contest_id']):04d}.parquet"
            except (BadRow, KeyError, TypeError, ValueError, OverflowError):
                row["generated"] = "without id or contest_id"  # which makes it a bad row
            else:
                if not file.is_file():
                    raise EvaluationError(
                        f"{where}: the generated tests of {identity} are missing: there is no file {file}"
                    )
                row["generated"] = parquet_rows_where(file, "problem_id", identity)
        yield where, row


def _day(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat() if seconds else None
    except (ValueError, OverflowError, OSError) as error:
        raise BadRow(f"contest_start is {seconds:g}, must be seconds since 1970") from error


def _pairs(row: Any, name: str) -> list[tuple[str, str]]:
    tests = row.get(name) or []
    if not isinstance(tests, list):
        raise BadRow(f"field {name!r} is {tests!r:.40}, must be a list of tests")
    return [(text(test, "input"), text(test, "output")) for test in tests]
