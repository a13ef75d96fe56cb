"""The embedded engine against transformers.generate, and vLLM where it is installed: same model, same prompts, same
number of sampled tokens.

All sample at temperature 1 with a key/value cache and may not end early. Their runs alternate, so that what else the
machine does meets both; wall and CPU seconds are given as least and median. Compilation is reported apart. The engine
also returns log-probs, transformers does not: that difference is left in the competitor's favour. vLLM works in a
process of its own, whose CPU seconds are not in the table.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erpo_jax.benchmarks.refresh import vllm_config
from erpo_jax.benchmarks.timing import BenchmarkError, Timing, in_turn
from erpo_jax.policy import Policy, load, make_mesh
from erpo_jax.rollout import Engine, JaxEngine, Sampling
from erpo_jax.rollout.vllm import VllmEngine


@dataclass(frozen=True)
class RolloutBenchmark:
    """`tokens` is what each run samples in all. `ratio` is transformers' median wall time over ours."""

    model: str
    dtype: str
    batch: int
    new_tokens: int
    prompt_tokens: tuple[int, int]
    compile_s: float
    compilations: int
    timings: Mapping[str, Timing]
    """By contestant: erpo_jax, transformers, perhaps vllm."""

    @property
    def tokens(self) -> int:
        return self.batch * self.new_tokens

    @property
    def ratio(self) -> float:
        theirs, ours = (statistics.median(self.timings[name].wall_s) for name in ("transformers", "erpo_jax"))
        return theirs / ours

    def lines(self) -> list[str]:
        """A report for people."""
        low, high = self.prompt_tokens
        lines = [
            f"{self.model}, {self.dtype}: {self.batch} prompts of {low} to {high} tokens, {self.new_tokens} new tokens "
            "each",
            f"compilation {self.compile_s:.1f} s ({self.compilations} programs), not counted below",
        ]
        for name, timing in self.timings.items():
            rate, runs = self.tokens / statistics.median(timing.wall_s), len(timing.wall_s)
            lines.append(f"{name:>12}: {timing} (least / median of {runs}), {rate:,.0f} tokens/s")
        lines.append(f"erpo_jax samples {self.ratio:.2f} times as many tokens a second")
        return lines


def compare(
    model: str,
    *,
    batch: int = 32,
    new_tokens: int = 128,
    prompts: Path | None = None,
    prompt_tokens: int = 64,
    dtype: str = "float32",
    repeats: int = 3,
    threads: int = 2,
    vllm_python: str = "",
) -> RolloutBenchmark:
    """Measure `repeats` alternating runs of both. `prompts` is a JSONL file whose lines have `prompt` or `statement`;
    without it, random token ids, `prompt_tokens` each. Raises BenchmarkError; CheckpointError for the model."""
    torch = _torch()
    for name, value in (("batch", batch), ("new-tokens", new_tokens), ("repeats", repeats), ("threads", threads)):
        if value < 1:
            raise BenchmarkError(f"--{name} {value} must be at least 1")
    # both libraries size their thread pools by the processors they may use
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    torch.set_num_threads(threads)
    policy = load(model, make_mesh(), compute_dtype=dtype)
    ids = _ids(policy, prompts, batch, prompt_tokens)
    engine = JaxEngine(policy, batch_rows=batch, max_prompt_tokens=max(map(len, ids)), end_ids=())
    theirs = _transformers(torch, policy, ids, new_tokens, dtype)

    def sampler(engine: Engine) -> Callable[[], int]:
        def run() -> int:
            answers = engine.generate(ids, 1, Sampling(1.0, new_tokens), range(batch))
            return sum(len(answer.token_ids) for (answer,) in answers)

        return run

    runs = {"erpo_jax": sampler(engine), "transformers": theirs}
    with ExitStack() as closed_at_the_end:
        if vllm_python:
            config = vllm_config(vllm_python, max_prompt_tokens=max(map(len, ids)), max_new_tokens=new_tokens)
            config.vllm.concurrency = batch
            folder = Path(closed_at_the_end.enter_context(tempfile.TemporaryDirectory(prefix="erpo_jax-bench-")))
            served = closed_at_the_end.enter_context(closing(VllmEngine(config, policy, folder, end_ids=())))
            runs["vllm"] = sampler(served)
        for run in runs.values():  # compiles and warms up
            if (made := run()) != batch * new_tokens:
                raise AssertionError(f"sampled {made} tokens instead of {batch * new_tokens}: an unfair comparison")
        timings = in_turn(list(runs.values()), repeats)
    lengths = [len(prompt) for prompt in ids]
    return RolloutBenchmark(
        str(model),
        dtype,
        batch,
        new_tokens,
        (min(lengths), max(lengths)),
        engine.compile_seconds,
        engine.compilations,
        dict(zip(runs, timings, strict=True)),
    )


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise BenchmarkError(
            "the rollout benchmark compares with transformers.generate and needs torch: pip install 'erpo_jax[bench]'"
        ) from error
    return torch


def _ids(policy: Policy, prompts: Path | None, batch: int, prompt_tokens: int) -> list[list[int]]:
    if prompts is None:
        draw = np.random.default_rng(0).integers(0, policy.spec.vocabulary, (batch, prompt_tokens))
        found: list[list[int]] = draw.tolist()
        return found
    texts = list(_texts(prompts))
    tokenizer = policy.tokenizer()
    return [list(tokenizer(texts[i % len(texts)])["input_ids"]) for i in range(batch)]


def _texts(file: Path) -> Sequence[str]:
    texts = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BenchmarkError(f"--prompts {file}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise BenchmarkError(f"--prompts {file}:{number} is not JSON: {error}") from error
        text = (record.get("prompt") or record.get("statement")) if isinstance(record, dict) else None
        if not isinstance(text, str):
            raise BenchmarkError(f"--prompts {file}:{number} has neither 'prompt' nor 'statement'")
        texts.append(text)
    if not texts:
        raise BenchmarkError(f"--prompts {file} is empty")
    return texts


def _transformers(torch: Any, policy: Policy, ids: list[list[int]], new_tokens: int, dtype: str) -> Callable[[], int]:
    """A run of transformers.generate over the left-padded batch."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(policy.source, dtype=getattr(torch, dtype))
    model.eval()
    model.generation_config.eos_token_id = None
    longest = max(map(len, ids))
    tokens = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in ids])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in ids])

    def run() -> int:
        with torch.inference_mode():
            out = model.generate(
                input_ids=tokens,
                attention_mask=mask,
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                repetition_penalty=1.0,
                max_new_tokens=new_tokens,
                use_cache=True,
                pad_token_id=0,
            )
        return int(out.shape[0] * (out.shape[1] - longest))

    return run
