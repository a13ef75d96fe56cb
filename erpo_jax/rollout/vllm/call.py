"""One call of `generate`: every answer is a request of its own, so that one that never comes takes no other with it.

Each server has `concurrency` threads and a queue with whole groups in it (the samples of a prompt share its cache);
a thread whose queue is empty helps the fullest. A request whose server died is asked again; one that is late on a
server that lives is lost.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from erpo_jax.errors import Failure
from erpo_jax.rollout.engine import Sampling
from erpo_jax.rollout.vllm.backend import Answer, AnswerLate, ServerGone, sampling_values
from erpo_jax.rollout.vllm.keeper import Keeper

ATTEMPTS = 3
"""How many deaths of servers a request may be met by before it is taken for their cause."""


@dataclass
class Request:
    """Sample `sample` of prompt `prompt`."""

    prompt: int
    sample: int
    token_ids: tuple[int, ...]
    sampling: dict[str, Any]
    attempts: int = 0


@dataclass(frozen=True)
class Lost:
    """An answer that never came, and why."""

    prompt: int
    sample: int
    reason: str


class Call:
    """Used once: `run` returns when each request has its Answer, or its Lost."""

    def __init__(
        self,
        keepers: Sequence[Keeper],
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: Sampling,
        seeds: Sequence[int],
        *,
        end_ids: tuple[int, ...],
        concurrency: int,
        timeout_s: float,
    ) -> None:
        self._keepers, self._timeout_s = keepers, timeout_s
        self._queues: list[deque[Request]] = [deque() for _ in keepers]
        for i, prompt in enumerate(prompts):
            for j in range(n):
                # sample j of one request with this seed would be drawn under seed + j as well
                values = sampling_values(sampling, seeds[i] + j, end_ids)
                self._queues[i % len(keepers)].append(Request(i, j, tuple(prompt), values))
        self._total = len(prompts) * n
        self._ended: queue.SimpleQueue[tuple[Request, Answer | Lost] | Failure] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._stopping = False
        width = min(concurrency, self._total)
        self._threads = [
            threading.Thread(target=self._work, args=(place,), daemon=True)
            for place in range(len(keepers))
            for _ in range(width)
        ]

    def run(self, progress: Callable[[int, int], None] | None) -> dict[tuple[int, int], Answer | Lost]:
        """Keyed by (prompt, sample). What `progress` raises breaks everything off; so does the Failure of a server."""
        found: dict[tuple[int, int], Answer | Lost] = {}
        for thread in self._threads:
            thread.start()
        try:
            while len(found) < self._total:
                try:
                    ended = self._ended.get(timeout=0.5)
                except queue.Empty:
                    ended = None
                if isinstance(ended, Failure):
                    raise ended
                if ended is not None:
                    found[ended[0].prompt, ended[0].sample] = ended[1]
                if progress is not None:  # also without news: it is where a run is told to stop
                    progress(len(found), self._total)
        finally:
            self._stop()
        return found

    def _stop(self) -> None:
        self._stopping = True
        while any(thread.is_alive() for thread in self._threads):
            for keeper in self._keepers:
                keeper.backend.cancel()
            for thread in self._threads:
                thread.join(0.02)

    def _take(self, place: int) -> Request | None:
        with self._guard:
            if self._queues[place]:
                return self._queues[place].popleft()
            fullest = max(self._queues, key=len)
            return fullest.pop() if fullest else None

    def _work(self, place: int) -> None:
        keeper = self._keepers[place]
        while not self._stopping:
            request = self._take(place)
            if request is None:
                time.sleep(0.05)  # another thread may have to give its request back
                continue
            try:
                self._answer(keeper, place, request)
            except Failure as error:
                self._ended.put(error)
                return

    def _answer(self, keeper: Keeper, place: int, request: Request) -> None:
        life = keeper.life
        try:
            answer = keeper.backend.ask(request.token_ids, request.sampling, self._timeout_s)
        except ServerGone as gone:
            if self._stopping:
                return
            request.attempts += 1
            keeper.revive(life, str(gone))
            if request.attempts == ATTEMPTS:
                self._ended.put((request, Lost(request.prompt, request.sample, f"its server died {ATTEMPTS} times")))
            else:
                with self._guard:
                    self._queues[place].appendleft(request)
        except AnswerLate as late:
            if self._stopping:
                return
            if keeper.answers(life):
                self._ended.put((request, Lost(request.prompt, request.sample, str(late))))
            else:
                keeper.revive(life, f"{late}, nor a request of one token")
                with self._guard:
                    self._queues[place].appendleft(request)
        else:
            self._ended.put((request, answer))
