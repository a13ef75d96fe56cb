"""Programs that come with a data set, and whether they are right: `solutions.jsonl`, written by launch/prepare.py.

A line is {"id": problem id, "program": text, "correct": true | false | null, "source": text}; `correct` is the
publisher's word (null: none given), never our grader's. For evaluation alone, like hidden tests: what tells right from
wrong must not reach training.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.reading import read_rows


@dataclass(frozen=True)
class Solution:
    """One program of a data set. `source` says who wrote it, in the publisher's words."""

    program: str
    correct: bool | None = None
    source: str = ""

    def line(self, identity: str) -> str:
        """This, for the problem `identity`, as one line of a solutions file."""
        return json.dumps({"id": identity, **asdict(self)}, ensure_ascii=False)


def load_solutions(path: str | Path, ids: Collection[str] | None = None) -> dict[str, tuple[Solution, ...]]:
    """Programs by problem id, in file order; only those of `ids` when given. A problem may have none.

    Raises EvaluationError with file and line for a line that is not valid.
    """
    file = Path(path)
    if not file.is_file():
        raise EvaluationError(f"there is no file of solutions {file}")
    found: dict[str, list[Solution]] = {}
    for where, row in read_rows(file):
        identity, solution = _read(row, where)
        if ids is None or identity in ids:
            found.setdefault(identity, []).append(solution)
    return {name: tuple(row) for name, row in found.items()}


def _read(row: Any, where: str) -> tuple[str, Solution]:
    fields = {"id", "program", "correct", "source"}
    if not isinstance(row, dict) or not {"id", "program"} <= set(row) <= fields:
        raise EvaluationError(f"{where}: must be an object with id, program and perhaps correct and source")
    if not all(isinstance(row.get(name, ""), str) for name in ("id", "program", "source")):
        raise EvaluationError(f"{where}: id, program and source must be texts")
    if not isinstance(row.get("correct"), (bool, type(None))):
        raise EvaluationError(f"{where}: 'correct' is {row['correct']!r}; allowed are true, false, null")
    return row.pop("id"), Solution(**row)
