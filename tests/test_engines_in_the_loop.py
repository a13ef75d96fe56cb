"""The loop around engines that live apart, lose answers, mix versions, drift or die; and a step sampled one ahead."""

import io
from contextlib import closing, contextmanager
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

from erpo_jax import command, trainer
from erpo_jax import config as configuration
from erpo_jax.config import ConfigError
from erpo_jax.display import Display
from erpo_jax.interrupt import Interrupt, Stopped
from erpo_jax.metrics import read_metrics
from erpo_jax.rollout import Completion, EngineFailed, JaxEngine
from erpo_jax.run_folder import RunFolder, read_rollouts

from .test_trainer import ROOT, words

pytestmark = pytest.mark.usefixtures("compiled_once")


class Apart:
    """An engine with weights of its own, as one in another process has; `alter` may change a step's answers."""

    embedded = False

    def __init__(self, policy, alter):
        self._inner = JaxEngine(copied(policy), batch_rows=8, max_prompt_tokens=64)
        self._alter, self.steps, self.closed = alter, 0, False

    @property
    def weights_version(self):
        return self._inner.weights_version

    def generate(self, prompts, n, sampling, seeds, progress=None):
        answers = self._inner.generate(prompts, n, sampling, seeds, progress)
        if sampling.max_new_tokens == 80 and n == 4 and sampling.temperature == 1:  # a step's, no probes
            answers = self._alter(self.steps, answers)
            self.steps += 1
        return answers

    def refresh(self, policy, version):
        self._inner.refresh(copied(policy), version)

    def rest(self):
        pass

    def close(self):
        self.closed = True


def copied(policy):
    return policy.with_params(jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), policy.params))


def untouched(step, answers):
    return answers


@pytest.fixture
def run(monkeypatch, tmp_path):
    """run(name, *words, alter=None, interrupt=None): a run in a folder of its own; `alter` puts the engine apart."""

    def start(name, *more, alter=None, interrupt=None):
        config = configuration.load([ROOT / "configs" / "quickstart.yaml"], words(tmp_path, name, *more))
        if alter is not None:

            @contextmanager
            def opened(config, policy, folder):
                with closing(Apart(policy, alter)) as engine:
                    yield engine

            monkeypatch.setattr(trainer, "open_engine", opened)
        opened_folder, shown = RunFolder.open(config), io.StringIO()
        with interrupt or Interrupt() as interrupt, Display(4, Console(file=shown, width=200)) as display:
            try:
                trainer.train(config, opened_folder, display, interrupt)
            finally:
                opened_folder.shown = shown.getvalue()
        monkeypatch.undo()
        return opened_folder

    return start


def weights(run):
    return load_file(run.exports / "4" / "model.safetensors")


def records(run, step):
    return read_rollouts(run.rollouts / f"step-{step:06d}.jsonl.zst")


def test_a_lost_answer_leaves_its_group_and_is_named(run):
    """CASES R6."""

    def lose(step, answers):
        answers[1][2] = Completion((), (), "lost", answers[1][2].weights_version)
        return answers

    made = run("lost", "train.steps=1", alter=lose)
    (row,) = read_metrics(made.path / "metrics.jsonl")
    assert (row["rollout/lost"], row["rollout/absent"], row["update/candidates"]) == (1, 1, 7)
    (gone,) = [record for record in records(made, 0) if record["finish_reason"] == "lost"]
    assert (gone["candidate"], gone["present"], gone["reward"], gone["token_ids"]) == (2, False, None, [])
    assert f"step 0: lost candidate 2 of problem {gone['problem']}" in made.shown


@pytest.mark.parametrize(("mixed", "lost"), [("refuse", 1), ("mark", 0)])
def test_answers_of_other_weights_are_refused_or_marked(run, mixed, lost):
    def mix(step, answers):
        answers[0][1] = replace(answers[0][1], weights_version=7)
        return answers

    made = run("mixed", "train.steps=1", f"rollout.mixed_versions={mixed}", alter=mix)
    (row,) = read_metrics(made.path / "metrics.jsonl")
    assert (row["rollout/other_version"], row["rollout/lost"], row["update/candidates"]) == (1, lost, 8 - lost)
    assert records(made, 0)[1]["weights_version"] == 7
    assert ("made by weights 7 in place of 0" in made.shown) == bool(lost)


