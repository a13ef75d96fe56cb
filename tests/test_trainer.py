"""The whole loop on the policy that ships: it learns, and goes on bit for bit where it was stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

from erpo_jax import config as configuration
from erpo_jax.display import Display
from erpo_jax.errors import UserError
from erpo_jax.interrupt import Interrupt
from erpo_jax.metrics import read_metrics
from erpo_jax.problems import load_problems
from erpo_jax.run_folder import RunFolder, read_rollouts
from erpo_jax.trainer import problems_of_step, seeds_of_step, train

ROOT = Path(__file__).parents[1]
SMALL = [
    "problems.limit=6", "train.problems_per_step=2", "train.checkpoint_every=2", "train.steps=4",
    "rollout.group_size=4", "rollout.batch_rows=8", "update.micro_batch_rows=4", "probes.count=3", "probes.attempts=2",
    "probes.trial_programs=2", "optimizer.learning_rate=1e-3", "optimizer.warmup_steps=1",
    "evaluate.before_and_after=false", "sandbox.workers=1",
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("compiled_once")


def words(folder, name, *more):
    return [f"run.folder={folder}", f"run.name={name}", f"probes.store={folder}/probes", *SMALL, *more]


def run(folder, name, *more):
    config = configuration.load([ROOT / "configs" / "quickstart.yaml"], words(folder, name, *more))
    opened = RunFolder.open(config)
    with Interrupt() as interrupt, Display(config.train.steps, Console(file=open(os.devnull, "w"))) as display:
        train(config, opened, display, interrupt)
    return opened


def weights(opened, step=4):
    return load_file(opened.exports / str(step) / "model.safetensors")


def same_weights(left, right):
    assert left.keys() == right.keys()
    return all(np.array_equal(left[name], right[name]) for name in left)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One run of four steps, without a stop."""
    return run(tmp_path_factory.mktemp("runs"), "whole")


