"""CodeContests (deepmind/code_contests): contest problems on standard input, with right and wrong human programs.

The rows are the hub's: structs of lists, and enums as the hub numbers them (the GitHub proto numbers differ). A program
passes when it passes all public, private and generated tests by the official comparison (rule `codecontests`). There is
no checker, and some generated tests break the statement's constraints, so right programs of problems with several
answers can fail; `solutions.jsonl` and `launch/evaluate.py agreement` show where.
Left out: problems that read or write files, programs in other languages than Python 3, ratings and tags.
"""

from __future__ import annotations

from typing import Any

from erpo_jax.evaluate.benchmarks.row import LEAST_MEMORY_MB, PYTHON_FACTOR, BadRow, Split, number, text, unix
from erpo_jax.evaluate.hidden import Case, HiddenTests
from erpo_jax.evaluate.solutions import Solution
from erpo_jax.problems import Example, Problem

TIME_LIMIT_S = 2.0
"""Of C++, where the row names none."""
PYTHON3 = 3
SOURCES = ("unknown", "codechef", "codeforces", "hackerearth", "codejam", "atcoder", "aizu")


def split(row: Any, release: str, index: int = 0) -> Split:
    """The views of a row. Raises BadRow."""
    identity = text(row, "name")
    if row.get("input_file") or row.get("output_file"):
        raise BadRow("reads or writes a file instead of standard input and output")
    public = _pairs(row, "public_tests")
    hidden = _pairs(row, "private_tests") + _pairs(row, "generated_tests")
    if not hidden:
        raise BadRow("has neither private nor generated tests")
    origin = row.get("source")
    site = SOURCES[origin] if isinstance(origin, int) and 0 <= origin < len(SOURCES) else "unknown"
    problem = Problem(
        id=identity,
        statement=text(row, "description"),
        public_tests=tuple(Example(given, expected) for given, expected in public),
        time_limit_s=PYTHON_FACTOR * _seconds(row.get("time_limit")),
        memory_limit_mb=max(LEAST_MEMORY_MB, int(number(row, "memory_limit_bytes")) >> 20),
        source=f"codecontests {release}".strip() + f" ({site})",
    )
    cases = tuple(Case(given, expected) for given, expected in dict.fromkeys(public + hidden))
    solutions = _programs(row, "solutions", True) + _programs(row, "incorrect_solutions", False)
    return Split(problem, HiddenTests(identity, "stdin", cases, compare="codecontests"), solutions)


def known_bad(row: Any) -> str | None:
    """Pictures are not in the data."""
    return "the statement lacks its pictures" if "<image>" in text(row, "description") else None


def _pairs(row: Any, name: str) -> list[tuple[str, str]]:
    return [(unix(given), unix(expected)) for given, expected in _columns(row, name, "input", "output")]


def _programs(row: Any, name: str, correct: bool) -> tuple[Solution, ...]:
    return tuple(
        Solution(unix(program), correct, f"codecontests {name}")
        for language, program in _columns(row, name, "language", "solution")
        if language == PYTHON3
    )


def _columns(row: Any, name: str, first: str, second: str) -> list[tuple[Any, str]]:
    """The struct of two lists `name` as pairs; a missing one is empty."""
    struct = row.get(name) or {first: [], second: []}
    ones, others = (struct.get(first), struct.get(second)) if isinstance(struct, dict) else (None, None)
    if not (isinstance(ones, list) and isinstance(others, list) and len(ones) == len(others)):
        raise BadRow(f"field {name!r} must hold the lists {first!r} and {second!r}, of one length")
    if not all(isinstance(value, str) for value in others) or (
        first == "input" and not all(isinstance(value, str) for value in ones)
    ):
        raise BadRow(f"field {name!r} holds a value that is no text")
    return list(zip(ones, others, strict=True))


def _seconds(limit: Any) -> float:
    if limit is None:
        return TIME_LIMIT_S
    try:
        return float(limit["seconds"]) + float(limit["nanos"]) / 1e9 or TIME_LIMIT_S
    except (TypeError, KeyError, ValueError) as error:
        raise BadRow(f"time_limit is {limit!r}, must hold seconds and nanos") from error
