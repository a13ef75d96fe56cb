"""The whole loop over real vLLM: it learns, goes on where it stopped, and ends in order when vLLM stays dead."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from erpo_jax.metrics import read_metrics
from erpo_jax.run_folder import RunFolder, read_rollouts
from tests.rollout.vllm.conftest import ROOT

WORDS = [
    "rollout.engine=vllm", "vllm.kind=process", "problems.limit=6", "train.problems_per_step=2",
    "train.checkpoint_every=1", "rollout.group_size=4", "update.micro_batch_rows=4", "probes.count=2",
    "probes.attempts=1", "probes.trial_programs=1", "optimizer.learning_rate=1e-3", "optimizer.warmup_steps=1",
    "evaluate.before_and_after=false", "sandbox.workers=1",
]  # fmt: skip


def command(folder: Path, *more: str) -> list[str]:
    python = os.environ.get("ERPO_VLLM_PYTHON", ROOT / ".venv-vllm" / "bin" / "python")
    words = [f"run.folder={folder}", "run.name=run", f"probes.store={folder}/probes", f"vllm.python={python}"]
    return [sys.executable, str(ROOT / "launch" / "train.py"), *WORDS, *words, *more]


ENVIRONMENT = {**os.environ, "XLA_FLAGS": ""}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run of two steps."""
    folder = tmp_path_factory.mktemp("runs")
    ended = subprocess.run(
        command(folder, "train.steps=2"), capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return folder


def test_a_resumed_run_samples_from_its_checkpoint(stopped):
    """CASES W7: the first log-probs after a resume are the checkpoint's, not the base model's. Then vLLM is killed for
    good (CASES R5): the run ends with a checkpoint, code 1 and one line."""
    run = RunFolder(stopped / "run")
    with subprocess.Popen(
        command(stopped, "train.steps=1000", "vllm.restarts=0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as resumed:
        while resumed.poll() is None and len(read_metrics(run.path / "metrics.jsonl")) < 4:
            time.sleep(0.1)
        (engine,) = [p for p in psutil.Process(resumed.pid).children() if "erpo_vllm.process" in p.cmdline()]
        engine.send_signal(signal.SIGKILL)
        _, errors = resumed.communicate(timeout=120)
    assert resumed.returncode == 1, errors
    assert "vllm.restarts=0 are used up" in errors
    rows = read_metrics(run.path / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(len(rows)))
    assert max(row["update/logprob_gap_max"] for row in rows) < 1e-4
    saved = max(int(item.name) for item in run.checkpoints.iterdir() if item.name.isdecimal())
    assert saved == len(rows) >= 4
    for step in range(4):
        records = read_rollouts(run.rollouts / f"step-{step:06d}.jsonl.zst")
        assert {record["weights_version"] for record in records} == {step}
