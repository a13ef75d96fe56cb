"""Problems as training sees them, the requests made of them, and the programs in the answers."""

from erpo_jax.problems.extraction import extract_program
from erpo_jax.problems.loading import QUICKSTART_PROBLEMS, ProblemError, load_problems, read_problem, save_problems
from erpo_jax.problems.problem import Example, Mode, Problem
from erpo_jax.problems.prompts import Prompt, PromptError, Prompts, check_templates

__all__ = [
    "QUICKSTART_PROBLEMS",
    "Example",
    "Mode",
    "Problem",
    "ProblemError",
    "Prompt",
    "PromptError",
    "Prompts",
    "check_templates",
    "extract_program",
    "load_problems",
    "read_problem",
    "save_problems",
]
