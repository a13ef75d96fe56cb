"""What launch/rollouts.py shows of a step."""

import io

import pytest
from rich.console import Console

from erpo_jax.errors import UserError
from erpo_jax.run_folder import RunFolder
from erpo_jax.showing import recorded_step, show_problem, show_step


def record(problem, candidate, program, outputs, reward, advantage, weight, verdicts=("ok", "ok")):
    return {
        "problem": problem,
        "candidate": candidate,
        "program": program,
        "text": "no code [here]",
        "inputs": ["1\n", "2\n3\n"],
        "verdicts": list(verdicts),
        "outputs": list(outputs),
        "reward": reward,
        "present": True,
        "advantage": advantage,
        "weight": weight,
    }


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(tmp_path)
    run.rollouts.mkdir()
    for step in (0, 7):
        rows = [
            record("a", 0, "print(1)", ("1\n", "1\n"), 1.0, 0.5, 1.0),
            record("a", 1, "print(1)", ("1\n", "1\n"), 1.0, 0.5, 0.0),
            record("a", 2, "print(9)", ("9\n", ""), 0.0, -1.0, 1.0, ("ok", "timeout")),
            record("b", 0, None, ("", ""), 0.0, 0.0, 1.0, ("no_program", "no_program")),
        ]
        run.record(step, [{"step": step} | row for row in rows])
    return tmp_path


def printed(show, *arguments):
    console = Console(width=100, file=io.StringIO())
    show(*arguments, console)
    return console.file.getvalue()


def test_a_line_for_each_problem_of_the_newest_step(folder):
    rows = [line.split("│")[1:-1] for line in printed(show_step, recorded_step(folder)).splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["a", "3", "0.667", "0.00", "2", "2", "1"],
        ["b", "1", "0.000", "0.00", "1", "0", "0"],
    ]
    assert recorded_step(folder)[0]["step"] == 7
    assert recorded_step(folder, 0)[0]["step"] == 0


def test_programs_once_and_outputs_counted(folder):
    text = printed(show_problem, recorded_step(folder), "a")
    assert text.index("candidate 2: reward 0.00, advantage -1.00, weight 1; 1 ok, 1 timeout") < text.index("print(9)")
    assert text.index("print(9)") < text.index("candidates 0, 1: reward 1.00, advantage +0.50, weight 1 0; 2 ok")
    assert text.count("print(1)") == 1
    assert "2  1 " in text
    assert "1  (timeout)" in text
    assert "2\\n3" in text
    assert "no code [here]" in printed(show_problem, recorded_step(folder), "b")


def test_what_is_not_there_is_said(folder, tmp_path):
    with pytest.raises(UserError, match=r"--step 3: .* has the steps 0 to 7"):
        recorded_step(folder, 3)
    with pytest.raises(UserError, match=r"--problem bb .* nearest name in it is b"):
        show_problem(recorded_step(folder), "bb", Console(quiet=True))
    (folder / "rollouts" / "step-old.jsonl.zst").touch()
    RunFolder(folder).record(8, [{"step": 8}])
    with pytest.raises(UserError, match="record 1 lacks advantage, candidate"):
        recorded_step(folder)
    with pytest.raises(UserError, match="holds no rollouts"):
        recorded_step(tmp_path / "none")
