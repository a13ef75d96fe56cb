"""The engine whose sampler is vLLM: servers that hold the policy's weights, and get new ones through a folder.

`refresh` exports the policy, tells every server, and returns when each has confirmed what it serves. Every completion
carries the version that its server says made it. Left out: weights over NCCL or CUDA IPC, which need no folder.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flax import nnx

from erpo_jax.config import Config
from erpo_jax.policy import Policy
from erpo_jax.rollout.engine import BrokenPolicyError, Completion, EngineFailed, FinishReason, Sampling
from erpo_jax.rollout.requests import check_requests
from erpo_jax.rollout.vllm.backend import Answer, Backend
from erpo_jax.rollout.vllm.call import Call, Lost
from erpo_jax.rollout.vllm.child import Python
from erpo_jax.rollout.vllm.folders import Folders
from erpo_jax.rollout.vllm.http_server import HttpServer
from erpo_jax.rollout.vllm.keeper import Budget, Keeper
from erpo_jax.rollout.vllm.own_process import OwnProcess
from erpo_jax.rollout.vllm.own_server import OwnServer

NO_LOGPROB = -9999.0
"""What vLLM writes for the log-prob of a token that has none."""


class VllmEngine:
    """An Engine over the servers of `config.vllm`. `folder` holds their logs, in `folder`/vllm.

    Raises UserError for what the user can mend (no vLLM, a port in use, a prompt and answer beyond the model), and
    EngineFailed for servers that do not start. `end_ids` None takes the policy's; with none at all every answer runs to
    max_new_tokens (benchmarks).
    """

    embedded = False

    def __init__(
        self,
        config: Config,
        policy: Policy,
        folder: Path,
        *,
        version: int = 0,
        end_ids: Sequence[int] | None = None,
    ) -> None:
        self._vllm, self._spec = config.vllm, policy.spec
        self.max_prompt_tokens = config.rollout.max_prompt_tokens
        self.weights_version = version
        self.refresh_seconds: Mapping[str, float] = {}
        """Of the last refresh, by part: cast, write, verify (checksums), load, control; of the slowest server."""
        self.lost: list[str] = []
        """One line per answer that never came, since the start."""
        self._end_ids = policy.end_ids if end_ids is None else tuple(end_ids)
        self._budget = Budget(config.vllm.restarts)
        dtype = config.vllm.dtype
        if dtype == "auto":
            dtype = str(nnx.merge(policy.graphdef, policy.params).compute_dtype)
        backends = _backends(config, folder / "vllm", dtype, _longest(config, policy))
        self._folders = Folders(config.vllm.exports, folder, policy, dtype)
        self._keepers = [Keeper(backend, self._budget, config.vllm.probe_timeout_s) for backend in backends]
        self._asleep = False
        try:
            first = self._export(policy, version)
            for backend in backends:
                backend.start(first)
            for backend in backends:
                backend.wait()
            self._load(first, version)
        except BaseException:
            self.close()
            raise

    @property
    def restarts(self) -> int:
        """How many servers had to be started again."""
        return self._budget.used

    @property
    def backends(self) -> list[Backend]:
        return [keeper.backend for keeper in self._keepers]

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: Sampling,
        seeds: Sequence[int],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[list[Completion]]:
        """See Engine. Raises RequestError naming the prompt, BrokenPolicyError, EngineFailed."""
        check_requests(
            prompts,
            n,
            sampling,
            seeds,
            vocabulary=self._spec.vocabulary,
            max_prompt_tokens=self.max_prompt_tokens,
            max_positions=self._spec.max_positions,
        )
        self._wake(weights_only=False)
        call = Call(
            self._keepers,
            prompts,
            n,
            sampling,
            seeds,
            end_ids=self._end_ids,
            concurrency=self._vllm.concurrency,
            timeout_s=self._vllm.answer_timeout_s,
        )
        asked = self.weights_version
        found = call.run(progress)
        return [[self._completion(found[i, j], asked) for j in range(n)] for i in range(len(prompts))]

    def refresh(self, policy: Policy, version: int) -> None:
        """See Engine. Returns when every server has loaded and confirmed the weights."""
        self._load(self._export(policy, version), version)

    def load(self, folder: Path, version: int) -> None:
        """Serve an exported folder. Raises EngineFailed naming the tensor that is missing, unknown or damaged."""
        self._load(folder, version)

    def rest(self) -> None:
        if self._vllm.sleep and not self._asleep:
            self._asleep = True
            for backend in self.backends:
                backend.sleep(self._vllm.sleep)

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.close()
        self._folders.clear()

    def _export(self, policy: Policy, version: int) -> Path:
        seconds: dict[str, float] = {}
        try:
            folder = self._folders.write(policy, version, seconds)
        except OSError as error:
            raise EngineFailed(
                f"cannot write weights to {self._folders.path}: {error.strerror or error}; vllm.exports says where"
            ) from error
        self.refresh_seconds = seconds
        return folder

    def _load(self, folder: Path, version: int) -> None:
        self._wake(weights_only=True)
        with ThreadPoolExecutor(len(self._keepers)) as threads:
            found = list(threads.map(lambda keeper: keeper.load(folder, version), self._keepers))
        slowest = {part: max(each.get(part, 0.0) for each in found) for part in ("verify", "load", "control")}
        self.refresh_seconds = dict(self.refresh_seconds) | slowest
        self._wake(weights_only=False)
        self.weights_version = version

    def _wake(self, *, weights_only: bool) -> None:
        if self._asleep:
            for backend in self.backends:
                backend.wake(weights_only=weights_only)
            self._asleep = weights_only

    def _completion(self, found: Answer | Lost, asked: int) -> Completion:
        if isinstance(found, Lost):
            line = f"lost: prompt {found.prompt}, sample {found.sample}, weights {asked}: {found.reason}"
            self.lost.append(line)
            warnings.warn(line, stacklevel=2)
            return Completion((), (), "lost", asked)
        if len(found.logprobs) != len(found.token_ids) or not found.token_ids:
            raise EngineFailed(
                f"vLLM gave {len(found.token_ids)} tokens with {len(found.logprobs)} log-probs; docs/vllm.md says how "
                f"it must be started"
            )
        if not all(math.isfinite(value) and value > NO_LOGPROB for value in found.logprobs):
            raise BrokenPolicyError(
                f"a sampled token has no finite log-prob under weights {asked}: the policy's weights are broken"
            )
        if found.finish_reason not in ("stop", "length"):
            raise EngineFailed(
                f"vLLM ended an answer with {found.finish_reason!r}: somebody else uses its control endpoints"
            )
        reason: FinishReason = "stop" if found.finish_reason == "stop" else "length"
        made_by = [int(version) if version.lstrip("-").isdecimal() else -1 for version in found.versions]
        # of an answer under several versions the one that was not asked for: whoever reads it sees that it is not pure
        version = next((each for each in made_by if each != asked), asked)
        return Completion(found.token_ids, found.logprobs, reason, version)


def _backends(config: Config, folder: Path, dtype: str, longest: int) -> list[Backend]:
    vllm = config.vllm
    if vllm.urls:
        return [HttpServer(url, start_timeout_s=vllm.start_timeout_s) for url in vllm.urls]
    python = Python(vllm.python)
    if vllm.kind == "process":
        return [OwnProcess(vllm, python, folder, dtype=dtype, longest=longest)]
    return [OwnServer(number, vllm, python, folder, dtype=dtype, longest=longest) for number in range(vllm.servers)]


def _longest(config: Config, policy: Policy) -> int:
    """Positions that a server must hold: a prompt and the longest answer that anything asks for."""
    answer = max(config.rollout.max_new_tokens, config.probes.max_new_tokens, config.evaluate.max_new_tokens)
    return min(config.rollout.max_prompt_tokens + answer, policy.spec.max_positions)
