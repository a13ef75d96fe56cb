"""Programs and probes from files, and the signal command from its words to its files."""

import json
import re

import pytest

from erpo_jax.errors import UserError
from erpo_jax.evaluate import Answer, EvaluationError, save_generations
from erpo_jax.evaluate.groups import ProgramGroup, dealt, of_answers, of_rollouts
from erpo_jax.evaluate.hidden import Case, HiddenTests
from erpo_jax.evaluate.probing import from_file, from_tests, inputs_of
from erpo_jax.evaluate.solutions import load_solutions
from erpo_jax.problems import load_problems
from erpo_jax.run_folder import RunFolder
from tests.evaluate.conftest import HIDDEN, PROBLEMS, load_command, write_lines
from tests.evaluate.real_sets import codecontests, leetcode

DOUBLE, SQUARE, BROKEN = "print(2 * int(input()))", "print(int(input()) ** 2)", "print("


def record(problem, program, present=True):
    return {"problem": problem, "program": program, "present": present, "inputs": ["1\n", "2\n"]}


@pytest.fixture
def rollouts(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.rollouts.mkdir(parents=True)
    steps = (
        [record("double", DOUBLE), record("double", SQUARE), record("square", DOUBLE, present=False)],
        [record("double", DOUBLE), record("double", BROKEN, present=False), record("square", None)],
    )
    for step, rows in enumerate(steps):
        run.record(step, [{"step": step} | row for row in rows])
    return run.rollouts


def test_the_groups_of_a_run(rollouts):
    probes, sources = ("1\n", "2\n"), ("recorded", "recorded")
    assert of_rollouts(rollouts) == [
        ProgramGroup("double", (DOUBLE, SQUARE), probes, sources, step=0),
        ProgramGroup("double", (DOUBLE,), probes, sources, step=1),
        ProgramGroup("square", (None,), probes, sources, step=1),
    ]
    assert len(of_rollouts(rollouts / "step-000000.jsonl.zst")) == 1
    with pytest.raises(EvaluationError, match=r"no rollouts file in .*absent"):
        of_rollouts(rollouts / "absent")


def test_answers_that_are_no_evidence_stay_out():
    answers = {"p": [Answer("", "a", "stop", 1), Answer("", "b", "length", 1), Answer("", None, "lost", 0)]}
    assert of_answers(answers) == [ProgramGroup("p", ("a", "b"))]
    assert of_answers(answers, drop_truncated=True) == [ProgramGroup("p", ("a",))]


def test_dealing_keeps_every_program_and_is_seeded():
    group = ProgramGroup("p", tuple("abcdefghij"), ("1",), ("policy",))
    hands = dealt([group], 4, seed=0)
    assert sorted(len(hand.programs) for hand in hands) == [3, 3, 4]
    assert sorted(program for hand in hands for program in hand.programs) == sorted("abcdefghij")
    assert {hand.probes for hand in hands} == {("1",)}
    assert hands == dealt([group], 4, seed=0) != dealt([group], 4, seed=1)
    assert len(dealt([group], 10, seed=0)) == 1


def test_inputs_of_tests_that_are_code():
    check = (
        "{program}\ndef check(candidate):\n    assert candidate([1, 2], 'a') == 3\n    assert candidate((1, 2)) == 4\n"
    )
    check += "    assert abs(candidate(0.5) - 1) < 1e-6 and candidate(x) == 1\n    assert f([1, 2], 'a') == 3\n"
    assert inputs_of(HiddenTests("p", "program", entry_point="f", test=check)) == ('[[1, 2], "a"]', "[0.5]")
    check = "{program}\ndef check(candidate):\n    inputs = [[1, 'a'], [(1, 2)], [2, 'b'], [1, 'a']]\n"
    check += "    for given in inputs:\n        candidate(*given)\n"
    assert inputs_of(HiddenTests("p", "program", entry_point="f", test=check)) == ('[1, "a"]', '[2, "b"]')


def test_probes_are_drawn_once_a_problem():
    tests = {"p": HiddenTests("p", "stdin", tuple(Case(str(number), "") for number in [*range(20), 0]))}
    groups = from_tests([ProgramGroup("p", ("a",)), ProgramGroup("p", ("b",))], tests, 5, seed=3)
    assert groups[0].probes == groups[1].probes
    assert len(set(groups[0].probes)) == 5
    assert groups[0].sources == ("hidden test",) * 5
    assert groups[0].probes != from_tests(groups, tests, 5, seed=4)[0].probes
    assert sorted(from_tests(groups, tests, 99, seed=0)[0].probes, key=int) == [str(number) for number in range(20)]


def test_probes_of_a_file(tmp_path):
    groups = [ProgramGroup("p", ("a",)), ProgramGroup("q", ("a",))]
    file = write_lines(tmp_path / "probes.jsonl", [{"id": "p", "inputs": ["1", "2"]}])
    assert from_file(groups, file) == [ProgramGroup("p", ("a",), ("1", "2"), ("file", "file")), groups[1]]
    for row in ({"id": "p"}, {"id": "p", "inputs": [1]}, {"id": "p", "inputs": "12"}, {"id": ["p"], "inputs": []}, 1):
        with pytest.raises(EvaluationError, match=r"probes\.jsonl:1: "):
            from_file(groups, write_lines(file, [row]))
    with pytest.raises(EvaluationError, match=r"probes\.jsonl:2: the id 'p' stands twice"):
        from_file(groups, write_lines(file, [{"id": "p", "inputs": []}] * 2))


@pytest.fixture
def small(tmp_path):
    """Words that name three problems, without a model."""
    problems = write_lines(tmp_path / "problems.jsonl", PROBLEMS)
    hidden = write_lines(tmp_path / "hidden.jsonl", HIDDEN)
    return [f"evaluate.problems={problems}", f"evaluate.hidden={hidden}", "sandbox.workers=2"]


@pytest.fixture(scope="module")
def evaluate():
    return load_command("evaluate")


def test_the_signal_of_a_run(evaluate, small, rollouts, tmp_path, capsys):
    report = tmp_path / "signal.html"
    assert evaluate.main(["signal", *small, "--rollouts", str(rollouts), "--report", str(report)]) == 0
    told = capsys.readouterr().out
    assert "2 problems, 3 groups, 4 programs, 6 probes" in told
    tree = json.loads(report.with_suffix(".json").read_text())
    # 1 doubles to 2 and squares to 1, 2 to 4 both: on the first probe two outputs tie at the top
    assert tree["signal"]["calibration"]["right"]["share"]["value"] == 0.5
    assert [(row["problem"], row["standing"]) for row in tree["signal"]["crowds"]] == [
        ("square", "silent"),
        ("double", "right"),
        ("double", "right"),
    ]
    for name in ("grader_version", "problem_hash", "hidden_hash", "problems", "sandbox_tier"):
        assert tree["provenance"][name], name
    page = report.read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 3


def test_the_signal_of_generations(evaluate, small, tmp_path, capsys):
    file = tmp_path / "generations.jsonl.zst"
    answers = {name: [Answer("", text, "stop", 5) for text in (DOUBLE, DOUBLE, SQUARE)] for name in ("double", "other")}
    save_generations(file, {"policy": "p", "temperature": 1.0}, answers)
    words = ["signal", *small, "--generations", str(file), "--probes-from", "hidden", "--probes", "1"]
    assert evaluate.main(words) == 0
    told = capsys.readouterr().out
    assert "1 problem(s) of" in told
    assert "left out: not in" in told
    # on 3 or 5 the doubling two agree, and the other is alone
    assert re.search(r"AUC, all programs +1.000 \[1.000, 1.000\]", told)
    given = write_lines(tmp_path / "samples.jsonl", [{"task_id": "double", "program": DOUBLE}] * 3)
    assert evaluate.main(["signal", *small, "--generations", str(given), "--probes-from", "hidden"]) == 0
    assert "1 problems, 1 groups, 3 programs, 2 probes" in capsys.readouterr().out
    probes = write_lines(tmp_path / "probes.jsonl", [{"id": "double", "inputs": ["2\n"]}])
    assert evaluate.main([*words[:-4], "--probes-from", str(probes)]) == 0
    assert re.search(r"AUC, all programs +0.500 ", capsys.readouterr().out)  # 2 + 2 = 2 * 2
    other = tmp_path / "other"
    other.mkdir()
    write_lines(other / "hidden.jsonl", [{"id": "double", "kind": "stdin", "cases": [{"input": "2\n", "output": ""}]}])
    assert evaluate.main([*words[:-4], "--probes-from", str(other)]) == 0
    assert re.search(r"AUC, all programs +0.500 ", capsys.readouterr().out)  # that set's inputs, our verdicts
    assert evaluate.main([*words, "--unlabelled", "--group-size", "2"]) == 0
    told = capsys.readouterr().out
    assert "AUC" not in told
    assert "1 problems, 2 groups, 3 programs" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "one of the arguments --rollouts --generations --solutions is required"),
        (["--rollouts", "absent"], "no rollouts file in absent"),
        (["--rollouts", __file__], "is no whole file of rollouts"),
        (["--generations", "absent", "--probes-from", "recorded"], "recorded needs --rollouts"),
        (["--generations", "absent", "--probes-from", "none"], "must be recorded, store, hidden, or a folder"),
        (["--generations", "absent", "--probes", "0"], "--probes 0: must be at least 1"),
        (["--solutions", "absent"], "there is no file of solutions absent"),
    ],
)
def test_mistakes_are_named(evaluate, small, words, message):
    with pytest.raises(UserError, match=message):
        evaluate.main(["signal", *small, *words])


