"""launch/bench.py update: all contestants see the same, and the step does the share of the work that it should."""

import pytest

from erpo_jax.benchmarks.timing import BenchmarkError, Timing
from erpo_jax.benchmarks.update import compare as benchmark
from erpo_jax.benchmarks.update.candidates import of_one_length, of_rollouts
from erpo_jax.benchmarks.update.compare import Result, Sizes, UpdateBenchmark
from erpo_jax.run_folder import RunFolder

SMALL = Sizes(1, 32, 64, candidates=8, groups=2, tokens=64, prompt_tokens=1, micro_batch_rows=4, chunk_tokens=64)


def test_operations_of_a_step_at_or_below_the_ceiling(monkeypatch):
    """At most (1 + 3 s) / 5 + 0.02 of those of the GRPO step, here without prompts to share or to leave out."""
    programs = {}

    def compiled_once(contestant, compiled=benchmark._compiled):
        if contestant.name not in programs:
            programs[contestant.name] = compiled(contestant)
        return programs[contestant.name]

    # the large vocabulary is the small one here: what was compiled to count operations serves for memory too
    monkeypatch.setattr(benchmark, "LARGE_VOCABULARY", 64)
    monkeypatch.setattr(benchmark, "_compiled", compiled_once)
    found = benchmark.compare(SMALL, with_tunix=False, repeats=1)
    flops = {result.contestant: result.flops for result in found.results}
    assert found.share == 0.5
    assert found.logprob_gap < 1e-4
    assert flops["erpo_jax, below the ceiling"] <= (2.5 / 5 + 0.02) * flops["GRPO as verl"]
    assert flops["erpo_jax, entropy term off"] == flops["erpo_jax, below the ceiling"]
    assert flops["erpo_jax, above the ceiling"] > 1.9 * flops["erpo_jax, below the ceiling"]
    assert "ours / this: cpu" in found.lines()[-1]


def test_ratios_are_ours_over_theirs():
    def result(name, seconds, flops):
        return Result(name, "does", Timing((1.0,), (seconds,)), flops, 2**20, 2**21)

    found = UpdateBenchmark("what", 0.5, 1e-6, 2**23, (result(benchmark.USUAL, 1, 5e9), result("y", 4, 20e9)))
    assert "cpu 0.250 (least), 0.250 (median), operations 0.250, temporaries at the large" in found.lines()[-1]
    assert "25.0% of all logits" in found.lines()[-2]


def test_candidates_of_a_rollout_file(tmp_path):
    def record(problem, size, **more):
        made = {"problem": problem, "prompt_ids": [70, 63], "token_ids": [0] * size, "logprobs": [-1.0] * size}
        return made | {"reward": 0.5, "present": True} | more

    run = RunFolder(tmp_path)
    run.rollouts.mkdir(parents=True)
    run.record(0, [record("a", 3), record("a", 2, present=False), record("a", 1, reward=None), record("b", 4)])
    (file,) = run.rollouts.iterdir()
    first, second, third = of_rollouts(file, 16, 64)
    assert (first.prompt_ids, first.completion_ids, first.group, first.index) == ([8, 1], [1, 1, 1], 0, 0)
    assert (second.group, second.index, third.group, third.index) == (0, 1, 1, 0)
    assert second.reward != second.reward
    assert len(of_rollouts(file, 2, 64)) == 2
    with pytest.raises(BenchmarkError, match="more than --candidates 1"):
        of_rollouts(file, 1, 64)
    with pytest.raises(BenchmarkError, match="is not a rollouts/step"):
        of_rollouts(tmp_path / "none", 1, 64)


def test_sizes_that_do_not_fit_are_named():
    with pytest.raises(BenchmarkError, match="--candidates 7 in --groups 2"):
        of_one_length(7, 2, 64, 8, 64)
