"""Stored probes: one JSON line per problem and generator settings, appended when a problem's probes are ready.

A line is written in one go under a lock, so that several processes may share a store. A last line that was torn (the
machine died while writing) is passed over with a warning and cut off by the next writer.
"""

from __future__ import annotations

import fcntl
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from erpo_jax.errors import UserError
from erpo_jax.probes.probe import SOURCES, Probe, ProbeSet, ProbeStatistics
from erpo_jax.problems import Problem


class ProbeStoreError(UserError):
    """A store that cannot be read or written; the message names file and line."""


class ProbeStore:
    """The probes of one generator setting in the file `probes.jsonl` of a folder."""

    def __init__(self, folder: str | Path, settings: str):
        self.path = Path(folder) / "probes.jsonl"
        self.settings = settings

    def load(self) -> dict[str, ProbeSet]:
        """Stored probe sets by problem digest; the newest counts. Raises ProbeStoreError for a broken line."""
        found: dict[str, ProbeSet] = {}
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace") if self.path.exists() else ""
        except OSError as error:
            raise ProbeStoreError(f"cannot read the probe store {self.path}: {error.strerror}") from error
        lines = text.split("\n")
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                row = json.loads(line)
                if row["settings"] == self.settings:
                    found[row["digest"]] = _read(row)
            except (ValueError, KeyError, TypeError) as error:
                if number == len(lines):
                    warnings.warn(f"{self.path}:{number}: the last line is torn and passed over", stacklevel=2)
                    continue
                raise ProbeStoreError(f"{self.path}:{number} is not a stored probe set; delete the line") from error
        return found

    def append(self, problem: Problem, made: ProbeSet) -> None:
        """Add the probes of one problem; on disk when this returns. Raises ProbeStoreError when that fails."""
        row = {
            "problem": problem.id,
            "digest": problem.digest(),
            "settings": self.settings,
            "probes": [asdict(probe) for probe in made.probes],
            "statistics": asdict(made.statistics),
        }
        line = json.dumps(row, ensure_ascii=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.truncate(_whole_lines(file.seek(0, os.SEEK_END), file))
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ProbeStoreError(f"cannot write the probe store {self.path}: {error.strerror}") from error


def _whole_lines(size: int, file: Any) -> int:
    """The length of the file up to the end of its last whole line."""
    if size == 0:
        return 0
    file.seek(-1, os.SEEK_END)
    if file.read(1) == b"\n":
        return size
    file.seek(0)
    return int(file.read().rfind(b"\n")) + 1


def _read(row: Mapping[str, Any]) -> ProbeSet:
    probes = tuple(Probe(**probe) for probe in row["probes"])
    if any(probe.source not in SOURCES for probe in probes):
        raise ValueError("unknown source")
    statistics = dict(row["statistics"])
    statistics["rules"] = tuple(statistics["rules"])
    return ProbeSet(row["problem"], probes, ProbeStatistics(**statistics))
