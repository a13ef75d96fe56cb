"""The shape of a decoder, read from a Hugging Face config.json.

Families: Qwen3 (per-head q/k norm), Qwen2 and Qwen2.5 (q/k/v biases), Llama (rope scaling of Llama 3). Both layouts of
config.json are read: transformers 4 (rope_theta and rope_scaling at top level) and 5 (rope_parameters).
Left out: sliding windows, mixtures of experts, quantised weights, other rope scalings, dropout. A config that asks for
one is an error that names the field, never a model that is quietly another.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from erpo_jax.errors import UserError


class CheckpointError(UserError):
    """A checkpoint that cannot be read or written as asked: one line with the file or tensor and its fault."""


FAMILIES = ("qwen3", "qwen2", "llama")


@dataclass(frozen=True)
class RopeScaling:
    """Llama 3's stretching of the slow rotary frequencies beyond the first training's context length."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_positions: int


@dataclass(frozen=True)
class ModelSpec:
    """Sizes and switches of one decoder. Every size is a count; `size(axis)` gives the length of a named axis."""

    family: str
    vocabulary: int
    model: int
    feed_forward: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_positions: int
    rope_theta: float
    norm_eps: float
    rope_scaling: RopeScaling | None = None
    tied: bool = False
    qk_norm: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    initializer_range: float = 0.02

    def size(self, axis: str) -> int:
        """The length of a parameter's logical axis (see sharding.py for the names)."""
        sizes = {
            "layers": self.layers,
            "vocabulary": self.vocabulary,
            "feed_forward": self.feed_forward,
            "model": self.model,
            "features": self.model,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
        }
        return sizes[axis]

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> ModelSpec:
        """Read the content of a config.json. Raises CheckpointError naming a field that is missing or not supported."""
        family = config.get("model_type")
        if family not in FAMILIES:
            near = difflib.get_close_matches(str(family), FAMILIES, n=1)
            hint = f"; the nearest is {near[0]}" if near else ""
            raise CheckpointError(f"config.json: model_type={family!r} is not one of {', '.join(FAMILIES)}{hint}")
        _refuse_unsupported(config, family)
        heads, model = _count(config, "num_attention_heads"), _count(config, "hidden_size")
        kv_heads = heads if config.get("num_key_value_heads") is None else _count(config, "num_key_value_heads")
        if heads % kv_heads:
            raise CheckpointError(
                f"config.json: num_attention_heads={heads} is not a multiple of num_key_value_heads={kv_heads}"
            )
        if config.get("head_dim") is not None:
            head_dim = _count(config, "head_dim")
        elif model % heads:
            raise CheckpointError(
                f"config.json: head_dim is absent and hidden_size={model} is not a multiple of {heads} heads"
            )
        else:
            head_dim = model // heads
        if head_dim % 2:
            raise CheckpointError(f"config.json: head_dim={head_dim} is odd; rotary embeddings need an even one")
        max_positions = _count(config, "max_position_embeddings")
        theta, scaling = _rope(config, max_positions)
        attention_bias = bool(config.get("attention_bias", False))
        return cls(
            family=family,
            vocabulary=_count(config, "vocab_size"),
            model=model,
            feed_forward=_count(config, "intermediate_size"),
            layers=_count(config, "num_hidden_layers"),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            max_positions=max_positions,
            rope_theta=theta,
            rope_scaling=scaling,
            norm_eps=_number(config, "rms_norm_eps", 1e-6),
            # transformers 5 leaves the field out when it has its default, which is False in all three families
            tied=bool(config.get("tie_word_embeddings", False)),
            qk_norm=family == "qwen3",
            qkv_bias=family == "qwen2" or attention_bias,
            output_bias=family != "qwen2" and attention_bias,
            mlp_bias=family == "llama" and bool(config.get("mlp_bias", False)),
            initializer_range=_number(config, "initializer_range", 0.02),
        )


def _count(config: Mapping[str, Any], field: str) -> int:
    value = config.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        found = "is missing" if value is None else f"is {value!r}"
        raise CheckpointError(f"config.json: {field} {found}; it must be a whole number of at least 1")
    return value


