"""Planning: what the compiled update costs, on devices that need not be there."""

from erpo_jax.planning.cost import Cost, Traffic, count
from erpo_jax.planning.hlo import HloError

__all__ = ["Cost", "HloError", "Traffic", "count"]
