"""Real vLLM, in the environment that `make vllm` makes: small engines over pipes, and one HTTP server for a session."""

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from transformers import Qwen3Config, Qwen3ForCausalLM

from erpo_jax import config as configuration
from erpo_jax.config import Config
from erpo_jax.policy import Policy, load, make_mesh
from erpo_jax.rollout.vllm import VllmEngine

ROOT = Path(__file__).parents[3]
VOCABULARY = 160
LONGEST_PROMPT = 320  # over two of vLLM's cache blocks, of 128 tokens on a CPU


def settings(*words: str) -> Config:
    return configuration.load(
        [ROOT / "configs" / "quickstart.yaml"],
        [
            "rollout.engine=vllm",
            f"vllm.python={os.environ.get('ERPO_VLLM_PYTHON', ROOT / '.venv-vllm' / 'bin' / 'python')}",
            f"rollout.max_prompt_tokens={LONGEST_PROMPT}",
            *words,
        ],
    )


def make_folder(path: Path, *, tied: bool) -> Path:
    """A random Qwen3 whose logits are far from flat, with two ends that answers do meet."""
    torch.manual_seed(7)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        initializer_range=0.12,
        dtype="float32",
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.uniform_(0.5, 1.5)
    model.save_pretrained(path)
    # two traps: two ends, and defaults that would make every sample the same
    (path / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [3, 11], "temperature": 0.1, "top_k": 1, "do_sample": True})
    )
    return path


def changed(policy: Policy, seed: int = 1) -> Policy:
    """Every weight moved, as an update does, only further."""
    rng = np.random.default_rng(seed)

    def move(value: jax.Array) -> jax.Array:
        return value + jax.device_put(0.03 * rng.standard_normal(value.shape).astype(np.float32), value.sharding)

    return policy.with_params(jax.tree.map(move, policy.params))


def random_prompts(lengths: list[int], vocabulary: int = VOCABULARY, seed: int = 3) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(12, vocabulary, length).tolist() for length in lengths]


@pytest.fixture(scope="session")
def tied_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("tied"), tied=True)


@pytest.fixture(scope="session")
def tied(tied_folder: Path) -> Policy:
    return load(tied_folder, make_mesh())


@pytest.fixture(scope="session")
def untied(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return load(make_folder(tmp_path_factory.mktemp("untied"), tied=False), make_mesh())


def opened(policy: Policy, path: Path, *words: str) -> Iterator[VllmEngine]:
    engine = VllmEngine(settings(*words), policy, path)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def tied_engine(tied: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    yield from opened(tied, tmp_path_factory.mktemp("tied-run"), "vllm.kind=process")


@pytest.fixture(scope="session")
def untied_engine(untied: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    yield from opened(untied, tmp_path_factory.mktemp("untied-run"), "vllm.kind=process")


@pytest.fixture(scope="session")
def quickstart() -> Policy:
    return load("quickstart", make_mesh())


@pytest.fixture(scope="session")
def server_engine(quickstart: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    """One HTTP server, which tests kill and which comes back."""
    yield from opened(quickstart, tmp_path_factory.mktemp("server-run"), "vllm.kind=server")


def trainer_logprobs(policy: Policy, prompt: list[int], answer: tuple[int, ...], temperature: float) -> np.ndarray:
    """The policy's own log-probs of these very ids."""
    return trainer_distributions(policy, prompt, answer, temperature)[np.arange(len(answer)), list(answer)]


def trainer_distributions(policy: Policy, prompt: list[int], answer: tuple[int, ...], temperature: float) -> np.ndarray:
    """The policy's own log-probs before each token of the answer, [T, V]."""
    text = [*prompt, *answer]
    tokens_rs = np.zeros((1, 512), np.int32)  # one shape for all
    tokens_rs[0, : len(text)] = text
    logits_rsv = np.asarray(_logits(policy.graphdef, policy.params, tokens_rs, np.int32(len(text))))
    logprobs_sv = np.asarray(jax.nn.log_softmax(logits_rsv[0] / np.float32(temperature), axis=-1))
    return logprobs_sv[len(prompt) - 1 : len(text) - 1]


@functools.partial(jax.jit, static_argnums=0)
def _logits(graphdef: nnx.GraphDef, params: nnx.State, tokens_rs: jax.Array, length: jax.Array) -> jax.Array:
    decoder = nnx.merge(graphdef, params)
    positions_rs = jnp.arange(tokens_rs.shape[1], dtype=jnp.int32)[None]
    return decoder.logits(decoder(tokens_rs, positions_rs, (positions_rs < length).astype(jnp.int32)))
