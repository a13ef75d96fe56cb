"""Keeps one vLLM alive: notices that it is dead or hung, starts it again over the current weights, within a budget."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from pathlib import Path

from erpo_jax.rollout.engine import EngineFailed
from erpo_jax.rollout.vllm.backend import PROBE, AnswerLate, Backend, ServerGone


class Budget:
    """Restarts that all servers of a run share."""

    def __init__(self, allowed: int) -> None:
        self.allowed, self.used = allowed, 0
        self._guard = threading.Lock()

    def spend(self, why: str) -> None:
        """Raises EngineFailed when nothing is left."""
        with self._guard:
            if self.used >= self.allowed:
                raise EngineFailed(f"{why}; vllm.restarts={self.allowed} are used up, docs/vllm.md says where to look")
            self.used += 1
            warnings.warn(f"{why}; starting it again ({self.used} of {self.allowed} restarts)", stacklevel=2)


class Keeper:
    """A backend and what it serves. `life` counts its lives: threads that meet the same death agree on one restart."""

    def __init__(self, backend: Backend, budget: Budget, probe_timeout_s: float) -> None:
        self.backend = backend
        self.life = 0
        self._budget, self._probe_timeout_s = budget, probe_timeout_s
        self._served: tuple[Path, int] | None = None
        self._closed = False
        self._guard = threading.Lock()

    def load(self, folder: Path, version: int) -> Mapping[str, float]:
        """New weights, onto a new life if this one has ended. Raises EngineFailed. Returns seconds by part."""
        self._served = (folder, version)
        life = self.life
        try:
            return self.backend.load(folder, version)
        except ServerGone as gone:
            self.revive(life, str(gone))
            return {}

    def answers(self, life: int) -> bool:
        """Whether it answers one token in time and under the current weights, or has already been started again."""
        try:
            answer = self.backend.ask((0,), PROBE, self._probe_timeout_s)
        except (ServerGone, AnswerLate):
            return self.life != life
        assert self._served is not None
        return answer.versions == (str(self._served[1]),)

    def revive(self, life: int, why: str) -> None:
        """Return when it answers under the current weights, in a new life unless one has begun since `life` or it was
        the connection alone that failed. Raises EngineFailed when that cannot be."""
        with self._guard:
            while self.life == life:
                if self._closed:
                    raise EngineFailed(f"{self.backend.name}: the engine is closed")
                if self.answers(life):
                    return
                self._budget.spend(why)
                assert self._served is not None
                try:
                    self.backend.restart(self._served[0])
                    self.backend.load(*self._served)
                except ServerGone as gone:
                    why = f"{gone}, while it was starting again"
                    continue
                self.life += 1
        if self._closed:
            self.backend.stop()

    def close(self) -> None:
        """End it, and whoever waits for it."""
        self._closed = True
        self.backend.stop()
