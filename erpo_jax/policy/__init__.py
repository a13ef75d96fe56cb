"""The policy: Flax NNX decoders of the Qwen3, Qwen2 and Llama families, sharded; Hugging Face folders in and out."""

from erpo_jax.policy.exporting import export
from erpo_jax.policy.loading import HUB_ID, QUICKSTART, abstract, init, load, resolve
from erpo_jax.policy.model import Decoder, DecodeWeights, KVCache
from erpo_jax.policy.parameters import Parameter, parameters
from erpo_jax.policy.policy import Policy, load_tokenizer, read_json
from erpo_jax.policy.sharding import (
    MESH_AXES,
    ShardingError,
    check_fit,
    make_mesh,
    parameter_sharding,
    partition,
    row_sharding,
)
from erpo_jax.policy.spec import CheckpointError, ModelSpec, RopeScaling

__all__ = [
    "HUB_ID",
    "MESH_AXES",
    "QUICKSTART",
    "CheckpointError",
    "DecodeWeights",
    "Decoder",
    "KVCache",
    "ModelSpec",
    "Parameter",
    "Policy",
    "RopeScaling",
    "ShardingError",
    "abstract",
    "check_fit",
    "export",
    "init",
    "load",
    "load_tokenizer",
    "make_mesh",
    "parameter_sharding",
    "parameters",
    "partition",
    "read_json",
    "resolve",
    "row_sharding",
]
