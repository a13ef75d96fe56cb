"""The folders that weights travel in: one per version, written aside and renamed, the newest two kept.

They lie in /dev/shm where there is room: memory, not disk. Servers on other nodes need a folder that those nodes see.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp

from erpo_jax.policy import Policy, export

SHARED_MEMORY = Path("/dev/shm")
KEPT = 2


class Folders:
    """`where` is vllm.exports. A run's folder always has the same name: what a killed run left in it is cleared."""

    def __init__(self, where: str, run: Path, policy: Policy, dtype: str) -> None:
        self._dtype = dtype
        if where == "auto":
            weights = sum(leaf.size for leaf in jax.tree.leaves(policy.params)) * jnp.dtype(dtype).itemsize
            room = shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else 0
            # two that are kept and one that is written
            self.path = _of_run(SHARED_MEMORY, run) if room > (KEPT + 1) * weights else run / "weights"
        else:
            self.path = _of_run(Path(where).expanduser().absolute(), run)
        shutil.rmtree(self.path, ignore_errors=True)

    def write(self, policy: Policy, version: int, seconds: dict[str, float]) -> Path:
        """A new folder of this version; older than its predecessor are removed. `seconds` as in export. Raises OSError,
        CheckpointError."""
        target = self.path / f"version-{version}"
        folder = export(policy, target, dtype=self._dtype, overwrite=True, checksums=True, seconds=seconds)
        others = [item for item in self.path.iterdir() if item != folder]
        others.sort(key=lambda item: item.stat().st_mtime, reverse=True)
        for old in others[KEPT - 1 :]:
            shutil.rmtree(old, ignore_errors=True)
        return folder

    def clear(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _of_run(parent: Path, run: Path) -> Path:
    digest = hashlib.sha256(str(run.absolute()).encode()).hexdigest()[:10]
    return parent / f"erpo_jax-{os.getuid()}-{run.absolute().name}-{digest}"
