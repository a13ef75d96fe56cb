"""The run folder: the resolved configuration, where everything else goes, and what makes a run the same run.

runs/<name>/ config.yaml  data.json  metrics.jsonl  tensorboard/  checkpoints/  exports/<version>/
             rollouts/step-*.jsonl.zst  evaluation/  report.html
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard
from omegaconf import OmegaConf

from erpo_jax import config as configuration
from erpo_jax.config import Config
from erpo_jax.errors import UserError
from erpo_jax.problems import Problem

# What may change between two sessions of one run: nothing of it changes what a step computes, rounding aside.
FREE_TO_CHANGE = (
    "run.",
    "evaluate.",
    "train.steps",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.export_every",
    "problems.allow_changed_data",
    "sandbox.workers",
    "probes.store",
    "mesh.",
    "model.remat",
    "rollout.batch_rows",
    "vllm.",
    "rollout.max_logprob_gap",
    "rollout.check_every",
    "update.micro_batch_rows",
    "update.chunk_tokens",
)


class RunFolder:
    """Paths of one run. `open` makes the folder or checks that it belongs to this configuration."""

    def __init__(self, path: Path):
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.exports = path / "exports"
        self.rollouts = path / "rollouts"
        self.evaluation = path / "evaluation"
        self.report = path / "report.html"

    @classmethod
    def of(cls, config: Config) -> RunFolder:
        return cls(Path(config.run.folder) / config.run.name)

    @classmethod
    def open(cls, config: Config) -> RunFolder:
        """Make the folder, or go on with it. Raises UserError naming each key that differs from the run's own."""
        run = cls.of(config)
        file = run.path / "config.yaml"
        if run.has_begun() and not file.exists():
            raise UserError(
                f"{run.path} holds a run without its config.yaml; choose another run.name or put the file back"
            )
        if run.checkpoints.exists() and not run.checkpoints.is_dir():
            raise UserError(f"{run.checkpoints} must be a folder; it is a file")
        if run.has_begun():
            run._refuse_other_config(config, file)
            run._refuse_fewer_steps(config.train.steps)
        try:
            for folder in (run.path, run.rollouts, run.evaluation, run.exports):
                folder.mkdir(parents=True, exist_ok=True)
            write_atomically(file, OmegaConf.to_yaml(OmegaConf.structured(config)))
        except OSError as error:
            raise UserError(f"cannot write the run folder {run.path}: {error.strerror}") from error
        return run

    def lock(self) -> None:
        """Keep other processes out until this one ends. Raises UserError when another holds the folder."""
        self._lock = (self.path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(
                f"another process is working in {self.path}; wait for it, or choose another run.name"
            ) from error

    def has_begun(self) -> bool:
        """Whether anything in the folder depends on the configuration: a measurement, a step, or a checkpoint."""
        begun = (self.path / "metrics.jsonl", self.checkpoints, self.evaluation)
        return any(item.exists() and (item.is_file() or any(item.iterdir())) for item in begun)

    def measurement(self, name: str, config: Config) -> Path:
        """Where a measurement under these evaluation settings lies: other settings are another file."""
        return self.evaluation / f"{name}-{digest(config.evaluate)[:8]}.json"

    def _refuse_other_config(self, config: Config, file: Path) -> None:
        old = configuration.load([file])
        changed = [
            f"{name} was {configuration.get(old, name)}, is now {configuration.get(config, name)}"
            for name in configuration.names()
            if configuration.get(old, name) != configuration.get(config, name) and not name.startswith(FREE_TO_CHANGE)
        ]
        if changed:
            raise UserError(
                f"{self.path} holds a run of another configuration ({'; '.join(changed)}); "
                f"choose another run.name, or give the same values to go on"
            )

    def _refuse_fewer_steps(self, steps: int) -> None:
        done = max((int(item.name) for item in self.checkpoints.glob("*") if item.name.isdecimal()), default=0)
        if done > steps:
            raise UserError(
                f"{self.path} has {done} steps already and train.steps={steps} is fewer; give at least {done}, take an "
                f"earlier checkpoint with launch/export.py, or choose another run.name"
            )

    def check_data(self, problems: Sequence[Problem], *, allow_change: bool) -> None:
        """Remember the problems of the run; refuse others unless `problems.allow_changed_data` is set."""
        digests = {problem.id: problem.digest() for problem in problems}
        file = self.path / "data.json"
        if file.exists() and not allow_change:
            try:
                old = dict(json.loads(file.read_text()))
            except (ValueError, TypeError) as error:
                raise UserError(f"{file} is damaged; set problems.allow_changed_data=true to write it anew") from error
            changed = sorted(name for name in old.keys() | digests.keys() if old.get(name) != digests.get(name))
            if changed:
                shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
                raise UserError(
                    f"the problems have changed since the run in {self.path} began ({shown}); "
                    f"set problems.allow_changed_data=true to go on all the same, or choose another run.name"
                )
        write_atomically(file, json.dumps(digests, indent=0))

    def record(self, step: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write the rollout records of a step, one JSON object per candidate."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        packed = zstandard.ZstdCompressor(level=6).compress(text.encode())
        write_atomically(self.rollouts / f"step-{step:06d}.jsonl.zst", packed)


def read_rollouts(file: Path, needs: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The records that `RunFolder.record` wrote. Raises UserError for another file, a torn one, and one whose records
    lack a key in `needs`."""
    try:
        text = zstandard.ZstdDecompressor().decompress(file.read_bytes()).decode()
        rows = [json.loads(line) for line in text.splitlines()]
    except (ValueError, RecursionError, zstandard.ZstdError) as error:
        raise UserError(f"{file} is no whole file of rollouts: {error}") from error
    for number, row in enumerate(rows, start=1):
        missing = sorted({*needs} - row.keys()) if isinstance(row, dict) else ["an object"]
        if missing:
            raise UserError(f"{file}, record {number} lacks {', '.join(missing)}: no rollouts of a run")
    if not rows:
        raise UserError(f"{file} holds no records")
    return rows


def write_atomically(file: Path, content: str | bytes) -> None:
    """The file is the old one or the whole new one, whatever happens to the machine meanwhile."""
    temporary = file.with_name(file.name + ".tmp")
    with temporary.open("wb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)


def digest(value: Any) -> str:
    """A short hash of a dataclass or JSON value."""
    tree = dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:16]
