"""The update: from candidates with rewards to new weights. The loss is in `objective`, the compiled step in `step`."""

from erpo_jax.update.advantages import advantages, group_advantages, tied
from erpo_jax.update.batch import Batch, BatchError, Candidate
from erpo_jax.update.forward import make_scorer
from erpo_jax.update.masks import ranks, weights
from erpo_jax.update.measures import GAP_EDGES
from erpo_jax.update.optimizer import learning_rate, make_optimizer
from erpo_jax.update.packing import BatchShape, batch_shape, pack, row_lengths, unpack
from erpo_jax.update.rollout_update import RolloutUpdate, largest_gap
from erpo_jax.update.step import Metrics, TrainState, Update, init_state, make_step, make_update

__all__ = [
    "GAP_EDGES",
    "Batch",
    "BatchError",
    "BatchShape",
    "Candidate",
    "Metrics",
    "RolloutUpdate",
    "TrainState",
    "Update",
    "advantages",
    "batch_shape",
    "group_advantages",
    "init_state",
    "largest_gap",
    "learning_rate",
    "make_optimizer",
    "make_scorer",
    "make_step",
    "make_update",
    "pack",
    "ranks",
    "row_lengths",
    "tied",
    "unpack",
    "weights",
]
