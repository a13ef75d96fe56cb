"""Files of programs that come with a data set."""

import pytest

from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.solutions import Solution, load_solutions


def test_lines_read_back_by_problem_in_file_order(tmp_path):
    file = tmp_path / "solutions.jsonl"
    right, wrong, unknown = Solution("print(1)", True, "human"), Solution("é", False), Solution("x")
    file.write_text("\n".join([right.line("a"), wrong.line("b"), "", unknown.line("a")]) + "\n")
    assert load_solutions(file) == {"a": (right, unknown), "b": (wrong,)}
    assert load_solutions(file, {"b", "other"}) == {"b": (wrong,)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "must be an object with id, program"),
        ('{"id": "a"}', "must be an object with id, program"),
        ('{"id": "a", "program": "x", "label": 1}', "must be an object with id, program"),
        ('{"id": "a", "program": 1}', "must be texts"),
        ('{"id": "a", "program": "x", "correct": "yes"}', "'correct' is 'yes'; allowed are true, false, null"),
    ],
)
def test_mistakes_name_file_and_line(tmp_path, line, message):
    file = tmp_path / "solutions.jsonl"
    file.write_text(f"{Solution('x').line('a')}\n{line}\n")
    with pytest.raises(EvaluationError, match=rf"solutions\.jsonl:2: .*{message}"):
        load_solutions(file)


def test_no_file(tmp_path):
    with pytest.raises(EvaluationError, match="there is no file of solutions"):
        load_solutions(tmp_path / "absent.jsonl")
