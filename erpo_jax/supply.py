"""Who works when: the engine makes experience and takes new weights while the trainer updates and writes.

The engine does one thing at a time, in the order asked. One with devices of its own does it in a thread: new weights go
out while the finished step is written down, and with `rollout.async_steps` the next step is sampled while this one is
learnt from. An embedded engine does it at once, in the caller's thread; there the order alone differs, and with it
which weights sample a step: those of `step` updates, or with async_steps those of `step - 1`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple
from types import TracebackType
from typing import Any, TypeVar

import zstandard

from erpo_jax.experience import Answers, Group
from erpo_jax.policy import Policy
from erpo_jax.rollout import Completion, Engine

Result = TypeVar("Result")


class Supply:
    """Experience by step, from `make(step, answers)`; new weights through `renew(policy, version)`.

    Whatever a job raised is raised where its result is waited for, in `take`.
    """

    def __init__(
        self,
        engine: Engine,
        make: Callable[[int, Answers | None], list[Group]],
        renew: Callable[[Policy, int], None],
    ) -> None:
        self._engine, self._make, self._renew = engine, make, renew
        self._thread = None if engine.embedded else ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._made: dict[int, Future[list[Group]]] = {}
        self._renewed: Future[None] = Future()
        self._renewed.set_result(None)

    def refresh(self, policy: Policy, version: int) -> None:
        """Give the engine these weights once it has done what was asked before. `take` waits for it."""
        self._renewed = self._do(self._renew, policy, version)

    def begin(self, step: int, answers: Answers | None = None) -> None:
        """Have the step's experience made with the weights of the last refresh, or of answers that are there."""
        self._made[step] = self._do(self._make, step, answers)

    def take(self, step: int) -> list[Group]:
        """The step's experience. From here to the next refresh nothing reads the policy's parameters but what `begin`
        was asked of an engine with its own."""
        if step not in self._made:
            self._renewed.result()  # wrong weights are better found before they have sampled
            self.begin(step)
        self._made = {later: made for later, made in self._made.items() if later >= step}
        groups = self._made[step].result()
        self._renewed.result()
        return groups

    def note(self, step: int, *, wait: bool) -> dict[str, Any]:
        """What a checkpoint after `step` updates must hold of the engine's work, for a run that goes on from it to be
        the run that was never stopped: answers of that step made by earlier weights, if they were asked for.

        Without `wait`, answers that are still in the making are left out, and will be asked for again.
        """
        made = self._made.get(step)
        if made is None or not (wait or (made.done() and made.exception() is None)):
            return {}
        return {"answers": pack_answers(made.result())}

    def _do(self, job: Callable[..., Result], *given: Any) -> Future[Result]:
        if self._thread is not None:
            return self._thread.submit(job, *given)
        done: Future[Result] = Future()
        done.set_result(job(*given))
        return done

    def __enter__(self) -> Supply:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing of the engine's goes on after this."""
        if self._thread is not None:
            if not (self._renewed.done() and all(made.done() for made in self._made.values())):
                self._engine.close()  # ends the call that the thread is in
            self._thread.shutdown(cancel_futures=True)


def pack_answers(groups: list[Group]) -> str:
    """The answers of a step as text for a checkpoint's note: every bit of them, some ten bytes a token."""
    answers = [[astuple(attempt.completion) for attempt in group.attempts] for group in groups]
    return base64.b64encode(zstandard.compress(json.dumps([groups[0].version, answers]).encode())).decode()


def unpack_answers(text: str) -> Answers:
    """What `pack_answers` packed."""
    version, answers = json.loads(zstandard.decompress(base64.b64decode(text)))
    return Answers(
        version, [[Completion(tuple(ids), tuple(logprobs), *rest) for ids, logprobs, *rest in row] for row in answers]
    )
