"""Metrics of a run: one JSON object a step in metrics.jsonl, and the same numbers as TensorBoard scalars.

The JSONL file is the record: TensorBoard failing never stops a run (it is reported once).
"""

from __future__ import annotations

import json
import math
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from erpo_jax.errors import UserError


class Metrics:
    """Appends one step at a time. Opening it at `first_step` cuts off what a resumed run will do again."""

    def __init__(self, folder: Path, first_step: int = 0):
        self.path = folder / "metrics.jsonl"
        keep = [row for row in read_metrics(self.path) if row["step"] < first_step]
        temporary = self.path.with_suffix(".jsonl.tmp")
        temporary.write_text("".join(json.dumps(row) + "\n" for row in keep))
        temporary.replace(self.path)
        self._file: IO[str] = self.path.open("a")
        self._board = _open_board(folder / "tensorboard", first_step)

    def write(
        self,
        step: int,
        values: Mapping[str, float | int | str],
        histograms: Mapping[str, Mapping[float, float]] | None = None,
    ) -> None:
        """One line, on disk when this returns. Non-finite numbers are written as null in JSON.

        `histograms` are for TensorBoard alone: lower edge of each bin to its count; the line has the counts by name.
        """
        row: dict[str, Any] = {"step": step}
        row |= {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()
        if self._board is None:
            return
        try:
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    self._board.add_scalar(name, value, step)
            for name, counts in (histograms or {}).items():
                _add_histogram(self._board, name, counts, step)
            self._board.flush()
        except Exception as error:  # a tracker must never take a run down; metrics.jsonl has everything
            print(f"warning: TensorBoard stopped ({error}); metrics go on in {self.path}", file=sys.stderr)
            self._board = None

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics.jsonl, oldest first; a torn last line (the machine died while writing) is left out."""
    if not path.exists():
        return []
    rows = []
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            if number != len(lines):
                raise UserError(f"{path}:{number} is damaged; mend or delete the line to go on") from None
    return rows


def peak_memory_mb() -> float:
    """Peak resident memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _add_histogram(board: Any, name: str, counts: Mapping[float, float], step: int) -> None:
    edges = list(counts)
    filled = [edge for edge, count in counts.items() if count] or edges[:1]
    limits = [*edges[1:], 10 * edges[-1]]
    total = sum(edge * count for edge, count in counts.items())
    squares = sum(edge * edge * count for edge, count in counts.items())
    board.add_histogram_raw(
        name,
        filled[0],
        limits[edges.index(filled[-1])],
        sum(counts.values()),
        total,
        squares,
        limits,
        list(counts.values()),
        step,
    )


def _open_board(folder: Path, first_step: int) -> Any:
    from tensorboardX import SummaryWriter

    try:
        return SummaryWriter(str(folder), purge_step=first_step or None)
    except Exception as error:
        print(f"warning: no TensorBoard files ({error}); metrics go to metrics.jsonl alone", file=sys.stderr)
        return None
