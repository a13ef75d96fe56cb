"""What every benchmark's splitter shares: the two views it makes of a row, and how it refuses one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from erpo_jax.evaluate.hidden import HiddenTests
from erpo_jax.problems import Problem

Split: TypeAlias = tuple[Problem, HiddenTests]


class BadRow(ValueError):
    """A published row that cannot be used: what is wrong with it."""


def text(row: Any, name: str) -> str:
    """The text field `name` with Unix line ends. Raises BadRow when it is missing or no text."""
    value = row.get(name) if isinstance(row, Mapping) else None
    if not isinstance(value, str):
        raise BadRow(f"field {name!r} is {type(value).__name__}, must be a text")
    return value.replace("\r\n", "\n")
