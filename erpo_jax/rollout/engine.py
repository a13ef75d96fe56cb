"""The contract between the loop and whatever samples from the policy. Token ids go in and token ids come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from erpo_jax.errors import Failure

if TYPE_CHECKING:
    from erpo_jax.policy import Policy

FinishReason = Literal["stop", "length", "lost"]


class BrokenPolicyError(Failure):
    """The policy's log-probs are not finite: its weights are beyond repair."""


class EngineFailed(Failure):
    """The engine is dead or deaf, and starting it again as often as the configuration allows has not helped."""


@dataclass(frozen=True)
class Sampling:
    """How to sample. `temperature` 0 is greedy. Top-p and top-k are always off."""

    temperature: float = 1.0
    max_new_tokens: int = 256


@dataclass(frozen=True)
class Completion:
    """One answer. `logprobs[t]` is the log-prob of `token_ids[t]` under softmax(logits / temperature); greedy: under
    temperature 1.

    The end token is part of `token_ids` when finish_reason is "stop". "length": cut by max_new_tokens. "lost": never
    answered, no tokens; its candidate leaves the group.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    weights_version: int


class Engine(Protocol):
    """Samples completions and takes new weights. All but `close` are called by one thread at a time."""

    weights_version: int
    embedded: bool
    """Whether it samples from the trainer's own arrays on the trainer's own devices: then nothing is copied that could
    differ, and nothing runs at the same time as an update."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: Sampling,
        seeds: Sequence[int],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[list[Completion]]:
        """`n` completions for each prompt. `seeds[i]` belongs to prompt i, completion j depends on (seeds[i], j) alone.

        `progress(done, total)` is called as completions end; what it raises ends the call. Raises EngineFailed.
        """
        ...

    def refresh(self, policy: Policy, version: int) -> None:
        """Sample from these weights from now on. Every later completion carries `version`. Raises EngineFailed."""
        ...

    def rest(self) -> None:
        """The trainer computes next: give back the device memory that can be had again. The next call takes it."""
        ...

    def close(self) -> None:
        """Give back what the engine holds (servers, caches). Twice is as good as once; a call that another thread is
        in ends with EngineFailed."""
        ...
