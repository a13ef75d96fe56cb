"""The typed configuration: `load(files, overrides)` merges YAML files and `key=value` words over defaults, and checks.

Left out: anything that opens a checkpoint (see `erpo_jax.preflight`), and interpolation across files.
"""

from erpo_jax.config.checks import check
from erpo_jax.config.keys import ConfigError
from erpo_jax.config.placement import loosest_dtype
from erpo_jax.config.reading import load, sets
from erpo_jax.config.sections import (
    Config,
    EvaluateConfig,
    LossConfig,
    MaskConfig,
    MeshConfig,
    ModelConfig,
    OptimizerConfig,
    ProbesConfig,
    ProblemsConfig,
    PromptConfig,
    RewardConfig,
    RolloutConfig,
    RunConfig,
    SandboxConfig,
    TrainConfig,
    UpdateConfig,
    VllmConfig,
)
from erpo_jax.config.tree import describe, get, names

__all__ = [
    "Config",
    "ConfigError",
    "EvaluateConfig",
    "LossConfig",
    "MaskConfig",
    "MeshConfig",
    "ModelConfig",
    "OptimizerConfig",
    "ProbesConfig",
    "ProblemsConfig",
    "PromptConfig",
    "RewardConfig",
    "RolloutConfig",
    "RunConfig",
    "SandboxConfig",
    "TrainConfig",
    "UpdateConfig",
    "VllmConfig",
    "check",
    "describe",
    "get",
    "load",
    "loosest_dtype",
    "names",
    "sets",
]
