"""A tiny random policy in a Hugging Face folder, made by transformers, and engines over it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from erpo_jax.policy import Policy, load, make_mesh
from erpo_jax.rollout import JaxEngine

VOCABULARY = 134  # no multiple of the sampler's block: its last one is padded


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 of 2 layers with weights large enough that its logits are far from flat."""
    torch.manual_seed(11)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.25,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.uniform_(0.5, 1.5)
    path = tmp_path_factory.mktemp("model") / "qwen3"
    model.save_pretrained(path)
    # two end ids that greedy answers do meet, so that some stop and some reach the limit
    with torch.inference_mode():
        outs = [model.generate(torch.tensor([p]), max_new_tokens=12, do_sample=False) for p in rungs()[2:6:3]]
    ends = [int(out[0, -place]) for place, out in zip((9, 3), outs, strict=True)]
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": ends, "temperature": 0.1, "top_k": 1}))
    return path


def rungs() -> list[list[int]]:
    rng = np.random.default_rng(5)
    return [rng.integers(4, 96, length).tolist() for length in (1, 2, 17, 40, 63, 64, 65, 90, 96)]


@pytest.fixture(scope="session")
def ladder() -> list[list[int]]:
    """Prompts of lengths on and around the edges of the engine's buckets."""
    return rungs()


@pytest.fixture(scope="session")
def policy(folder: Path) -> Policy:
    return load(folder, make_mesh())


@pytest.fixture(scope="session")
def engine(policy: Policy) -> JaxEngine:
    """Of fixed shapes: no compaction. Its weights are never changed."""
    return JaxEngine(policy, batch_rows=8, max_prompt_tokens=96, compact=False)


@pytest.fixture(scope="session")
def reference(folder: Path) -> Qwen3ForCausalLM:
    return Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
