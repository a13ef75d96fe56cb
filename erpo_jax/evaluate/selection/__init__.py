"""Training-free selectors: choose one of n programs by agreement, by written tests, or by a reward model."""

from erpo_jax.evaluate.selection.measuring import DRAWS, Curve, Selection, measure_selectors
from erpo_jax.evaluate.selection.report import lines, write_selection
from erpo_jax.evaluate.selection.reward_model import RewardModel, RewardModelError
from erpo_jax.evaluate.selection.selectors import SELECTORS, Ballot, accuracy
from erpo_jax.evaluate.selection.written import WrittenTest, load_written, passes, save_written

__all__ = [
    "DRAWS",
    "SELECTORS",
    "Ballot",
    "Curve",
    "RewardModel",
    "RewardModelError",
    "Selection",
    "WrittenTest",
    "accuracy",
    "lines",
    "load_written",
    "measure_selectors",
    "passes",
    "save_written",
    "write_selection",
]