def test_a_step_without_a_usable_answer_ends_the_run(run):
    def stale(step, answers):
        return [[replace(answer, weights_version=-1) for answer in row] for row in answers]

    with pytest.raises(EngineFailed, match=r"no usable answer in a whole step: all were made by weights \[-1\]"):
        run("stale", alter=stale)


def test_a_gap_beyond_the_bound_is_not_learnt_from_and_ends_the_run(run, tmp_path):
    def shift(step, answers):
        by = 0.02 if step == 1 else 0.0
        return [[replace(a, logprobs=tuple(x - by for x in a.logprobs)) for a in row] for row in answers]

    with pytest.raises(trainer.RunFailed, match=r"step 1: .* differ by 0\.02 nats .* rollout\.max_logprob_gap=0\.001"):
        run("gap", "train.checkpoint_every=1", alter=shift)
    made = RunFolder(tmp_path / "gap")
    (row,) = read_metrics(made.path / "metrics.jsonl")
    assert row["update/logprob_gap_max"] < 1e-4
    assert (
        sum(row[f"update/logprob_gap_from_{edge}"] for edge in ("0", "1e-06", "1e-05")) == row["update/response_tokens"]
    )
    assert len(records(made, 1)) == 8
    # the bound may be raised for the same run; the shift is then passed, and seen
    again = run("gap", "train.steps=2", "rollout.max_logprob_gap=0.05", alter=lambda step, answers: shift(1, answers))
    row = read_metrics(again.path / "metrics.jsonl")[1]
    assert row["update/logprob_gap_mean"] == pytest.approx(0.02, abs=1e-4)
    assert row["update/logprob_gap_from_0.01"] == row["update/response_tokens"]


def test_a_dead_engine_ends_the_run_with_a_checkpoint(run, tmp_path, capsys):
    """CASES R5, budget spent."""

    def die(step, answers):
        if step == 2:
            raise EngineFailed("server 0 died 4 times")
        return answers

    with pytest.raises(EngineFailed, match="died 4 times"):
        run("dead", "train.checkpoint_every=100", alter=die)
    assert (tmp_path / "dead" / "checkpoints" / "2").is_dir()
    with pytest.raises(SystemExit) as ended:
        command.run(lambda words: die(2, []))
    assert ended.value.code == 1
    assert capsys.readouterr().err == "failed: server 0 died 4 times\n"


class Killed(BaseException):
    """As sudden as SIGKILL."""


class Breaking(Interrupt):
    """Once two steps are done, raises `error` at the look after `looks` more."""

    def __init__(self, folder, error, looks):
        super().__init__()
        self._file, self._error, self._looks = folder / "metrics.jsonl", error, looks

    def check(self):
        if len(read_metrics(self._file)) >= 2:
            self._looks -= 1
            if self._looks < 0:
                raise self._error


def test_a_step_ahead_is_the_same_run_embedded_or_apart_stopped_or_killed(run, tmp_path):
    """CASES R1 with rollout.async_steps=1: step n is sampled by the weights of n - 1 updates, whoever samples it."""
    whole = run("whole", "rollout.async_steps=1")
    versions = [{record["weights_version"] for record in records(whole, step)} for step in range(4)]
    assert versions == [{0}, {0}, {1}, {2}]
    rows = read_metrics(whole.path / "metrics.jsonl")
    assert max(abs(row["update/ratio_mean"] - 1) for row in rows) > 1e-3 > abs(rows[0]["update/ratio_mean"] - 1)

    def same(other):
        for step in range(4):
            left, right = ([row | {"step": 0} for row in records(each, step)] for each in (other, whole))
            assert left == right
        return all(np.array_equal(value, weights(whole)[name]) for name, value in weights(other).items())

    assert same(run("apart", "rollout.async_steps=1", alter=untouched))
    for name, alter, error, every, looks in (
        ("killed", None, Killed(), 2, 0),
        ("killed-apart", untouched, Killed(), 2, 0),
        ("stopped-while-sampling", None, Stopped(15), 100, 1),
    ):
        settings = ["rollout.async_steps=1", f"train.checkpoint_every={every}"]
        with pytest.raises(type(error)):
            run(name, *settings, alter=alter, interrupt=Breaking(tmp_path / name, error, looks))
        assert len(read_metrics(tmp_path / name / "metrics.jsonl")) == 2
        assert same(run(name, *settings, alter=alter))


def test_correcting_twice_is_refused():
    with pytest.raises(ConfigError, match=r"would correct twice"):
        configuration.load([], ["rollout.async_steps=1", "loss.importance_cap=2"])
