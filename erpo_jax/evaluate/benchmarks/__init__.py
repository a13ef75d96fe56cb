"""Published benchmarks: from their own files to problems and hidden tests. See `prepare`."""

from erpo_jax.evaluate.benchmarks.row import BadRow
from erpo_jax.evaluate.benchmarks.splitting import BENCHMARKS, Benchmark, Summary, prepare

__all__ = ["BENCHMARKS", "BadRow", "Benchmark", "Summary", "prepare"]
