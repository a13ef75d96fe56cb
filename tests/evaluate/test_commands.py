"""launch/evaluate.py and launch/prepare.py from their words to their files, with a real policy, engine and sandbox."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from erpo_jax import command
from erpo_jax.errors import UserError
from erpo_jax.evaluate import load_evaluation, load_generations
from tests.evaluate.conftest import load_command, write_lines

LAUNCH = Path(__file__).parents[2] / "launch"


@pytest.fixture(scope="module")
def evaluate():
    return load_command("evaluate")


@pytest.fixture(scope="module")
def before(evaluate, tiny, tmp_path_factory):
    """The base's curve, as launch/train.py measures it."""
    file = tmp_path_factory.mktemp("before") / "before.json"
    assert evaluate.main([*tiny, "--curve", "--out", str(file)]) == 0
    return file


def test_the_curve_of_the_base(before):
    found = load_evaluation(before)
    assert [point.temperature for point in found.points] == [0.5, 1.0]
    # its prefilled answer doubles: right for "double", wrong for "square" but on one input, and "never" prints
    assert [point.counts for point in found.points] == [{"double": (4, 4), "square": (4, 0), "never": (4, 0)}] * 2
    assert found.estimates(found.points[0])[4].value == pytest.approx(1 / 3)
    assert found.adapted == ("double", "square", "never")
    assert len(found.provenance["weights_hash"]) == 64
    assert found.provenance["sandbox_tier"]


def test_after_against_before_prints_and_reports(evaluate, tiny, before, tmp_path, capsys):
    out, report = tmp_path / "after.json", tmp_path / "report.html"
    words = [*tiny, "--policy", tiny[0].removeprefix("model.path="), "--out", str(out), "--against", str(before)]
    assert evaluate.main([*words, "--report", str(report), "--generations", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "adapted, T=1" in told
    assert "cannot be told apart from the base's temperature curve" in told
    assert "0.333" in told
    assert report.read_text().startswith("<!doctype html>")
    header, answers = load_generations(tmp_path / "generations-T1.jsonl.zst")
    assert header["samples"] == 4
    assert [len(row) for row in answers.values()] == [4, 4, 4]

    again = tmp_path / "again.json"
    assert evaluate.main([*tiny, "--regrade", str(tmp_path / "generations-T1.jsonl.zst"), "--out", str(again)]) == 0
    assert load_evaluation(again).points[0].counts == load_evaluation(out).points[0].counts
    assert evaluate.main(["--compare", str(before), str(again)]) == 0
    assert "adapted, T=1" in capsys.readouterr().out


def test_greedy_on_every_second_problem_shows_only_pass_at_1(evaluate, tiny, tmp_path, capsys):
    out = tmp_path / "greedy.json"
    assert evaluate.main([*tiny, "--greedy", "--every", "2", "--out", str(out)]) == 0
    found = load_evaluation(out)
    assert found.points[0].counts == {"double": (1, 1), "never": (1, 0)}
    told = capsys.readouterr().out
    assert "pass@1" in told
    assert "pass@4" not in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--greedy", "--curve"], "exclude one another"),
        (["--every", "0"], "--every 0"),
        (["evaluate.hidden=absent.jsonl"], "there is no hidden-tests file absent"),
        (["--against", "absent.json"], "there is no evaluation file absent"),
        (["--out", "a.json", "--report", "a.html"], "--report a.html would write over a.json"),
        (["--compare", "b.json", "a.json", "--report", "a.html"], "--report a.html would write over a.json"),
        (["--temperatures", "-1"], "temperature -1: must be at least 0"),
        (["--out", "/"], "--out / cannot be written: Is a directory"),
        (["--report", "/dev/null/report.html"], "cannot be written: "),
        (["--generations", "/dev/null/folder"], "cannot be written: "),
    ],
)
def test_mistakes_are_named_before_a_model_loads(evaluate, tiny, words, message, monkeypatch):
    monkeypatch.setattr("erpo_jax.evaluate.session.load", None)
    with pytest.raises(UserError, match=message):
        evaluate.main([*tiny, *words])


def test_a_command_that_is_none(evaluate):
    with pytest.raises(UserError, match=r"there is no command 'signals'; did you mean signal\?"):
        evaluate.main(["signals"])


def test_problems_without_programs_are_counted(evaluate, tiny, tmp_path, capsys):
    samples = write_lines(tmp_path / "samples.jsonl", [{"id": "double", "program": "print(2 * int(input()))"}])
    report = tmp_path / "report.html"
    words = [*tiny, "evaluate.samples=1", "evaluate.k=[1]", "--regrade", str(samples), "--report", str(report)]
    assert evaluate.main(words) == 0
    told = capsys.readouterr().out
    assert "2 of 3 problems left out" in report.read_text()
    assert "all problems: 1, 1 program(s) each" in told
    assert "2 of 3 problems left out: fewer than 1 graded program(s)." in told


def test_a_full_disk_is_one_line_and_the_numbers_are_shown(evaluate, tiny, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "out.json")

    samples = write_lines(tmp_path / "samples.jsonl", [{"id": "double", "program": "print(2 * int(input()))"}])
    words = [*tiny, "evaluate.k=[1]", "--regrade", str(samples), "--out", str(tmp_path / "out.json")]
    monkeypatch.setattr("erpo_jax.evaluate.save_evaluation", full)
    monkeypatch.setattr(sys, "argv", ["evaluate.py", *words])
    with pytest.raises(SystemExit, match="1"):
        command.run(evaluate.main)
    told = capsys.readouterr()
    assert "1.000" in told.out
    assert told.err.endswith("failed: [Errno 28] No space left on device: 'out.json'\n")


def test_a_mistake_ends_with_code_2_and_one_line():
    ended = subprocess.run(
        [sys.executable, str(LAUNCH / "evaluate.py"), "--compare", "no.json", "no.json"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr == "error: there is no evaluation file no.json\n"


def test_prepare(tmp_path, capsys):
    prepare = load_command("prepare")
    source = tmp_path / "HumanEval.jsonl"
    row = {
        "task_id": "HumanEval/0",
        "prompt": 'def f(x):\n    """>>> f(1)\n    2\n    """\n',
        "entry_point": "f",
        "canonical_solution": "    return x + 1\n",
        "test": "def check(candidate):\n    assert candidate(2) == 3\n",
    }
    source.write_text(json.dumps(row) + "\n" + json.dumps({**row, "entry_point": "g"}) + "\n")
    assert prepare.main(["humaneval", str(source), str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert told.startswith("1 problems and their hidden tests")
    assert "HumanEval.jsonl:2: the prompt does not define 'g'" in told
    problem = json.loads((tmp_path / "out" / "problems.jsonl").read_text())
    assert problem["public_tests"] == [{"input": "[1]", "output": "2"}]
    with pytest.raises(UserError, match=r"OUT .*HumanEval.jsonl/problems.jsonl cannot be written: File exists"):
        prepare.main(["humaneval", str(source), str(source)])
    with pytest.raises(UserError, match="--start soon: must be a day such as 2024-08-01"):
        prepare.main(["humaneval", str(source), str(tmp_path / "out"), "--start", "soon"])
