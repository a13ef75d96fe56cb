"""What every benchmark's splitter shares: the views it makes of a row, how it refuses one, and fields of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from erpo_jax.evaluate.hidden import HiddenTests
from erpo_jax.evaluate.solutions import Solution
from erpo_jax.problems import Example, Problem

PYTHON_FACTOR = 4.0
"""CPython's time over C++'s, for limits that a contest set for C++."""
LEAST_MEMORY_MB = 1024
"""A contest's memory limit is for C++ too; Python gets at least this."""


class Split(NamedTuple):
    """A published row as the three files see it."""

    problem: Problem
    tests: HiddenTests
    solutions: tuple[Solution, ...] = ()


class BadRow(ValueError):
    """A published row that cannot be used: what is wrong with it."""


def text(row: Any, name: str) -> str:
    """The text field `name` with Unix line ends. Raises BadRow when it is missing or no text, or
    the row is no object."""
    if not isinstance(row, Mapping):
        raise BadRow(f"is a {type(row).__name__}, must be an object" if not isinstance(row, str) else "is not JSON")
    value = row.get(name)
    if not isinstance(value, str):
        raise BadRow(f"field {name!r} is {type(value).__name__}, must be a text")
    return unix(value)


def unix(value: str) -> str:
    """The text with Unix line ends."""
    return value.replace("\r\n", "\n")


def examples_in(statement: str, pairs: Sequence[tuple[str, str]]) -> tuple[Example, ...]:
    """The tests whose input and output both stand in the statement (however it breaks lines): those are public."""
    words = " ".join(statement.split())
    return tuple(
        Example(given, expected)
        for given, expected in pairs
        if given.strip() and " ".join(given.split()) in words and " ".join(expected.split()) in words
    )
