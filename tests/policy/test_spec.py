"""What config.json says, in both layouts, and what it may not say."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from erpo_jax.errors import UserError
from erpo_jax.policy import CheckpointError, ModelSpec, RopeScaling, load, make_mesh, parameters
from erpo_jax.policy.attention import choose, rotary_frequencies

SHAPES = Path(__file__).parents[2] / "configs" / "models"
QWEN2 = {
    "model_type": "qwen2",
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rope_theta": 1000000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "use_sliding_window": False,
    "sliding_window": 64,
    "max_window_layers": 1,
}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def test_old_layout():
    spec = ModelSpec.from_hf(QWEN2)
    assert spec == ModelSpec(
        family="qwen2",
        vocabulary=100,
        model=64,
        feed_forward=96,
        layers=2,
        heads=4,
        kv_heads=2,
        head_dim=16,
        max_positions=128,
        rope_theta=1e6,
        norm_eps=1e-5,
        tied=True,
        qkv_bias=True,
    )


def test_new_layout_says_the_same():
    new = {name: value for name, value in QWEN2.items() if name != "rope_theta"}
    new["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e6}
    assert ModelSpec.from_hf(new) == ModelSpec.from_hf(QWEN2)


def test_llama_scaling_in_both_layouts():
    llama = {**QWEN2, "model_type": "llama", "sliding_window": None, "attention_bias": True, "mlp_bias": True}
    old = ModelSpec.from_hf({**llama, "rope_scaling": {"type": "llama3", **LLAMA3}})
    new = ModelSpec.from_hf({**llama, "rope_parameters": {"rope_type": "llama3", "rope_theta": 1e6, **LLAMA3}})
    assert old == new
    assert old.rope_scaling == RopeScaling(8.0, 1.0, 4.0, 8192)
    assert (old.qkv_bias, old.output_bias, old.mlp_bias, old.qk_norm) == (True, True, True, False)


def test_llama_scaling_by_hand():
    llama = {**QWEN2, "model_type": "llama", "sliding_window": None, "rope_theta": 10000.0, "head_dim": 8}
    spec = ModelSpec.from_hf(
        {
            **llama,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 128,
            },
        }
    )
    # wavelengths 2 pi * (1, 10, 100, 1000) = 6.28, 62.8, 628, 6283; kept below 128 / 4, divided by 4 above 128,
    # between them a share (128 / 62.83 - 1) / 3 = 0.34573 is kept: 0.1 * (0.34573 + 0.65427 / 4) = 0.050930
    np.testing.assert_allclose(rotary_frequencies(spec), [1.0, 0.050930, 0.0025, 0.00025], rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"model_type": "qwen3_moe"}, "model_type='qwen3_moe' is not one of qwen3, qwen2, llama; the nearest is qwen3"),
        ({"use_sliding_window": True}, "sliding_window=64 is not supported"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types="),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope_scaling has rope_type='yarn'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 4.0}}, "lacks low_freq_factor, high_freq_factor"),
        ({"rope_parameters": {"rope_theta": 1e4}}, "rope_theta=1000000.0 contradicts rope_parameters"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
        ({"quantization_config": {"bits": 4}}, "quantization_config="),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"attention_dropout": 0.1}, "attention_dropout=0.1"),
        ({"num_experts": 8}, "num_experts=8"),
        ({"mlp_bias": True}, "mlp_bias=True"),
        ({"num_key_value_heads": 3}, "num_attention_heads=4 is not a multiple of num_key_value_heads=3"),
        ({"num_attention_heads": 3, "num_key_value_heads": 3}, "hidden_size=64 is not a multiple of 3 heads"),
        ({"head_dim": 15}, "head_dim=15 is odd"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"rope_scaling": "x"}, "rope_scaling is 'x'; it must be an object or null"),
        ({"rope_scaling": [1]}, r"rope_scaling is \[1\]; it must be an object or null"),
        ({"rope_parameters": "x"}, "rope_parameters is 'x'; it must be an object or null"),
        ({"rope_parameters": {"rope_theta": "x"}}, "rope_parameters.rope_theta is 'x'; it must be a finite number"),
        ({"rope_theta": "x"}, "rope_theta is 'x'; it must be a finite number above 0"),
        ({"rope_theta": 0}, "rope_theta is 0; it must be a finite number above 0"),
        ({"rope_theta": True}, "rope_theta is True; it must be"),
        ({"rope_theta": float("nan")}, "rope_theta is nan; it must be"),
        ({"rope_theta": 10**400}, "rope_theta is 1000"),
        ({"rope_scaling": {"rope_type": "llama3", **LLAMA3, "factor": "x"}}, "rope_scaling.factor is 'x'; it must be"),
        (
            {"rope_scaling": {"rope_type": "llama3", **LLAMA3, "original_max_position_embeddings": "x"}},
            "original_max_position_embeddings is 'x'",
        ),
        ({"rms_norm_eps": "x"}, "rms_norm_eps is 'x'; it must be a finite number above 0"),
        ({"intermediate_size": None}, "intermediate_size is missing"),
    ],
)
def test_what_is_not_supported_is_named(change, match):
    with pytest.raises(CheckpointError, match=match):
        ModelSpec.from_hf({**QWEN2, **change})


@pytest.mark.parametrize(
    ("name", "count"),  # parameters, as published with each model (0.6B, 1.7B, 4B: with tied embeddings counted once)
    [
        ("qwen3_0.6b", 596_049_920),
        ("qwen3_1.7b", 1_720_574_976),
        ("qwen3_4b", 4_022_468_096),
        ("qwen3_8b", 8_190_735_360),
        ("qwen2.5_coder_0.5b", 494_032_768),
    ],
)
def test_shipped_shapes_have_the_published_sizes(name, count):
    spec = ModelSpec.from_hf(json.loads((SHAPES / f"{name}.json").read_text()))
    assert sum(math.prod(row.shape(spec)) for row in parameters(spec).values()) == count


def test_attention_is_chosen_by_platform_and_dtype():
    bfloat16, float32 = jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float32)
    assert choose("auto", bfloat16, "gpu") == "cudnn"
    assert choose("auto", float32, "gpu") == choose("auto", bfloat16, "cpu") == choose("xla", bfloat16, "gpu") == "xla"
    with pytest.raises(UserError, match="attention=cudnn needs compute_dtype=bfloat16, not float32"):
        choose("cudnn", float32, "gpu")
    with pytest.raises(UserError, match="attention='flash' is not one of"):
        choose("flash", float32, "gpu")


def test_end_ids_and_tokenizer(tiny, tmp_path):
    policy = load(tiny("qwen2").folder, make_mesh())
    assert policy.end_ids == (5, 7)
    tokenizer = policy.tokenizer()
    assert tokenizer("w3 w9").input_ids == [3, 9]
    assert tokenizer.is_fast


@pytest.mark.parametrize(
    ("generation", "config", "expected"), [({"eos_token_id": 9}, 5, (9,)), ({}, [5, 8], (5, 8)), (None, None, (5,))]
)
def test_end_ids_come_from_the_first_file_that_says(tiny, tmp_path, generation, config, expected):
    source = Path(shutil.copytree(tiny("qwen2").folder, tmp_path / "source"))
    (source / "generation_config.json").unlink()
    if generation is not None:
        (source / "generation_config.json").write_text(json.dumps(generation))
    content = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**content, "eos_token_id": config}))
    policy = dataclasses.replace(load(tiny("qwen2").folder, make_mesh()), source=source)
    assert policy.end_ids == expected
