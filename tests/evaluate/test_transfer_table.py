"""The transfer matrix against hand-computed numbers: cells, parts of a set, means over sets, and the printed grid."""

import re

import numpy as np
import pytest

from erpo_jax.evaluate import Evaluation, Point
from erpo_jax.evaluate.estimates import mean_over_problems, mean_over_sets
from erpo_jax.evaluate.transfer_table import lines, table


def evaluation(counts, *, adapted=(), temperatures=(1.0,)):
    """A policy with the right ones of 2 programs by problem, the same at each temperature."""
    points = [Point(t, {name: (2, right) for name, right in counts.items()}, 0, 0, 0, 0, 0, 0, 0) for t in temperatures]
    return Evaluation("p", (1, 2), 2, tuple(points), adapted)


A = {"a1": 0, "a2": 2}
B = {"b1": 0}
C = {"c1": 0, "c2": 0, "c3": 0}
BASE = {name: evaluation(counts, temperatures=(0.5, 1.0)) for name, counts in (("A", A), ("B", B), ("C", C))}
ADAPTED = {
    "one": {
        "A": evaluation({"a1": 1, "a2": 2}, adapted=("a1", "a2")),
        "B": evaluation({"b1": 2}),
        "C": evaluation({"c1": 0, "c2": 1, "c3": 2}),
    },
    "other": {"A": evaluation(A), "B": evaluation(B), "C": evaluation(C)},
}


@pytest.fixture(scope="module")
def found():
    return table(BASE, ADAPTED, 1.0, unknown=["other"])


def test_a_cell_and_its_difference_from_the_base(found):
    column = found.columns[0]
    assert {k: one.value for k, one in column.base[0.5].items()} == {1: 0.5, 2: 0.5}
    one, other = column.cells
    # pass@1: (1/2 + 1) / 2; pass@2: both problems have a right one
    assert {k: value.value for k, value in one.values.items()} == {1: 0.75, 2: 1.0}
    assert {k: gain.value for k, gain in one.gains.items()} == {1: 0.25, 2: 0.5}
    assert (one.adapted_on, one.mark) == (2, "=*")  # a2 gains nothing: the interval reaches 0
    assert (other.adapted_on, other.mark) == (None, "=?")
    assert {k: gain.value for k, gain in other.gains.items()} == {1: 0.0, 2: 0.0}


def test_a_policy_that_is_better_on_every_problem_lies_above(found):
    one = found.columns[1].whole("one")
    assert (one.adapted_on, one.mark, one.comparison.standing) == (0, "^", "above")


def test_the_mean_is_over_the_sets_not_adapted_on_and_each_counts_alike(found):
    (mean,) = found.means  # what `other` was adapted on is not known
    assert (mean.policy, mean.sets) == ("one", ("B", "C"))
    assert mean.values[1].value == pytest.approx((1 + (0 + 0.5 + 1) / 3) / 2)  # not 2.5 / 4
    assert mean.gains[2].value == pytest.approx((1 + 2 / 3) / 2)
    # B is one problem and never varies: half the interval of C alone, around half of 1
    alone = mean_over_problems(np.array([0.0, 0.5, 1.0]))
    assert mean.values[1].low == pytest.approx(0.5 + alone.low / 2, abs=1e-3)


def test_sets_of_the_same_size_are_drawn_independently():
    values = np.arange(50.0)
    both, one = mean_over_sets([values, values[::-1]]), mean_over_problems(values)
    width = (both.high - both.low) / (one.high - one.low)
    assert width == pytest.approx(1 / np.sqrt(2), abs=0.06)


def test_a_set_adapted_on_in_part_is_told_in_parts():
    counts = {"a1": 2, "a2": 1}
    found = table({"A": BASE["A"]}, {"some": {"A": evaluation(counts, adapted=("a1",))}}, 1.0)
    whole, adapted, rest = found.columns[0].cells
    assert [cell.who for cell in (whole, adapted, rest)] == [
        "some", "some, the part adapted on (1)", "some, the rest (1)",
    ]  # fmt: skip
    assert [cell.adapted_on for cell in (whole, adapted, rest)] == [1, 1, 0]
    assert [cell.gains[1].value for cell in (whole, adapted, rest)] == [0.25, 1.0, -0.5]
    assert [cell.mark for cell in (whole, adapted, rest)] == ["=*", "^*", "v"]
    assert found.means == ()


def test_the_grid(found):
    told = lines(found)
    cells = [[cell for cell in re.split(r"  +", line) if cell] for line in told[1:6]]
    assert cells == [
        ["A (2)", "B (1)", "C (3)", "mean over sets not adapted on"],
        ["base, T=1", "0.500 / 0.500", "0.000 / 0.000", "0.000 / 0.000"],
        ["base, best pass@1", "0.500 / 0.500 T=0.5", "0.000 / 0.000 T=0.5", "0.000 / 0.000 T=0.5"],
        ["one", "0.750 / 1.000 =*", "1.000 / 1.000 ^", "0.500 / 0.667 =", "0.750 / 0.833 (2)"],
        ["other", "0.500 / 0.500 =?", "0.000 / 0.000 =?", "0.000 / 0.000 =?"],
    ]


def test_one_sample_a_problem_shows_pass_at_1_alone():
    def single(right):
        point = Point(1.0, {"a1": (1, right)}, 0, 0, 0, 0, 0, 0, 0)
        return Evaluation("p", (1, 16), 1, (point,))

    found = table({"A": single(0)}, {"one": {"A": single(1)}}, 1.0)
    assert found.ks == (1,)
    assert not any("pass@16" in line for line in lines(found))
