"""Metrics: JSONL is the record, whatever TensorBoard does; a resumed run has each step once (CASES R8)."""

import pytest

from erpo_jax.errors import UserError
from erpo_jax.metrics import Metrics, read_metrics


def test_each_step_is_one_line_and_tensorboard_has_the_same(tmp_path):
    with Metrics(tmp_path) as metrics:
        metrics.write(0, {"loss": 0.5, "note": "text"})
        metrics.write(1, {"loss": float("nan")})
    assert read_metrics(tmp_path / "metrics.jsonl") == [
        {"step": 0, "loss": 0.5, "note": "text"},
        {"step": 1, "loss": None},
    ]
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"loss" in events.read_bytes()


def test_steps_that_will_be_done_again_are_cut_off(tmp_path):
    with Metrics(tmp_path) as metrics:
        for step in range(4):
            metrics.write(step, {"x": step})
    with (tmp_path / "metrics.jsonl").open("a") as torn:
        torn.write('{"step": 4, "x"')
    with Metrics(tmp_path, first_step=2) as metrics:
        metrics.write(2, {"x": 20})
    assert [(row["step"], row["x"]) for row in read_metrics(tmp_path / "metrics.jsonl")] == [(0, 0), (1, 1), (2, 20)]


def test_a_torn_line_in_the_middle_is_not_passed_over(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 0\n{"step": 1}\n')
    with pytest.raises(UserError, match=r"metrics\.jsonl:1 is damaged"):
        read_metrics(tmp_path / "metrics.jsonl")


def test_a_tracker_that_raises_does_not_stop_the_run(tmp_path, capsys):
    with Metrics(tmp_path) as metrics:

        class Broken:
            def add_scalar(self, *_):
                raise OSError("no space left")

        metrics._board = Broken()
        metrics.write(0, {"loss": 1.0})
        metrics.write(1, {"loss": 2.0})
    assert [row["loss"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [1.0, 2.0]
    assert capsys.readouterr().err.count("TensorBoard stopped (no space left)") == 1
