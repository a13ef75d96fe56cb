"""Above, on or below the base's temperature curve: made counts whose answer is known."""

import dataclasses

import pytest

from erpo_jax.evaluate.curve import compare
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.measurement import Evaluation, Point
from erpo_jax.evaluate.table import in_words, lines

N = 16


def point(temperature, right, n=N):
    counts = {f"p{index:02d}": (n, c) for index, c in enumerate(right)}
    return Point(temperature, counts, 0.0, 0.0, 40.0, 10, 0, 1.0, 1.0)


def evaluation(*points, ks=(1, 16), samples=N, adapted=(), **provenance):
    return Evaluation("policy", ks, samples, points, adapted, {"hidden_hash": "h", **provenance})


# 40 problems. Cold: half of them always right, else never (pass@1 .5, pass@16 .5). Hot: all of them 4 of 16 (.25, 1).
COLD = [16] * 20 + [0] * 20
HOT = [4] * 40
BASE = evaluation(point(0.3, COLD), point(1.0, HOT))


def test_better_at_everything_is_above():
    found = compare(BASE, evaluation(point(1.0, [12] * 40)))
    assert (found.standing, found.problems, found.low, found.high) == ("above", 40, 1, 16)
    low, high = found.against[1].low_k, found.against[1].high_k  # against temperature 1: 12/16 - 4/16, 1 - 1
    assert (low.value, low.low, low.high) == pytest.approx((0.5, 0.5, 0.5))
    assert high.value == 0.0
    # against temperature 0.3: half the problems 12/16 - 1, half 12/16 - 0
    assert found.against[0].low_k.value == pytest.approx(0.25)
    assert found.against[0].high_k.value == pytest.approx(0.5)


@pytest.mark.parametrize("right", [COLD, HOT])
def test_the_base_itself_is_on_its_curve(right):
    assert compare(BASE, evaluation(point(1.0, right))).standing == "on"


def test_a_point_between_two_temperatures_is_on_the_curve_though_neither_temperature_beats_it():
    # a base that takes the cold temperature for every other problem: (.375, .75), exactly on the line between the two
    half = [cold if index % 2 else hot for index, (cold, hot) in enumerate(zip(COLD, HOT, strict=True))]
    found = compare(BASE, evaluation(point(0.6, half)))
    assert all(one.low_k.positive or one.high_k.positive for one in found.against)
    assert found.standing == "on"
    assert found.closest.weight == pytest.approx(0.5)
    assert "50% temperature 0.3, 50% temperature 1" in in_words(found)[0]


def test_higher_pass_at_1_alone_at_the_cost_of_pass_at_k_is_above_but_said():
    found = compare(BASE, evaluation(point(1.0, [16] * 28 + [0] * 12)))
    assert found.standing == "above"
    assert "pass@16 is lower than the base's at temperature 1" in " ".join(in_words(found))


def test_worse_at_one_and_no_better_at_the_other_is_below():
    assert compare(BASE, evaluation(point(1.0, [1] * 40))).standing == "below"


def test_few_problems_tell_nothing_apart():
    base = evaluation(point(1.0, [4, 8, 0, 16]))
    assert compare(base, evaluation(point(1.0, [5, 9, 0, 15]))).standing == "on"


def test_gained_lost_and_beyond():
    base = evaluation(point(0.3, [16, 16, 0, 0]), point(1.0, [1, 0, 1, 0]))
    found = compare(base, evaluation(point(1.0, [0, 1, 1, 1])))
    assert found.best == 0.3
    assert found.gained == ("p02", "p03")
    assert found.lost == ("p00",)
    assert found.beyond == ("p03",)


def test_one_sample_a_problem_compares_pass_at_1_alone():
    base = evaluation(point(0.0, [1, 0] * 20, n=1), samples=1)
    found = compare(base, evaluation(point(0.0, [1] * 40, n=1), samples=1))
    assert (found.low, found.high, found.standing) == (1, 1, "above")
    assert "pass@16" not in "\n".join(lines(base, base))


def test_problems_without_enough_verdicts_are_left_out_and_named():
    fewer = point(1.0, HOT)
    fewer = dataclasses.replace(fewer, counts=fewer.counts | {"p07": (15, 4)})
    found = compare(BASE, evaluation(fewer))
    assert (found.problems, found.left_out) == (39, ("p07",))
    assert "p07" in in_words(found)[-1]


@pytest.mark.parametrize(
    ("name", "what"),
    [("hidden_hash", "hidden tests"), ("problem_hash", "problems"), ("grader_version", "grader version")],
)
def test_unlike_measurements_are_refused(name, what):
    other = dataclasses.replace(BASE, provenance={"hidden_hash": "h", name: "other"})
    with pytest.raises(EvaluationError, match=f"differ in their {what}"):
        compare(BASE, other, BASE.points[0])


def test_several_adapted_points_need_a_choice():
    with pytest.raises(EvaluationError, match="measured at 2 temperatures"):
        compare(BASE, BASE)


def test_the_table_shows_each_group_apart():
    adapted_ids = tuple(f"p{index:02d}" for index in range(20))
    base = dataclasses.replace(BASE, adapted=adapted_ids)
    after = evaluation(point(1.0, [12] * 20 + [4] * 20), adapted=adapted_ids)
    told = lines(base, after)
    assert [line for line in told if line.endswith("intervals over problems")] == [
        "all problems: 40, 16 program(s) each; 95 % intervals over problems",
        "problems adapted on: 20, 16 program(s) each; 95 % intervals over problems",
        "held-out problems: 20, 16 program(s) each; 95 % intervals over problems",
    ]
    assert compare(base, after, group="adapted").against[1].low_k.value == pytest.approx(0.5)
    assert compare(base, after, group="held out").against[1].low_k.value == 0.0


def test_the_table_of_the_base_alone():
    assert lines(evaluation(point(1.0, HOT))) == [
        "all problems: 40, 16 program(s) each; 95 % intervals over problems",
        "           pass@1                 pass@16",
        "base, T=1  0.250 [0.250, 0.250]   1.000 [1.000, 1.000]",
    ]
