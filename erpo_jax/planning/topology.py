"""Devices to compile for that are not there: no driver, no GPU, no CUDA toolkit.

XLA's plugin must be found first: `erpo_jax.command.prepare_gpu_compiler`.
"""

from __future__ import annotations

import jax
from jax.experimental import topologies

from erpo_jax.planning.gpus import Gpu
from erpo_jax.quiet import quiet


def gpu_devices(gpu: Gpu, count: int) -> list[jax.Device]:
    """`count` devices of one node, to put in a mesh and compile for. Nothing can run on them."""
    with quiet():
        found = topologies.get_topology_desc(
            platform="cuda", topology_name="", target_config=gpu.target_config, topology=f"1x1x{count}"
        )
    return list(found.devices)
