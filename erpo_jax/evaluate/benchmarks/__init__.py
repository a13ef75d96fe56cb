"""Published benchmarks: from their own files to problems and hidden tests. See `prepare`."""

from erpo_jax.evaluate.benchmarks.row import BadRow
from erpo_jax.evaluate.benchmarks.splitting import BENCHMARKS, Benchmark, Summary, prepare
from erpo_jax.evaluate.benchmarks.taco import special_judge

__all__ = ["BENCHMARKS", "BadRow", "Benchmark", "Summary", "prepare", "special_judge"]
