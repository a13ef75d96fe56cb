"""The run as a command: what it says and leaves when it is stopped, started twice, or finds damage."""

import subprocess
import sys
from pathlib import Path

import pytest

from erpo_jax import config as configuration
from erpo_jax.errors import UserError
from erpo_jax.metrics import Metrics
from erpo_jax.run_folder import RunFolder

ROOT = Path(__file__).parents[1]


def train(*words):
    command = [sys.executable, ROOT / "launch" / "train.py", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_folder_is_worked_in_by_one_process(tmp_path):
    run = RunFolder.open(configuration.load([], [f"run.folder={tmp_path}", "run.name=r"]))
    run.lock()
    ended = train(f"run.folder={tmp_path}", "run.name=r", "evaluate.before_and_after=false")
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: another process is working in")


def test_flags_may_stand_between_the_words():
    assert train("mask.percent=40", "--check", "train.steps=3").returncode == 0


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("problems.path=mine.jsonl", "evaluate.problems=quickstart would be measured"),
        ("model.path=/nonexist", "there is no folder /nonexist"),
        ('prompt.solve="{{ problem.nope }}"', "nope"),
    ],
)
def test_mistakes_that_need_no_weights_are_found_before_any_load(word, said):
    ended = train(word, "--check")
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_other_evaluation_settings_are_another_measurement(tmp_path):
    words = [f"run.folder={tmp_path}", "run.name=r"]
    run = RunFolder.of(configuration.load([], words))
    files = {
        run.measurement("before", configuration.load([], [*words, *more])) for more in ([], ["evaluate.samples=17"])
    }
    assert len(files) == 2


def test_damaged_files_of_a_run_are_named(tmp_path):
    run = RunFolder.open(configuration.load([], [f"run.folder={tmp_path}", "run.name=r"]))
    (run.path / "data.json").write_text('{"a": ')
    with pytest.raises(UserError, match=r"data\.json is damaged"):
        run.check_data([], allow_change=False)
    (run.path / "metrics.jsonl").write_text('{"step"\n{"step": 1}\n')
    with pytest.raises(UserError, match=r"metrics\.jsonl:1 is damaged"):
        Metrics(run.path)


def test_a_run_without_its_configuration_is_refused(tmp_path):
    words = [f"run.folder={tmp_path}", "run.name=r"]
    run = RunFolder.open(configuration.load([], words))
    (run.path / "metrics.jsonl").touch()
    (run.path / "config.yaml").unlink()
    with pytest.raises(UserError, match=r"without its config\.yaml"):
        RunFolder.open(configuration.load([], words))
