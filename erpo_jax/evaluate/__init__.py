"""Measure policies on hidden tests: pass@k, the base's temperature curve as the standing control, and the report.

This package alone reads hidden tests. No package that trains imports it: it runs in a process of its own.
"""

from erpo_jax.evaluate.curve import Against, Comparison, compare
from erpo_jax.evaluate.estimates import Estimate, EvaluationError, mean_pass_at_k, pass_at_k, reportable
from erpo_jax.evaluate.generations import Answer, fitting, generate, load_generations, save_generations
from erpo_jax.evaluate.grade import GRADER_VERSION, Grader
from erpo_jax.evaluate.hidden import Case, HiddenTests, hidden_path, load_hidden
from erpo_jax.evaluate.measurement import (
    Evaluation,
    Point,
    check_plan,
    grade_answers,
    load_evaluation,
    measure,
    save_evaluation,
)
from erpo_jax.evaluate.report import write_report
from erpo_jax.evaluate.table import lines

__all__ = [
    "GRADER_VERSION",
    "Against",
    "Answer",
    "Case",
    "Comparison",
    "Estimate",
    "Evaluation",
    "EvaluationError",
    "Grader",
    "HiddenTests",
    "Point",
    "check_plan",
    "compare",
    "fitting",
    "generate",
    "grade_answers",
    "hidden_path",
    "lines",
    "load_evaluation",
    "load_generations",
    "load_hidden",
    "mean_pass_at_k",
    "measure",
    "pass_at_k",
    "reportable",
    "save_evaluation",
    "save_generations",
    "write_report",
]
