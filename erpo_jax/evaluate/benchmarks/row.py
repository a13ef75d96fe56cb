"""What every benchmark's splitter shares: the views it makes of a row, how it refuses one, and fields of a row."""

from __future__ import annotations

import math
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
    """The text field `name` with Unix line ends. Raises BadRow when it is missing or no text that UTF-8 can hold, or
    the row is no object."""
    if not isinstance(row, Mapping):
        raise BadRow(f"is a {type(row).__name__}, must be an object" if not isinstance(row, str) else "is not JSON")
    value = row.get(name)
    if not isinstance(value, str):
        raise BadRow(f"field {name!r} is {type(value).__name__}, must be a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadRow(f"field {name!r} holds the lone surrogate {value[error.start]!r}") from error
    return unix(value)


def text_or_none(row: Any, name: str) -> str | None:
    """The text field `name`, or None where it is missing, null or empty. Raises BadRow."""
    return text(row, name) or None if row.get(name) is not None else None


def texts(row: Any, name: str) -> list[str]:
    """The field `name`, a list of texts; empty where it is missing or null. Raises BadRow."""
    values = row.get(name)
    if values is None:
        return []
    if not isinstance(values, list):
        raise BadRow(f"field {name!r} is {type(values).__name__}, must be a list of texts")
    return [text({name: value}, name) for value in values]


def number(row: Any, name: str) -> float:
    """The field `name`, a number of at least 0; 0 where it is missing or null. Raises BadRow."""
    value = row.get(name)
    if value is None:
        return 0.0
    if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise BadRow(f"field {name!r} is {value!r}, must be a number of at least 0")
    return float(value)


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
