"""The signal report's numbers, each against a hand-computed one."""

from dataclasses import replace

import numpy as np
import pytest

from erpo_jax.config import Config, LossConfig, MaskConfig, RewardConfig
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.signal import (
    calibration,
    course,
    crowds,
    judged,
    mask_rows,
    measure_signal,
    probe_rows,
    probe_summaries,
    standings,
    unlabelled,
)
from erpo_jax.evaluate.signal.calibration import area

REWARD = RewardConfig()


def group(problem, keys, right, sources=None):
    """Programs by their outputs, one letter a probe ("." for none), and whether each is right ("1", "0", "?")."""
    rows = [None if text is None else tuple(None if letter == "." else letter for letter in text) for text in keys]
    truth = [{"1": True, "0": False, "?": None}[letter] for letter in right]
    width = max(len(row) for row in rows if row is not None)
    return judged(problem, rows, truth, sources or ["policy"] * width, REWARD)


# PCR: aa 1, aa 1, ab .5, bc 0; the third is right, the second wrong.
MIXED = group("mixed", ["aa", "aa", "ab", "bc"], "1010")


def test_area_counts_ties_half():
    # at values 0, .5, 1: right 0 1 1, wrong 1 1 0; pairs .5>0, .5=.5, 1>0, 1>.5
    assert area(np.array([0.0, 1, 1]), np.array([1.0, 1, 0])) == pytest.approx(3.5 / 4)
    assert np.isnan(area(np.array([0.0]), np.array([1.0])))


def test_pcr_is_that_of_training():
    assert MIXED.consensus.pcr_g == (1.0, 1.0, 0.5, 0.0)


def test_auc_over_all_and_within_groups():
    # right: 1, .5; wrong: 1, 0. Pairs: 1=1 half, 1>0, .5<1, .5>0 -> 2.5 of 4
    found = calibration([MIXED], REWARD)
    assert found.auc.value == pytest.approx(0.625)
    # a second group with all right at PCR 1 enters the first AUC alone
    easy = group("easy", ["aa", "aa"], "11")
    both = calibration([MIXED, easy], REWARD)
    assert both.auc.value == pytest.approx((2.5 + 2 * 1.5) / 8)
    assert both.auc_within.value == pytest.approx(0.625)
    assert both.auc.low <= both.auc.value <= both.auc.high


def test_shares_and_reliability():
    found = calibration([MIXED], REWARD)
    assert (found.right.programs, found.right.share.value) == (4, 0.5)
    assert (found.wrong_at_one.programs, found.wrong_at_one.share.value) == (2, 0.5)
    assert (found.right_at_half.programs, found.right_at_half.share.value) == (2, 0.5)
    assert [share.programs for share in found.reliability] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2]
    assert found.reliability[5].share.value == 1.0
    assert found.reliability[1].share is None


def test_the_mask_made_of_it_never_rises():
    # wrong at 0: 1 of 1, at .5: 0 of 1, at 1: 1 of 2; the last two pool to 1 of 3, gaps take what is before them
    assert calibration([MIXED], REWARD).wrong_by_step == pytest.approx([1.0] * 5 + [1 / 3] * 6)


def test_auc_by_the_number_of_probes():
    # first probe alone: a a a b -> PCR 1 1 1 0; right 1 1, wrong 1 0: two ties, two above
    areas = calibration([MIXED], REWARD).auc_by_probes
    assert [one.value for one in areas] == pytest.approx([0.75, 0.625])


def test_programs_without_a_verdict_count_for_the_consensus_alone():
    found = group("p", ["a", "a", "b", None], "10?0")
    assert found.consensus.pcr_g == (1.0, 1.0, 0.0, None)
    assert found.labelled == ((1.0, True), (1.0, False))
    signal = measure_signal([found], Config())
    assert (signal.programs, signal.ungraded) == (3, 1)


def test_crowds():
    groups = [
        group("fooled", ["a", "a", "b"], "001"),
        group("lost", ["a", "a", "b"], "000"),
        group("fine", ["a", "a", "b"], "100"),  # half of the crowd is right
        group("mute", [".", "."], "00"),
    ]
    rows = {row.problem: row for row in crowds(groups)}
    assert {name: row.standing for name, row in rows.items()} == {
        "fooled": "outvoted",
        "lost": "hopeless",
        "fine": "right",
        "mute": "silent",
    }
    assert (rows["fooled"].crowd, rows["fooled"].crowd_right, rows["fooled"].right) == (2, 0, 1)
    assert next(iter(rows)) == "fooled"  # the worst first
    assert {name: share.value for name, share in standings(list(rows.values())).items()} == {
        "right": 0.25,
        "outvoted": 0.25,
        "hopeless": 0.25,
        "silent": 0.25,
    }


