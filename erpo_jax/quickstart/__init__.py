"""A small policy of our own and the problems it is adapted on: made by a seeded recipe, so that the loop runs in
minutes.
"""

from erpo_jax.quickstart.corpus import PROBE_TEMPLATE, SOLVE_TEMPLATE, CorpusSize
from erpo_jax.quickstart.language import Task, draw_task, hidden_cases, problem, tasks
from erpo_jax.quickstart.making import Recipe, make, write_held_out
from erpo_jax.quickstart.pretrain import Schedule
from erpo_jax.quickstart.programmers import WRITERS, Draft, Writer, write

__all__ = [
    "PROBE_TEMPLATE",
    "SOLVE_TEMPLATE",
    "WRITERS",
    "CorpusSize",
    "Draft",
    "Recipe",
    "Schedule",
    "Task",
    "Writer",
    "draw_task",
    "hidden_cases",
    "make",
    "problem",
    "tasks",
    "write",
    "write_held_out",
]
