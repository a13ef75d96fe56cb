"""The run folder: the same configuration goes on, another is refused with its keys; so is changed data."""

import pytest

from erpo_jax import config as configuration
from erpo_jax.errors import UserError
from erpo_jax.problems import Problem
from erpo_jax.run_folder import RunFolder, read_rollouts

PROBLEMS = [Problem(id="a", statement="Add."), Problem(id="b", statement="Subtract.")]


def opened(tmp_path, *words):
    return RunFolder.open(configuration.load([], [f"run.folder={tmp_path}", "run.name=r", *words]))


def test_the_same_configuration_goes_on_with_more_steps(tmp_path):
    run = opened(tmp_path, "train.steps=3")
    assert configuration.load([run.path / "config.yaml"]).train.steps == 3
    assert opened(tmp_path, "train.steps=6").path == run.path
    assert configuration.load([run.path / "config.yaml"]).train.steps == 6


def test_another_configuration_is_refused_with_each_key(tmp_path):
    (opened(tmp_path).path / "metrics.jsonl").touch()
    with pytest.raises(UserError) as error:
        opened(tmp_path, "mask.percent=40", "train.seed=1")
    assert "mask.percent was 50, is now 40" in str(error.value)
    assert "train.seed was 0, is now 1" in str(error.value)


def test_changed_problems_are_refused_and_named_unless_allowed(tmp_path):
    run = opened(tmp_path)
    run.check_data(PROBLEMS, allow_change=False)
    run.check_data(PROBLEMS, allow_change=False)
    changed = [PROBLEMS[0], Problem(id="b", statement="Divide.")]
    with pytest.raises(UserError, match=r"began \(b\).*problems\.allow_changed_data"):
        run.check_data(changed, allow_change=False)
    run.check_data(changed, allow_change=True)
    run.check_data(changed, allow_change=False)


def test_rollout_records_come_back(tmp_path):
    run = opened(tmp_path)
    rows = [{"problem": "a", "reward": 0.5, "text": "é\n"}, {"problem": "a", "reward": None, "text": ""}]
    run.record(7, rows)
    (file,) = run.rollouts.iterdir()
    assert file.name == "step-000007.jsonl.zst"
    assert read_rollouts(file) == rows
    with pytest.raises(UserError, match="record 1 lacks weight: no rollouts"):
        read_rollouts(file, ("problem", "weight"))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_torn_file_of_rollouts_is_said(tmp_path, share):
    run = opened(tmp_path)
    run.record(7, [{"problem": str(number**5)} for number in range(500)])
    (file,) = run.rollouts.iterdir()
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.raises(UserError, match="no whole file of rollouts"):
        read_rollouts(file)


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "r").write_text("a file is in the way")
    with pytest.raises(UserError, match="cannot write the run folder"):
        opened(tmp_path)


def test_a_folder_in_which_nothing_has_begun_takes_another_configuration(tmp_path):
    run = RunFolder.of(configuration.load([], [f"run.folder={tmp_path}", "run.name=r"]))
    run.path.mkdir()
    (run.path / "config.yaml").write_text("model:\n  path: a-typo\n")
    opened(tmp_path)
    assert configuration.load([run.path / "config.yaml"]).model.path == "quickstart"


def test_fewer_steps_than_are_done_are_refused_and_the_configuration_stays(tmp_path):
    run = opened(tmp_path, "train.steps=8")
    (run.checkpoints / "6").mkdir(parents=True)
    with pytest.raises(UserError, match=r"has 6 steps already and train\.steps=4 is fewer; give at least 6"):
        opened(tmp_path, "train.steps=4")
    assert configuration.load([run.path / "config.yaml"]).train.steps == 8