def test_a_step_leaves_one_record_per_candidate_and_metrics_that_agree_with_them(whole):
    rows = read_metrics(whole.path / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    for step, row in enumerate(rows):
        records = read_rollouts(whole.rollouts / f"step-{step:06d}.jsonl.zst")
        assert [record["candidate"] for record in records] == [0, 1, 2, 3] * 2
        assert {record["weights_version"] for record in records} == {step}
        rewards = [record["reward"] for record in records if record["present"]]
        assert row["reward/mean"] == pytest.approx(np.mean(rewards))
        assert row["update/logprob_gap_max"] < 1e-4
        kept = [record for record in records if record["weight"] and record["advantage"]]
        assert row["update/kept_fraction"] == pytest.approx(len(kept) / len(rewards))
        for record in records:
            assert len(record["logprobs"]) == len(record["token_ids"]) > 0
            assert len(record["verdicts"]) == len(record["inputs"]) == 3


def test_the_update_changes_the_weights_and_the_export_keeps_the_side_files(whole):
    source = ROOT / "erpo_jax" / "assets" / "quickstart"
    assert not same_weights(weights(whole), load_file(source / "model.safetensors"))
    for name in ("tokenizer.json", "generation_config.json", "config.json"):
        assert (whole.exports / "4" / name).read_bytes() == (source / name).read_bytes()
    assert not (whole.exports / "4" / "hidden.jsonl").exists()


def test_a_stopped_run_goes_on_to_the_same_weights(whole, tmp_path):
    """CASES R1, R10: SIGTERM in the middle, then SIGKILL, then to the end: bitwise the run without a stop."""
    command = [sys.executable, ROOT / "launch" / "train.py", ROOT / "configs" / "quickstart.yaml"]
    command += words(tmp_path, "stopped", "train.checkpoint_every=1")
    environment = {**os.environ, "XLA_FLAGS": ""}
    stopped = RunFolder(tmp_path / "stopped")

    def until(rows, signum):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            while process.poll() is None and len(read_metrics(stopped.path / "metrics.jsonl")) < rows:
                time.sleep(0.02)
            process.send_signal(signum)
            _, errors = process.communicate(timeout=120)
        return process.returncode, errors

    code, errors = until(1, signal.SIGTERM)
    assert code == 128 + signal.SIGTERM, errors
    assert "told to stop by SIGTERM" in errors
    assert "the same command goes on" in errors
    done = len(read_metrics(stopped.path / "metrics.jsonl"))
    assert 1 <= done < 4
    until(done + 1, signal.SIGKILL)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    rows = read_metrics(stopped.path / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert [row["reward/mean"] for row in rows] == [
        row["reward/mean"] for row in read_metrics(whole.path / "metrics.jsonl")
    ]
    assert same_weights(weights(stopped), weights(whole))
    for step in range(4):
        left, right = (read_rollouts(each.rollouts / f"step-{step:06d}.jsonl.zst") for each in (stopped, whole))
        assert [row["token_ids"] for row in left] == [row["token_ids"] for row in right]


def test_the_first_rollout_after_a_resume_is_of_the_checkpoint(whole, tmp_path):
    """CASES W7: sampler and trainer agree on the log-probs of the first step after going on."""
    resumed = run(tmp_path, "resumed", "train.steps=2")
    run(tmp_path, "resumed")
    row = read_metrics(resumed.path / "metrics.jsonl")[2]
    assert row["update/logprob_gap_max"] < 1e-4
    assert same_weights(weights(resumed), weights(whole))


def test_an_export_of_a_checkpoint_is_the_one_the_run_wrote(whole, tmp_path):
    command = [sys.executable, ROOT / "launch" / "export.py", whole.path, "last", tmp_path / "out"]
    environment = {**os.environ, "XLA_FLAGS": ""}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert same_weights(load_file(tmp_path / "out" / "model.safetensors"), weights(whole))
    command[3] = "3"
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "has no checkpoint of step 3; it has [2, 4]" in ended.stderr


def test_no_probes_means_no_reward_and_unchanged_weights(tmp_path):
    """CASES S8: zero probes give no reward; METHOD 3: nothing to learn leaves parameters bitwise as they were."""
    opened = run(tmp_path, "none", "probes.count=0", "train.steps=1", "loss.entropy_coefficient=0")
    (row,) = read_metrics(opened.path / "metrics.jsonl")
    assert row["update/skipped_update"] == 1
    assert same_weights(
        weights(opened, 1), load_file(ROOT / "erpo_jax" / "assets" / "quickstart" / "model.safetensors")
    )
    (file,) = opened.rollouts.iterdir()
    assert {record["reward"] for record in read_rollouts(file)} == {None}


def test_public_tests_can_be_the_reward(tmp_path):
    opened = run(
        tmp_path, "public", "reward.kind=public", "mask.kind=none", "loss.entropy_coefficient=0", "train.steps=1"
    )
    (file,) = opened.rollouts.iterdir()
    records = read_rollouts(file)
    problems = {problem.id: problem for problem in load_problems("quickstart")}
    for record in records:
        tests = problems[record["problem"]].public_tests
        assert record["inputs"] == [test.input for test in tests]
        passed = [
            out is not None and out.strip() == test.output.strip()
            for out, test in zip(record["outputs"], tests, strict=True)
        ]
        assert record["reward"] == pytest.approx(sum(passed) / len(passed))


def test_every_problem_is_visited_once_a_pass_in_an_order_of_its_own():
    config = configuration.load([], ["train.problems_per_step=2"])
    problems = [type("P", (), {"id": str(number)})() for number in range(6)]
    passes = [
        [p.id for step in range(first, first + 3) for p in problems_of_step(step, problems, config)] for first in (0, 3)
    ]
    assert [sorted(visited) for visited in passes] == [list("012345")] * 2
    assert passes[0] != passes[1]
    config.problems.shuffle = False
    assert [p.id for step in range(3) for p in problems_of_step(step, problems, config)] == list("012345")


def test_sampling_seeds_are_a_group_apart():
    config = configuration.load([], [])
    seeds = sorted(seed for step in range(5) for seed in seeds_of_step(step, config))
    assert min(np.diff(seeds)) >= config.rollout.group_size


def test_mistakes_that_meet_the_data_or_the_devices_are_one_line(tmp_path):
    with pytest.raises(UserError, match=r"2 \* 8 \* 1 = 16 devices, but there are 8"):
        run(tmp_path, "devices", "mesh.data=2", "mesh.fsdp=8", "update.micro_batch_rows=16", "rollout.batch_rows=16")
    with pytest.raises(UserError, match=r"has 0 problems that can be used"):
        run(tmp_path, "prompts", "rollout.max_prompt_tokens=5")


def test_check_says_what_is_there_and_exits_0_for_a_run_whose_data_is_not():
    for name, said in (("quickstart", "64, 16 a step"), ("qwen3_8b_livecodebench", "not there yet")):
        command = [sys.executable, ROOT / "launch" / "train.py", ROOT / "configs" / f"{name}.yaml", "--check"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
        assert ended.returncode == 0, ended.stderr
        assert said in ended.stdout


def test_metrics_are_json_with_every_part_of_the_step_timed(whole):
    row = json.loads((whole.path / "metrics.jsonl").read_text().splitlines()[0])
    parts = {name for name in row if name.startswith("seconds/")}
    assert parts == {
        f"seconds/{part}" for part in ("sample", "execute", "reward", "update", "refresh", "record", "step")
    }