def test_what_single_probes_tell():
    # probe 0: all alike; probe 1: the crowd holds 1 of 1 right and 1 of 2 wrong; probe 2: only the wrong ones agree
    found = group("p", ["aax", "aay", "aby"], "100", ["policy", "policy", "mutated probe"])
    first, second, third = probe_rows([found])
    assert (first.discrimination, first.separates, first.gain) == (0.0, 0.0, 0.0)
    assert second.discrimination == pytest.approx(2 / 3)
    assert (second.separates, second.gain) == (0.5, 0.5)
    assert (third.separates, third.gain) == (1.0, -1.0)
    mutated, policy = probe_summaries([first, second, third])
    assert (policy.probes, policy.blind, policy.gain, policy.misleading) == (2, 0.5, 0.25, 0.0)
    assert (mutated.source, mutated.misleading) == ("mutated probe", 1.0)


def test_masks():
    # PCR 1 1 .5 0, truth 1 0 1 0. Rank keeps the .5 (right) and the 0 (wrong) with A < 0.
    deviation = np.array([0.375, 0.375, -0.125, -0.625])
    rank, below, soft, everyone = mask_rows([MIXED], MaskConfig(), LossConfig())
    assert (rank.mask, rank.kept.value, rank.kept_wrong.value, rank.dropped_right.value) == (
        "rank, 50 %",
        0.5,
        0.5,
        0.5,
    )
    assert rank.down_on_right.value == pytest.approx(0.125 / 0.75, rel=1e-5)
    assert rank.up_on_wrong is None
    assert (below.mask, below.kept.value, below.kept_wrong.value) == ("below 0.5", 0.25, 1.0)
    # soft: weights by rank 0, 1, 2, 3 of (0, .5, 1, 1): 1, 2/3, 1/3, 0; the first at 1 is the right one
    assert soft.down_on_right.value == pytest.approx((2 / 3 * 0.125) / (2 / 3 * 0.125 + 0.625), rel=1e-5)
    assert soft.up_on_wrong.value == 0.0
    assert everyone.up_on_wrong.value == pytest.approx(0.5)
    assert everyone.down_on_right.value == pytest.approx(-deviation[2] / -deviation[2:].sum(), rel=1e-5)
    assert everyone.dropped_right is None


def test_the_course_of_a_run():
    assert course([MIXED], MaskConfig(), LossConfig()) == []
    # a later step: right are aa and bc, wrong aa and ab; pairs 1=1 half, 1>.5, 0<1, 0<.5 -> 1.5 of 4
    later = group("mixed", ["aa", "aa", "ab", "bc"], "1001")
    groups = [replace(MIXED, step=3), replace(later, step=9)]
    early, late = course(groups, MaskConfig(), LossConfig())
    assert (early.first, early.last, late.first) == (3, 3, 9)
    assert (early.auc.value, late.auc.value) == (0.625, 0.375)
    # kept are ab and bc: at first bc is wrong, later ab
    assert (early.kept_wrong.value, late.kept_wrong.value) == (0.5, 0.5)
    assert early.right_at_half.programs == 2
    many = [replace(MIXED, step=step) for step in range(12)]
    parts = [(part.first, part.last) for part in course(many, MaskConfig(), LossConfig())]
    assert parts == [(0, 2), (3, 5), (6, 7), (8, 9), (10, 11)]


def test_tied_groups_teach_nothing():
    tied = group("tied", ["a", "a"], "00")
    assert (
        mask_rows([MIXED, tied], MaskConfig(), LossConfig())[0]
        == mask_rows([MIXED, tied, tied], MaskConfig(), LossConfig())[0]
    )
    assert measure_signal([MIXED, tied], Config()).tied == 0.5


def test_without_labels():
    # behaviours aa, aa, ab, bc: the largest has 2 of 4; 2 of 12 ordered pairs are alike
    found = unlabelled([MIXED], REWARD)
    assert found.crowd.value == 0.5
    assert found.pairs.value == pytest.approx((2 / 12) ** 0.5)
    assert (found.alone, found.silent) == (0.5, 0.0)
    # first probes 1 1 1 0, second 1 1 0 0: covariance .125, deviations sqrt(3)/4 and 1/2; stepped up 2r/(1+r)
    half = 0.125 / (3**0.5 / 4 * 0.5)
    assert found.halves == pytest.approx(2 * half / (1 + half))
    mute = unlabelled([group("p", ["..", "aa"], "00")], REWARD)
    assert (mute.crowd.value, mute.silent) == (0.5, 0.5)


def test_the_bounds_hold_where_right_programs_behave_alike():
    rng = np.random.default_rng(0)
    for _ in range(50):
        right = rng.random(12) < rng.random()
        keys = ["a" if ok else rng.choice(list("abc")) for ok in right]
        found = unlabelled([group("p", keys, "".join("01"[int(ok)] for ok in right))], REWARD)
        assert found.crowd.value >= right.mean()


def test_no_groups():
    with pytest.raises(EvaluationError, match="no groups"):
        measure_signal([], Config())


def test_nothing_but_what_needs_no_labels():
    signal = measure_signal([group("p", ["a", "b"], "??")], Config())
    assert (signal.calibration, signal.crowds, signal.masks) == (None, (), ())
    assert signal.unlabelled.alone == 1.0
