"""Planning: what the compiled update needs and costs, on devices that need not be there."""

from erpo_jax.planning.cost import Cost, Traffic, count
from erpo_jax.planning.gpus import GPUS, Gpu, find_gpu
from erpo_jax.planning.hlo import HloError
from erpo_jax.planning.plan import Plan, Roofline, make_plan, roofline
from erpo_jax.planning.profile import Profile, profile_lines, profile_update
from erpo_jax.planning.program import Program, abstract_state, compile_batch, compile_update
from erpo_jax.planning.recorded import recorded_candidates
from erpo_jax.planning.show import plan_lines
from erpo_jax.planning.synthetic import synthetic_candidates
from erpo_jax.planning.topology import gpu_devices
from erpo_jax.planning.trace import PARTS, Operation, read_trace, shares

__all__ = [
    "GPUS",
    "PARTS",
    "Cost",
    "Gpu",
    "HloError",
    "Operation",
    "Plan",
    "Profile",
    "Program",
    "Roofline",
    "Traffic",
    "abstract_state",
    "compile_batch",
    "compile_update",
    "count",
    "find_gpu",
    "gpu_devices",
    "make_plan",
    "plan_lines",
    "profile_lines",
    "profile_update",
    "read_trace",
    "recorded_candidates",
    "roofline",
    "shares",
    "synthetic_candidates",
]
