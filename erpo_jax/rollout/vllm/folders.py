"""The folders that weights travel in: one per version, written aside and renamed, the newest two kept.

They lie in /dev/shm where there is room: memory, not disk. What a killed run left there holds memory until the next run
on the machine begins, which clears the folder of every run that no process holds the lock of. Servers on other nodes
need a folder that those nodes see.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import jax
import jax.numpy as jnp

from erpo_jax.errors import UserError
from erpo_jax.policy import Policy, export

SHARED_MEMORY = Path("/dev/shm")
KEPT = 2
_PREFIX = f"erpo_jax-{os.getuid()}-"


class Folders:
    """`where` is vllm.exports. A run's folder always has the same name: what a killed run left in it is cleared.

    Raises UserError where another process holds the folder of this run.
    """

    def __init__(self, where: str, run: Path, policy: Policy, dtype: str) -> None:
        self._dtype = dtype
        self._lock: int | None = None
        if where == "auto":
            if SHARED_MEMORY.is_dir():
                _clear_dead(SHARED_MEMORY)
            weights = sum(leaf.size for leaf in jax.tree.leaves(policy.params)) * jnp.dtype(dtype).itemsize
            room = shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else 0
            # two that are kept and one that is written
            if room > (KEPT + 1) * weights:
                self.path = _of_run(SHARED_MEMORY, run)
                self._lock = _claim(self.path)
                return
            self.path = run / "weights"
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
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _of_run(parent: Path, run: Path) -> Path:
    digest = hashlib.sha256(str(run.absolute()).encode()).hexdigest()[:10]
    return parent / f"{_PREFIX}{run.absolute().name}-{digest}"


@contextmanager
def _alone(parent: Path) -> Iterator[None]:
    """Between making a folder in `parent` and locking it nobody may take it for a dead one."""
    lock = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _claim(path: Path) -> int:
    """Make this folder, locked as long as this process lives and the number that is returned stays open."""
    with _alone(path.parent):
        path.mkdir(exist_ok=True)
        lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise UserError(f"{path} is in use: another process samples for this run") from error
        return lock


def _clear_dead(parent: Path) -> None:
    """Remove what killed runs left: our folders that nobody has locked."""
    with _alone(parent):
        for path in parent.glob(f"{_PREFIX}*"):
            lock = os.open(path, os.O_RDONLY)
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