@pytest.mark.parametrize(("make", "right"), [(codecontests, 27), (leetcode, 5)])
def test_human_programs_of_real_problems(evaluate, shared_data, tmp_path, make, right):
    """A few problems of each set, whose labels our verdicts must equal; docs/signal.md has the numbers of all."""
    folder = make(shared_data / "data", tmp_path)
    words = [f"evaluate.problems={folder / 'problems.jsonl'}", f"evaluate.hidden={folder / 'hidden.jsonl'}"]
    words += ["evaluate.limit=3", "sandbox.cpu_limit_s=1", "--solutions", str(folder / "solutions.jsonl")]
    report = tmp_path / "signal.html"
    assert evaluate.main(["signal", *words, "--probes-from", "hidden", "--probes", "3", "--report", str(report)]) == 0
    found = json.loads(report.with_suffix(".json").read_text())["signal"]["calibration"]
    solutions = load_solutions(
        folder / "solutions.jsonl", {row.id for row in load_problems(folder / "problems.jsonl")[:3]}
    )
    labels = [one.correct for row in solutions.values() for one in row]
    assert sum(labels) == right
    assert found["right"]["programs"] == len(labels)
    assert found["right"]["share"]["value"] == pytest.approx(right / len(labels))
    assert found["auc"]["value"] > 0.7