def _number(fields: Mapping[str, Any], field: str, default: float, *, inside: str = "") -> float:
    """A field that may be absent, as a float. `inside` names the object of config.json that holds it, with a dot."""
    value = fields.get(field, default)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= sys.float_info.max:  # also for NaN
        raise CheckpointError(f"config.json: {inside}{field} is {value!r}; it must be a finite number above 0")
    return float(value)


def _object(config: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = config.get(field)
    if value is not None and not isinstance(value, Mapping):
        raise CheckpointError(f"config.json: {field} is {value!r}; it must be an object or null")
    return value or {}


def _refuse_unsupported(config: Mapping[str, Any], family: str) -> None:
    def refuse(field: str, why: str) -> None:
        raise CheckpointError(f"config.json: {field}={config[field]!r} is not supported: {why}")

    if config.get("hidden_act", "silu") != "silu":
        refuse("hidden_act", "the feed-forward gate is silu")
    if config.get("quantization_config") is not None:
        refuse("quantization_config", "weights are trained in float32; use the unquantised checkpoint")
    if config.get("attention_dropout"):
        refuse("attention_dropout", "the decoder has no dropout; set it to 0")
    if config.get("num_experts"):
        refuse("num_experts", "mixtures of experts are not supported")
    if family == "qwen2" and config.get("attention_bias") is False:
        refuse("attention_bias", "Qwen2 has biases on q, k and v")
    if family != "llama" and config.get("mlp_bias"):
        refuse("mlp_bias", f"{family} has none")
    window = config.get("sliding_window")
    first = config.get("max_window_layers", 0) if family != "llama" else 0
    used = config.get("use_sliding_window", family == "llama")
    if used and window is not None and first < _count(config, "num_hidden_layers"):
        refuse("sliding_window", "attention is full in every layer")
    if any(kind != "full_attention" for kind in config.get("layer_types") or ()):
        refuse("layer_types", "attention is full in every layer")


def _rope(config: Mapping[str, Any], max_positions: int) -> tuple[float, RopeScaling | None]:
    new, old = _object(config, "rope_parameters"), _object(config, "rope_scaling")
    for source, inside in ((config, ""), (old, "rope_scaling."), (new, "rope_parameters.")):
        if source.get("rope_theta") is not None:
            _number(source, "rope_theta", 0.0, inside=inside)
    for name in ("rope_theta", "rope_scaling"):
        if config.get(name) is not None and new and _differs(config[name], new, name):
            raise CheckpointError(f"config.json: {name}={config[name]!r} contradicts rope_parameters={new!r}")
    fields = {**old, **new}
    where = "rope_parameters" if new else "rope_scaling"
    kind = fields.get("rope_type", fields.get("type", "default"))
    for source in (config, fields):
        if source.get("partial_rotary_factor", 1.0) not in (None, 1, 1.0):
            raise CheckpointError(
                f"config.json: partial_rotary_factor={source['partial_rotary_factor']!r} is not supported: "
                "every head dimension is rotated"
            )
    theta = fields.get("rope_theta", config.get("rope_theta"))
    theta = 10000.0 if theta is None else float(theta)
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise CheckpointError(f"config.json: {where} has rope_type={kind!r}, which is not one of default, llama3")
    missing = [name for name in ("factor", "low_freq_factor", "high_freq_factor") if name not in fields]
    if missing:
        raise CheckpointError(f"config.json: {where} of rope_type llama3 lacks {', '.join(missing)}")
    return theta, RopeScaling(
        factor=_number(fields, "factor", 0.0, inside=f"{where}."),
        low_freq_factor=_number(fields, "low_freq_factor", 0.0, inside=f"{where}."),
        high_freq_factor=_number(fields, "high_freq_factor", 0.0, inside=f"{where}."),
        original_max_positions=(
            _count(fields, "original_max_position_embeddings")
            if "original_max_position_embeddings" in fields
            else max_positions
        ),
    )


def _differs(value: Any, new: Mapping[str, Any], name: str) -> bool:
    if name == "rope_theta":
        return new.get("rope_theta") is not None and float(value) != float(new["rope_theta"])
    kinds = {("rope_type" if key == "type" else key): field for key, field in value.items()}
    return any(key in new and new[key] != field for key, field in kinds.items())
