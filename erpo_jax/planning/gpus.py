"""The GPUs that a plan can be made for: what XLA must know to compile for one, and what bounds its speed.

Figures of XLA's own published specifications; peaks and links are the vendor's. Other cards are a row more.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from erpo_jax.errors import UserError

GIB = 2**30


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU."""

    name: str
    cores: int
    fpus_per_core: int
    capability: int
    """Major compute capability: 8 Ampere, 9 Hopper, 10 Blackwell."""
    clock_ghz: float
    memory_bytes: int
    """What XLA sees of it."""
    memory_bandwidth: float
    """Bytes a second."""
    l2_bytes: int
    shared_bytes_per_core: int
    bfloat16_flops: float
    """Dense peak, floating-point operations a second, accumulated in float32."""
    link_bandwidth: float
    """NVLink, bytes a second in one direction."""

    @property
    def target_config(self) -> str:
        """XLA's `GpuTargetConfigProto`, as text."""
        accelerated = "feature_extension: ACCELERATED_FEATURES" if self.capability >= 9 else ""
        return f"""
            gpu_device_info {{
              threads_per_block_limit: 1024
              threads_per_warp: 32
              shared_memory_per_block: 49152
              shared_memory_per_core: {self.shared_bytes_per_core}
              shared_memory_per_block_optin: {self.shared_bytes_per_core - 1024}
              threads_per_core_limit: 2048
              core_count: {self.cores}
              fpus_per_core: {self.fpus_per_core}
              block_dim_limit_x: 2147483647
              block_dim_limit_y: 65535
              block_dim_limit_z: 65535
              thread_dim_limit_x: 1024
              thread_dim_limit_y: 1024
              thread_dim_limit_z: 64
              registers_per_core_limit: 65536
              registers_per_block_limit: 65536
              memory_bandwidth: {self.memory_bandwidth:.0f}
              l2_cache_size: {self.l2_bytes}
              clock_rate_ghz: {self.clock_ghz}
              device_memory_size: {self.memory_bytes}
              cuda_compute_capability {{ major: {self.capability} {accelerated} }}
              runtime_version: "12.8.0"
              compile_time_toolkit_version: "12.8.0"
              driver_version: "12.8.0"
              dnn_version: "9.8.0"
            }}
            platform_name: "CUDA"
            dnn_version_info {{ major: 9 minor: 8 }}
            device_description_str: "{self.name}"
        """


# fmt: off
_FIELDS = (
    "name", "cores", "fpus_per_core", "capability", "clock_ghz", "memory_bytes", "memory_bandwidth", "l2_bytes",
    "shared_bytes_per_core", "bfloat16_flops", "link_bandwidth",
)
_ROWS: dict[str, tuple] = {
    "a100-40g": ("A100-SXM4-40GB", 108, 64, 8, 1.41, 42331013120, 1555.2e9, 41943040, 167936, 312e12, 300e9),
    "a100-80g": ("A100-SXM4-80GB", 108, 64, 8, 1.41, 85100068864, 2039.04e9, 41943040, 167936, 312e12, 300e9),
    "h100": ("H100 80GB HBM3", 132, 128, 9, 1.98, 84942979072, 3352.32e9, 52428800, 233472, 989e12, 450e9),
    "h200": ("H200 141GB HBM3e", 132, 128, 9, 1.98, 151397597184, 4800e9, 52428800, 233472, 989e12, 450e9),
    "b200": ("B200", 148, 128, 10, 1.965, 191514411008, 7672.32e9, 132644864, 233472, 2250e12, 900e9),
}
# fmt: on
GPUS = {key: Gpu(**dict(zip(_FIELDS, row, strict=True))) for key, row in _ROWS.items()}


def find_gpu(name: str) -> Gpu:
    """Raises UserError naming the ones there are."""
    if name not in GPUS:
        near = difflib.get_close_matches(name, GPUS, n=1)
        hint = f"; the nearest is {near[0]}" if near else ""
        raise UserError(f"--gpu {name} is not one of {', '.join(GPUS)}{hint}")
    return GPUS[name]
