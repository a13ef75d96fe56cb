"""Mutations keep the form, and find new structures."""

import gzip
import json
from random import Random

import pytest

from erpo_jax.probes import fingerprint
from erpo_jax.probes.form import form_of
from erpo_jax.probes.mutation import Mutator, Palette
from erpo_jax.problems import Example, Problem


def problem(*examples, mode="stdin", starter=None):
    return Problem("p", "s", mode, "f", starter, tuple(Example(text, "0") for text in examples))


def mutations(given, count=300, low=float("-inf"), high=float("inf")):
    form = form_of(given)
    texts = [form.read(test.input) for test in given.public_tests]
    mutator = Mutator(form, Palette.of(texts, low, high), Random(0))
    return [mutator.mutate(texts[index % len(texts)]) for index in range(count)]


def accepted(given, texts):
    form = form_of(given)
    return [text for text in texts if form.read(text) is not None]


def test_counts_are_set_anew():
    given = problem("3\n1 2 3\n", "4\n9 8 7 6\n")
    made = mutations(given)
    assert len(accepted(given, made)) == len(made)
    assert {len(text.split()) - 1 for text in made} >= {0, 1, 2, 3, 4, 5, 6, 8}


def test_test_cases_come_and_go():
    given = problem("2\n3\n1 2 3\n1\n9\n")
    made = mutations(given)
    assert len(accepted(given, made)) == len(made)
    assert {text.split("\n")[0] for text in made} >= {"1", "2", "3", "4"}


def test_fields_stay_fields():
    given = problem("bob 3 1.5\n")
    made = mutations(given)
    assert len(accepted(given, made)) == len(made)
    assert len(set(made)) > 50


def test_grids_keep_their_width():
    rows = "3 4\n#..#\n....\n##..\n"
    for text in mutations(problem(rows)):
        lines = text.split("\n")[1:-1]
        assert {len(line) for line in lines} == {4}
        assert set("".join(lines)) <= {"#", "."}
    matrix = problem("[[[1, 2], [3, 4]], 5]", mode="function")
    for text in mutations(matrix):
        grid, _ = json.loads(text)
        assert len({len(row) for row in grid}) <= 1
    board = problem('[["ab", "ba", "aa"]]', mode="function")
    assert all(len({len(row) for row in json.loads(text)[0]}) <= 1 for text in mutations(board))


def test_values_stay_in_range():
    for text in mutations(problem("5 -3 7 1 2\n"), low=-9, high=9):
        assert all(-9 <= int(token) <= 9 for token in text.split())
    for text in mutations(problem("[[5, 3], 7]", mode="function"), low=1, high=9):
        values, number = json.loads(text)
        assert all(1 <= value <= 9 for value in [*values, number])


def test_numbers_are_not_negative_unless_some_are():
    assert all(int(token) >= 0 for text in mutations(problem("5 3 7 1 2\n")) for token in text.split())
    assert any(int(token) < 0 for text in mutations(problem("5 -3 7 1 2\n")) for token in text.split())


def test_lines_of_unknown_order_keep_what_may_be_a_count():
    text = "2\n1 1\n2 900\nxy\n3 1\nyx ab 17\n7\n8\n"
    for made in mutations(problem(text)):
        assert [len(line.split()) for line in made.split("\n")] == [len(line.split()) for line in text.split("\n")]
        assert made.split("\n")[0] == "2"


@pytest.mark.parametrize(
    ("starter", "example"),
    [
        ("def f(a: int, b: str, c: bool):", '[3, "abc", true]'),
        ("def f(a: dict[str, list[int]]):", '[{"x": [1, 2], "y": []}]'),
        ("def f(a: float, b: list[float]):", "[0.5, [1.0, 2.5]]"),
        ("def f(a: list[list[str]]):", '[[["a"], ["b", "c"]]]'),
        ("def f(a):", "[null]"),
        ("def f():", "[]"),
    ],
)
def test_types_are_kept(starter, example):
    given = problem(example, mode="function", starter=starter)
    made = mutations(given)
    assert len(accepted(given, made)) == len(made)


def test_mutation_is_reproducible():
    given = problem("3\n1 2 3\n")
    assert mutations(given, 50) == mutations(given, 50)


def test_real_examples_give_new_structures(shared_data):
    """From the examples alone, nearly every real problem gets ten different structures."""
    with gzip.open(shared_data / "data" / "codecontests_stdin.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    filled = 0
    for row in rows:
        given = Problem("p", row["statement"], public_tests=tuple(Example(**test) for test in row["public_tests"]))
        texts = accepted(given, mutations(given, 200))
        filled += len({fingerprint(text, "stdin") for text in texts}) > 10
    assert filled >= len(rows) - 4
