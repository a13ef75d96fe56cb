"""A programming problem as training sees it: the statement and its public examples, never a hidden test.

Hidden tests live in a file and a type of their own that only `erpo_jax.evaluate` opens.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

Mode = Literal["stdin", "function"]


@dataclass(frozen=True)
class Example:
    """One public test. stdin mode: texts. function mode: `input` is a JSON list of arguments, `output` a JSON value."""

    input: str
    output: str


@dataclass(frozen=True)
class Problem:
    """One problem. `time_limit_s` is CPU seconds per input, `memory_limit_mb` MiB."""

    id: str
    statement: str
    mode: Mode = "stdin"
    entry_point: str | None = None
    starter_code: str | None = None
    public_tests: tuple[Example, ...] = ()
    input_constraints: str | None = None
    time_limit_s: float = 2.0
    memory_limit_mb: int = 1024
    source: str = ""
    date: str | None = None

    def digest(self) -> str:
        """A hash of all that the problem says, for stores keyed by problem."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]
