"""What the engine needs of one vLLM, however it is reached: an answer to a prompt, new weights, and a sign of life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from erpo_jax.rollout.engine import EngineFailed, Sampling

MAX_SEED = 2**63
PROBE: Mapping[str, Any] = {"max_tokens": 1, "temperature": 0.0, "logprobs": 0, "detokenize": False}
"""The sampling of a sign of life."""


class ServerGone(Exception):
    """The server is dead, or the connection to it: what was asked of it may be asked again."""


class AnswerLate(Exception):
    """No answer within the time: it may be lost, or the server hung."""


@dataclass(frozen=True)
class Answer:
    """vLLM's answer to one prompt. `versions`: the labels of the weights that made its tokens, in order."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str
    versions: tuple[str, ...]

    @classmethod
    def of(cls, choice: Mapping[str, Any]) -> Answer:
        """From a choice in vLLM's JSON."""
        content = choice["logprobs"]["content"] or ()
        spans = choice["weight_versions"] or ()
        return cls(
            tuple(choice["token_ids"]),
            tuple(float(entry["logprob"]) for entry in content),
            choice["finish_reason"],
            tuple(str(span["version"]) for span in spans),
        )


class Backend(Protocol):
    """One vLLM. `ask` may be called from many threads at once."""

    name: str

    def start(self, folder: Path) -> None:
        """Begin to start, over the weights in `folder`; one that runs already is left alone."""
        ...

    def wait(self) -> None:
        """Return when it answers. Raises EngineFailed saying why it never will."""
        ...

    def ask(self, token_ids: tuple[int, ...], sampling: Mapping[str, Any], timeout_s: float) -> Answer:
        """Raises ServerGone, AnswerLate, and EngineFailed for a request that it will never take."""
        ...

    def load(self, folder: Path, version: int) -> Mapping[str, float]:
        """Serve these weights, and only these, from now on. Returns the seconds of each part.

        Raises ServerGone; EngineFailed naming the tensor or the folder.
        """
        ...

    def sleep(self, level: int) -> None:
        """Give device memory back. `load` and `ask` need `wake` first."""
        ...

    def wake(self, *, weights_only: bool) -> None:
        """Take the memory again: for `load` that of the weights is enough."""
        ...

    def cancel(self) -> None:
        """Break off everything asked and unanswered: each `ask` raises ServerGone."""
        ...

    def restart(self, folder: Path) -> None:
        """End what is left of it and start again over the weights in `folder`. Raises EngineFailed where that is not
        in our hands."""
        ...

    def stop(self) -> None:
        """End it, if we began it."""
        ...


def sampling_values(sampling: Sampling, seed: int, end_ids: tuple[int, ...]) -> dict[str, Any]:
    """Every value that decides what is sampled: nothing is left to a default of the server or the checkpoint."""
    return {
        "n": 1,
        "temperature": sampling.temperature,
        "top_p": 1.0,
        "top_k": 0,  # off, like -1
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "seed": seed % MAX_SEED,
        "max_tokens": sampling.max_new_tokens,
        "min_tokens": 0,
        "logprobs": 0,
        # all ends are ours: vLLM takes its own from the tokenizer, which may know fewer
        "stop_token_ids": list(end_ids),
        "ignore_eos": True,
        "detokenize": False,
    }


def refuse(name: str, results: Any) -> Mapping[str, float]:
    """The seconds that the workers report; EngineFailed with the first error they do."""
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        raise EngineFailed(
            f"{name} gave no report of its weights ({results}); it must run with our worker extension: docs/vllm.md"
        )
    for result in results:
        if "error" in result:
            state = "it still serves the weights of before" if result["intact"] else "its weights are of no use now"
            raise EngineFailed(f"{name} did not load new weights: {result['error']}; {state}")
    return {part: max(float(result[f"{part}_s"]) for result in results) for part in ("verify", "load")}
