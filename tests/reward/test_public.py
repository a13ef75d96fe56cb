"""The public-test reward: passed share, texts and values."""

import pytest

from erpo_jax.problems.problem import Example, Problem
from erpo_jax.reward import public_reward
from erpo_jax.sandbox import Outcome, encode_value

DOUBLE = Problem("p", "double", public_tests=(Example("1\n", "2\n"), Example("2\n", "4.0"), Example("3", "6")))
TESTS = (Example("[1]", "[1, 2.5]"), Example("[2]", '{"1": [true], "x": null}'))
FUNCTION = Problem("p", "f", mode="function", entry_point="f", public_tests=TESTS)


def ok(*outputs):
    return [Outcome("ok", output) for output in outputs]


def test_texts():
    assert public_reward(DOUBLE, ok("2", "4", "6 \n")) == 1.0
    assert public_reward(DOUBLE, [Outcome("ok", "2"), Outcome("error", "4"), Outcome("ok", "7")]) == 1 / 3
    assert public_reward(DOUBLE, [Outcome("no_program")] * 3) == 0.0


@pytest.mark.parametrize(
    ("values", "share"),
    [
        (((1, 2.5), {1: [True], "x": None}), 1.0),  # a tuple is a list, and JSON's keys are texts
        (([1, 2.5], {1: [1], "x": None}), 0.5),
        (([2.5, 1], {"1": [True]}), 0.0),
    ],
)
def test_values(values, share):
    assert public_reward(FUNCTION, ok(*map(encode_value, values))) == share


def test_no_tests_is_no_reward():
    assert public_reward(Problem("p", "s"), []) is None


def test_a_missing_outcome_is_an_error():
    with pytest.raises(ValueError, match="p has 3 public tests, but there are 1 outcomes"):
        public_reward(DOUBLE, ok("2"))
