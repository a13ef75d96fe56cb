"""What a configuration may ask of vLLM: which GPUs train and which serve, how they share memory, and its own limits."""

from __future__ import annotations

from urllib.parse import urlsplit

from erpo_jax.config.keys import ConfigError
from erpo_jax.config.sections import Config

SHARED_MEMORY = 0.95
"""Of a GPU's memory, what JAX and vLLM may plan for together; the rest is for their libraries."""

LAST_PORT = 65535
TEMPERATURES = (0.01, 2.0)
"""What vLLM takes beside 0; it samples at 0.01 what is asked for below."""


def loosest_dtype(config: Config) -> str:
    """The less exact of what trainer and sampler compute in: their log-probs agree to its rounding."""
    served = config.vllm.dtype if config.rollout.engine == "vllm" else "auto"
    return "bfloat16" if "bfloat16" in (config.model.compute_dtype, served) else "float32"


def check_placement(config: Config) -> None:
    """Raises ConfigError naming the key, the sizes found, and the valid ones."""
    vllm = config.vllm
    if vllm.kind == "process" and (vllm.urls or vllm.servers > 1 or vllm.tensor_parallel > 1 or vllm.arguments):
        raise ConfigError(
            "vllm.kind=process is one process of one device: it goes with vllm.urls=[], vllm.servers=1, "
            "vllm.tensor_parallel=1 and vllm.arguments=[]; vllm.kind=server has no such limits"
        )
    temperatures = [config.rollout.temperature, config.probes.temperature, *config.evaluate.temperatures]
    for temperature in temperatures:
        if temperature and not TEMPERATURES[0] <= temperature <= TEMPERATURES[1]:
            raise ConfigError(
                f"vLLM takes temperatures from {TEMPERATURES[0]:g} to {TEMPERATURES[1]:g}, and 0; {temperature:g} is "
                f"asked for; change it in rollout, probes or evaluate, or use rollout.engine=jax"
            )
    for url in vllm.urls:
        if not _is_address(url):
            raise ConfigError(f"vllm.urls has {url}: a server's address is like http://node1:8000, or https://")
    if vllm.port and vllm.port + vllm.servers - 1 > LAST_PORT:
        raise ConfigError(
            f"vllm.port={vllm.port} for vllm.servers={vllm.servers}: ports end at {LAST_PORT}; use at most "
            f"{LAST_PORT - vllm.servers + 1}, or 0 for free ones"
        )
    if vllm.placement == "none":
        if vllm.devices or vllm.train_devices:
            raise ConfigError(
                "vllm.devices and vllm.train_devices need vllm.placement=colocated or vllm.placement=split"
            )
        return
    if vllm.urls:
        raise ConfigError("vllm.urls names servers that already run on devices of theirs: use vllm.placement=none")
    _must_be(
        "vllm.devices", len(vllm.devices), "vllm.servers * vllm.tensor_parallel", vllm.servers * vllm.tensor_parallel
    )
    if len(set(vllm.devices)) < len(vllm.devices):
        raise ConfigError(f"vllm.devices={vllm.devices} names a GPU twice")
    if vllm.placement == "split":
        mesh = config.mesh.data * config.mesh.fsdp * config.mesh.tensor
        _must_be("vllm.train_devices", len(vllm.train_devices), "mesh.data * mesh.fsdp * mesh.tensor", mesh)
        both = sorted(set(vllm.devices) & set(vllm.train_devices))
        if both:
            raise ConfigError(
                f"GPU {both[0]} is in vllm.devices and in vllm.train_devices; placement=split shares none"
            )
        return
    if config.rollout.async_steps:
        raise ConfigError(
            "rollout.async_steps=1 samples while the update runs, and vllm.placement=colocated would have both compute "
            "on the same GPUs at once; use vllm.placement=split, or rollout.async_steps=0"
        )
    if vllm.train_devices:
        raise ConfigError("vllm.train_devices is for vllm.placement=split; colocated trains on every visible GPU")
    together = vllm.memory_fraction + vllm.jax_memory_fraction
    if not vllm.sleep and together > SHARED_MEMORY + 1e-9:
        raise ConfigError(
            f"vllm.memory_fraction + vllm.jax_memory_fraction = {vllm.memory_fraction:g} + "
            f"{vllm.jax_memory_fraction:g} = {together:g} of one GPU is over {SHARED_MEMORY}; use vllm.memory_fraction="
            f"{max(SHARED_MEMORY - vllm.jax_memory_fraction, 0.05):g}, or vllm.sleep=1 so that they take turns"
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, a bracket that is not closed
        return False


def _must_be(name: str, found: int, formula: str, wanted: int) -> None:
    if found != wanted:
        raise ConfigError(f"{name} names {found} GPUs; {formula} = {wanted}")
