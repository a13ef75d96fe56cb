"""Checkpoints of a run (Orbax): parameters, optimizer state and step, with a JSON note of where the run stood.

A save is whole or absent: Orbax writes under a temporary name and renames. Left out: asynchronous saving, because a run
that is told to stop must know that its checkpoint is on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
from orbax.checkpoint import v1 as ocp

from erpo_jax.errors import UserError


class Checkpoints:
    """The checkpoints of one run folder, the newest `keep` of them.

    Raises UserError when a checkpoint cannot be written (disk full) or does not fit the state it is restored into.
    """

    def __init__(self, folder: Path, *, keep: int = 2):
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # every error is raised too, and said in one line here
        self._failed = False
        self._folder = folder.absolute()
        self._manager = ocp.training.Checkpointer(
            self._folder,
            preservation_policy=ocp.training.preservation_policies.LatestN(keep),
            save_decision_policy=ocp.training.save_decision_policies.FixedIntervalPolicy(1),
            cleanup_tmp_directories=True,
        )

    def steps(self) -> list[int]:
        """Steps with a whole checkpoint, oldest first."""
        return sorted(entry.step for entry in self._manager.checkpoints)

    def save(self, step: int, state: Any, note: dict[str, Any]) -> None:
        """Write the state after `step` updates and wait until it is on disk. A step already saved is left as it is."""
        if step in self.steps():
            return
        try:
            self._manager.save(step, state, custom_metadata=note)
        except (OSError, ValueError) as error:
            self._failed = True
            kept = self.steps()
            newest = f"the newest whole one is step {kept[-1]}" if kept else "there is none yet"
            raise UserError(
                f"cannot write checkpoint {step} in {self._folder} ({_first_line(error)}); {newest}"
            ) from error

    def restore(self, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
        """The state saved at `step`, with the structure, dtypes and shardings of `like`, and its note.

        `like` may live on another number of devices than the state that was saved.
        """
        if step not in self.steps():
            raise UserError(f"{self._folder} has no checkpoint of step {step}; it has {self.steps() or 'none'}")
        with self._damage_said(step):
            self._refuse_other_arrays(step, like)
            state = self._manager.load(step, _abstract(like))
            return state, dict(self._manager.metadata(step).custom_metadata or {})

    def restore_params(self, step: int, like: Any) -> Any:
        """The `params` of the state saved at `step`, alone: the optimizer's arrays are not read."""
        if step not in self.steps():
            raise UserError(f"{self._folder} has no checkpoint of step {step}; it has {self.steps() or 'none'}")
        partial = ocp.options.PyTreeOptions(loading=ocp.options.PyTreeOptions.Loading(partial_load=True))
        with self._damage_said(step):
            self._refuse_other_arrays(step, {"params": like})
            with ocp.Context(pytree_options=partial):
                return self._manager.load(step, {"params": _abstract(like)})["params"]

    @contextmanager
    def _damage_said(self, step: int) -> Iterator[None]:
        """Orbax fails on damaged files in many ways, none of them for people."""
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            older = [other for other in self.steps() if other < step]
            way_on = f"delete the folder to go on from step {older[-1]}" if older else "no older one is there"
            raise UserError(
                f"checkpoint {self._folder / str(step)} is damaged ({_first_line(error)}); {way_on}"
            ) from error

    def _refuse_other_arrays(self, step: int, like: Any) -> None:
        """Orbax names neither the array nor the sizes when a checkpoint does not fit."""
        saved = {
            _name(path): (tuple(leaf.shape), str(leaf.dtype))
            for path, leaf in jax.tree_util.tree_leaves_with_path(
                self._manager.metadata(step).metadata, is_leaf=lambda node: hasattr(node, "dtype")
            )
        }
        if not saved:
            raise ValueError("it lists no arrays")
        for path, leaf in jax.tree_util.tree_leaves_with_path(like):
            name, wanted = _name(path), (tuple(leaf.shape), str(leaf.dtype))
            if saved.get(name) != wanted:
                raise UserError(
                    f"checkpoint {step} in {self._folder} is of another model: {name} is {saved.get(name, 'absent')} "
                    f"there, "
                    f"{wanted} in this configuration"
                )

    def close(self) -> None:
        try:
            self._manager.close()
        except (OSError, ValueError):
            if not self._failed:  # closing repeats the error of the save that failed, which was reported
                raise

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _abstract(like: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), like)


def _name(path: Any) -> str:
    return ".".join(str(getattr(part, "key", getattr(part, "name", getattr(part, "idx", part)))) for part in path)
