"""launch/evaluate.py transfer: which sets and policies its words mean, what it measures, keeps and goes on with."""

import json
import shutil
from pathlib import Path

import pytest

from erpo_jax import config as configuration
from erpo_jax.errors import UserError
from erpo_jax.evaluate import transfer
from erpo_jax.evaluate.transfer import Contender, ProblemSet
from erpo_jax.problems import load_problems
from erpo_jax.run_folder import RunFolder
from tests.evaluate.conftest import HIDDEN, PROBLEMS, load_command, write_lines


@pytest.fixture(scope="module")
def home(tiny, tmp_path_factory):
    """A run adapted on two of three problems, and a set of one other problem."""
    folder = tmp_path_factory.mktemp("transfer")
    write_lines(folder / "away_problems.jsonl", [{**PROBLEMS[0], "id": "again", "statement": "Twice."}])
    write_lines(folder / "away_hidden.jsonl", [{**HIDDEN[0], "id": "again"}])
    model = Path(tiny[0].removeprefix("model.path="))
    (folder / "home").mkdir()
    for name in ("problems", "hidden"):
        shutil.copy(model.parent / f"{name}.jsonl", folder / "home")
    run = RunFolder.open(configuration.load([], [*tiny, f"run.folder={folder}", "run.name=run", "problems.limit=2"]))
    run.check_data(load_problems(folder / "home" / "problems.jsonl")[:2], allow_change=False)
    for step in ("2", "10"):
        shutil.copytree(model, run.exports / step)
    return folder


@pytest.fixture(scope="module")
def words(home):
    sets = ["--sets", str(home / "home"), str(home / "away_problems.jsonl")]
    return ["transfer", "--policies", str(home / "run"), f"same={home / 'run' / 'exports' / '2'}", *sets]


@pytest.fixture(scope="module")
def measured(home, words):
    """The matrix without a YAML file: the settings are those of the run."""
    out = home / "out"
    assert load_command("evaluate").main([*words, "--out", str(out)]) == 0
    return out


def test_the_matrix_is_measured_printed_and_reported(home, words, measured, monkeypatch, capsys):
    cells = sorted(file.relative_to(measured).as_posix().rsplit("-", 1)[0] for file in measured.glob("*/*.json"))
    rows = ["base-T0.5", "base-T1", "run-T1", "same-T1"]
    assert cells == [f"away/{row}" for row in rows] + [f"home/{row}" for row in rows]
    tree = json.loads((measured / "transfer.json").read_text())
    assert [[cell["adapted_on"] for cell in column["cells"]] for column in tree["columns"]] == [[2, 2, 0] * 2, [0, 0]]
    assert [column["base"]["0.5"]["1"]["value"] for column in tree["columns"]] == [pytest.approx(1 / 3), 1.0]
    page = (measured / "transfer.html").read_text()
    assert page.count("<svg") == 2
    assert "run, the part adapted on (2)" in page
    assert tree["policies"]["run"]["policy"].endswith("exports/10")

    # all cells are there: nothing is opened, and the same is said again
    monkeypatch.setattr(transfer, "opened", None)
    assert load_command("evaluate").main([*words, "--out", str(measured)]) == 0
    assert "base, T=1   " in capsys.readouterr().out


def test_an_interrupted_matrix_goes_on_with_what_is_missing(words, measured, tmp_path, monkeypatch):
    out = shutil.copytree(measured, tmp_path / "out")
    (gone,) = out.glob("away/same-*.json")
    gone.unlink()
    kept = {file: file.stat().st_mtime_ns for file in out.glob("*/*.json")}
    asked = []
    real = transfer.opened
    monkeypatch.setattr(transfer, "opened", lambda session: asked.append(session.config.model.path) or real(session))
    assert load_command("evaluate").main([*words, "--out", str(out)]) == 0
    assert [Path(path).name for path in asked] == ["2"]
    assert gone.exists()
    assert {file: file.stat().st_mtime_ns for file in kept} == kept


def test_other_settings_and_other_weights_are_other_cells(home, words, tiny):
    def files(*more):
        config = configuration.load([home / "run" / "config.yaml"], more)
        matrix = transfer.Matrix.of(config, words[5:], words[2:4], home)
        return {matrix._file(row, matrix.sets[0], 1.0, ["weights"]) for row in matrix.contenders}

    assert files() == files("sandbox.workers=1", "evaluate.k=[1]", "rollout.batch_rows=8")
    assert not files() & files("evaluate.samples=5")
    assert not files() & files("rollout.max_new_tokens=5")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("quickstart", ("quickstart", "quickstart", "quickstart")),
        ("A={home}/home", ("A", "{home}/home/problems.jsonl", "{home}/home/hidden.jsonl")),
        ("{home}/home", ("home", "{home}/home/problems.jsonl", "{home}/home/hidden.jsonl")),
        ("{home}/away_problems.jsonl", ("away", "{home}/away_problems.jsonl", "{home}/away_hidden.jsonl")),
    ],
)
def test_words_for_sets(home, word, found):
    expected = [text.format(home=home) for text in found]
    assert ProblemSet.of(word.format(home=home)) == ProblemSet(*expected)


def test_a_policy_is_its_newest_export_and_knows_what_it_was_adapted_on(home):
    config = configuration.load([home / "run" / "config.yaml"])
    run = Contender.of(str(home / "run"), config)
    assert (run.name, run.path) == ("run", str(home / "run" / "exports" / "10"))  # not the greatest as a text
    assert run.trained == {one.digest() for one in load_problems(home / "home" / "problems.jsonl")[:2]}
    plain = Contender.of(f"plain={config.model.path}", config)
    assert (plain.name, plain.trained) == ("plain", None)


@pytest.mark.parametrize(
    ("policies", "sets", "more", "message"),
    [
        (["{home}/run"], ["{home}/nowhere"], [], "there is no set .*nowhere: a set is a folder with problems.jsonl"),
        (["{home}/run"], ["{home}/home/hidden.jsonl"], [], "must lie beside it, under its name with 'hidden'"),
        (["{home}/run"], ["{home}/home", "home=quickstart"], [], "two sets are called home; .* NAME=PATH"),
        (["{home}/run", "{home}/run/exports/2"], ["quickstart"], [], "two policies are called run"),
        (["base={home}/run"], ["quickstart"], [], "two policies are called base"),
        (["a/b={home}/run"], ["quickstart"], [], "NAME without '/'"),
        (["{home}/home"], ["quickstart"], [], "neither a run folder nor a checkpoint"),
        (["{home}/run"], ["quickstart"], ["model.path=quickstart"], "was adapted with model.path=.*config.yaml"),
        (["{home}/run", "my.yaml"], ["quickstart"], [], "my.yaml stands among the policies"),
    ],
)
def test_mistakes_are_named_before_a_model_loads(home, policies, sets, more, message, monkeypatch):
    monkeypatch.setattr("erpo_jax.evaluate.session.load", None)
    named = [word.format(home=home) for word in policies], [word.format(home=home) for word in sets]
    with pytest.raises(UserError, match=message):
        load_command("evaluate").main(
            ["transfer", *more, "--policies", *named[0], "--sets", *named[1], "--out", str(home / "none")]
        )


def test_a_run_that_has_not_ended_is_named(home, tiny, tmp_path):
    run = RunFolder.open(configuration.load([], [*tiny, f"run.folder={tmp_path}", "run.name=young"]))
    run.check_data(load_problems(home / "home" / "problems.jsonl"), allow_change=False)
    with pytest.raises(UserError, match="young has no export yet"):
        Contender.of(str(run.path), configuration.load([run.path / "config.yaml"]))
