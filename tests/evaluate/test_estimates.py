"""pass@k against hand-computed numbers, and its interval."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from erpo_jax.errors import UserError
from erpo_jax.evaluate.estimates import (
    Estimate,
    EvaluationError,
    mean_over_problems,
    mean_pass_at_k,
    pass_at_k,
    reportable,
)


def test_one_of_four():
    assert pass_at_k(4, 1, 4) == 1.0
    assert pass_at_k(4, 1, 1) == 0.25


def test_equals_the_share_of_all_draws_that_hold_a_right_program():
    for n, c, k in [(6, 2, 3), (7, 0, 2), (7, 7, 5), (8, 3, 6), (5, 1, 2)]:
        draws = list(combinations([True] * c + [False] * (n - c), k))
        assert pass_at_k(n, c, k) == float(Fraction(sum(map(any, draws)), len(draws)))


def test_exact_where_products_of_floats_drift():
    # 1 - C(9999, 100) / C(10000, 100) = 100 / 10000
    assert pass_at_k(10_000, 1, 100) == 0.01
    assert pass_at_k(2000, 1, 1) == 1 / 2000


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 5), (4, 1, 0), (0, 0, 1)])
def test_k_outside_the_samples_is_refused(n, c, k):
    with pytest.raises(EvaluationError, match=rf"pass@{k} needs 1 <= k <= n .* n = {n}"):
        pass_at_k(n, c, k)


@pytest.mark.parametrize("c", [-1, 5])
def test_impossible_counts_are_refused(c):
    with pytest.raises(UserError, match="between 0 and 4"):
        pass_at_k(4, c, 1)


def test_one_sample_reports_only_pass_at_1():
    assert reportable([1, 16], 1) == [1]
    assert reportable([8, 1, 8], 16) == [1, 8]
    with pytest.raises(EvaluationError, match="n = 8"):
        reportable([16], 8)


def test_mean_over_problems_with_interval():
    estimate = mean_pass_at_k([(4, 1), (4, 4), (4, 0), (4, 2)], 1)
    assert estimate.value == pytest.approx(0.4375)
    assert estimate.problems == 4
    assert 0.0 <= estimate.low < 0.4375 < estimate.high <= 1.0
    assert mean_pass_at_k([(4, 1), (4, 4), (4, 0), (4, 2)], 1) == estimate


def test_interval_width_is_that_of_the_mean():
    values = np.repeat([0.0, 1.0], 200)
    estimate = mean_over_problems(values)
    # standard error 0.5 / sqrt(400) = 0.025; 95 % is 1.96 of them to each side
    assert estimate.low == pytest.approx(0.5 - 0.049, abs=0.004)
    assert estimate.high == pytest.approx(0.5 + 0.049, abs=0.004)


def test_interval_covers_the_truth_about_19_times_in_20():
    random = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        estimate = mean_over_problems(random.beta(1, 2, size=60))
        hits += estimate.low <= 1 / 3 <= estimate.high
    assert 180 <= hits <= 199


def test_no_problem_is_refused():
    with pytest.raises(EvaluationError, match="no problems"):
        mean_pass_at_k([], 1)


def test_sign_of_an_interval():
    assert Estimate(0.1, 0.01, 0.2, 9).positive
    assert not Estimate(0.1, 0.0, 0.2, 9).positive
    assert Estimate(-0.1, -0.2, -0.01, 9).negative


def test_rounding_is_no_sign():
    rounded = mean_over_problems(np.full(30, 0.1 + 0.2 - 0.3))  # 5.6e-17
    assert rounded.low > 0
    assert not rounded.positive
    assert not mean_over_problems(np.full(30, 0.3 - 0.2 - 0.1)).negative
