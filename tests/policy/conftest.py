"""Tiny random checkpoints of each family, written by transformers itself, with a tokenizer beside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from flax import nnx
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from erpo_jax.policy import Policy

SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 256,
    "eos_token_id": [5, 7],
}
ROPE = {"rope_type": "default", "rope_theta": 1_000_000.0}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
FAMILIES: dict[str, Callable[[], Any]] = {
    "qwen3_tied": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, rope_parameters=dict(ROPE), tie_word_embeddings=True)),
    "qwen3_untied": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, rope_parameters=dict(ROPE))),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, rope_parameters=dict(ROPE), tie_word_embeddings=True)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=dict(LLAMA3))),
    "llama_biases": lambda: LlamaForCausalLM(
        LlamaConfig(**SIZES, rope_parameters=dict(LLAMA3), attention_bias=True, mlp_bias=True)
    ),
}


@dataclass(frozen=True)
class Tiny:
    """A checkpoint folder and transformers' own model of it, float32."""

    folder: Path
    model: Any

    def logits(self, tokens_rs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.model(torch.from_numpy(tokens_rs.astype(np.int64))).logits.float().numpy()


def build(family: str, folder: Path, *, shard: str = "1GB", dtype: torch.dtype = torch.float32) -> Tiny:
    torch.manual_seed(sum(map(ord, family)))
    model = FAMILIES[family]().eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            # random norms and biases too: at their usual ones and zeros a mix-up would not show
            value.copy_(1 + 0.3 * torch.randn_like(value) if "norm" in name else 0.1 * torch.randn_like(value))
    model = model.to(dtype)
    model.generation_config = GenerationConfig(eos_token_id=[5, 7], pad_token_id=0)
    model.save_pretrained(folder, max_shard_size=shard)
    words = {f"w{i}": i for i in range(96)}
    words["<eos>"] = words.pop("w5")
    core = Tokenizer(models.WordLevel(words, unk_token="w0"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<eos>", unk_token="w0")
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    return Tiny(folder, model.float())


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Tiny]:
    """tiny(family, **options): a checkpoint, made once per session. Tests must not write into its folder."""
    made: dict[str, Tiny] = {}

    def get(family: str, **options: Any) -> Tiny:
        key = f"{family}-{options}"
        if key not in made:
            made[key] = build(family, tmp_path_factory.mktemp(family) / "model", **options)
        return made[key]

    return get


@pytest.fixture(scope="session")
def forward() -> Callable[..., np.ndarray]:
    """forward(policy, tokens, positions=None, segments=None): float32 logits [R, S, V] through one jitted function."""

    def run(
        policy: Policy,
        tokens_rs: np.ndarray,
        positions_rs: np.ndarray | None = None,
        segments_rs: np.ndarray | None = None,
    ) -> np.ndarray:
        rows, slots = tokens_rs.shape
        if positions_rs is None:
            positions_rs = np.tile(np.arange(slots, dtype=np.int32), (rows, 1))
        if segments_rs is None:
            segments_rs = np.ones((rows, slots), np.int32)

        @jax.jit
        def logits(params: nnx.State, tokens: jax.Array, positions: jax.Array, segments: jax.Array) -> jax.Array:
            decoder = nnx.merge(policy.graphdef, params)
            return decoder.logits(decoder(tokens, positions, segments))

        return np.asarray(logits(policy.params, tokens_rs, positions_rs, segments_rs))

    return run


@pytest.fixture(scope="session")
def tokens_rs() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 96, (8, 120)).astype(np.int32)
