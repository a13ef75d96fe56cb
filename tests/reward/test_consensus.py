"""PCR and its diagnostics against hand-computed numbers (METHOD 2 and 3, CASES S8 and O3)."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erpo_jax.reward import consensus, probe_summary, reward_histogram, reward_summary


def columns(*columns_kg):
    """Keys per candidate from one text per probe, '.' being nothing."""
    return [[None if key == "." else key for key in row] for row in zip(*columns_kg, strict=True)]


def test_by_hand():
    #                     candidate: 0123
    result = consensus(columns("aaab", "xxyy", "p.q.", "...."))
    # probe 0: a wins. probe 1: x and y tie, both are in M. probe 2: p and q tie. probe 3: nobody.
    assert result.pcr_g == (3 / 4, 2 / 4, 3 / 4, 1 / 4)
    assert result.clusters_gk == ((0, 0, 0, -1), (0, 0, -1, -1), (0, 1, 1, -1), (1, 1, -1, -1))
    assert result.probes_used == 4
    first, second, third, fourth = result.signals_k
    assert (first.valid, first.agreement, first.clusters, first.ambiguous) == (1.0, 0.75, 2, False)
    assert first.discrimination == 3 / 6
    assert (second.agreement, second.clusters, second.ambiguous) == (0.5, 2, True)
    assert second.discrimination == 4 / 6
    assert (third.valid, third.agreement, third.ambiguous) == (0.5, 0.5, True)
    assert third.discrimination == 5 / 6  # only the two silent candidates are alike
    assert (fourth.valid, fourth.agreement, fourth.clusters, fourth.discrimination, fourth.ambiguous) == (
        0,
        0,
        0,
        0,
        True,
    )


def test_division_is_that_of_python():
    result = consensus(columns("aab", "aab", "aba"))
    assert result.pcr_g == (3 / 3, 2 / 3, 1 / 3)


def test_all_crash_gives_zero_for_all():
    result = consensus([[None] * 10 for _ in range(8)])
    assert result.pcr_g == (0.0,) * 8


def test_no_probes_gives_no_reward_and_a_warning():
    with pytest.warns(UserWarning, match="without probes"):
        result = consensus([[], []])
    assert result.pcr_g == (None, None)
    assert result.signals_k == ()


def test_candidates_without_a_verdict_leave_before_counting():
    keys_gk = columns("aabbb", "xxxyy")
    whole = consensus(keys_gk)
    assert whole.pcr_g == (0.5, 0.5, 1.0, 0.5, 0.5)
    left = consensus(keys_gk, present_g=[True, True, True, False, False])
    assert left.pcr_g == (1.0, 1.0, 0.5, None, None)  # now a is the majority
    assert left.clusters_gk[3] == (-1, -1)
    assert left.signals_k[0].valid == 1.0


def test_a_group_of_absent_candidates():
    result = consensus(columns("ab"), present_g=[False, False])
    assert result.pcr_g == (None, None)
    assert result.signals_k[0].discrimination == 0.0


def test_several_valid_answers():
    """CASES O3: 8 right programs, 4 different valid outputs."""
    keys_gk = columns("aabbccdd", "xxxxxxxx")
    counted = consensus(keys_gk)
    assert [signal.ambiguous for signal in counted.signals_k] == [True, False]
    assert counted.pcr_g == (1.0,) * 8  # all four tie at the top
    uneven = columns("aaabbccd", "xxxxxxxx")
    assert consensus(uneven).pcr_g == (1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5)
    dropped = consensus(uneven, ambiguous="drop")
    assert dropped.pcr_g == (1.0,) * 8
    assert dropped.used_k == (False, True)


def test_drop_leaves_none():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = consensus(columns("aabb", "...."), ambiguous="drop")
    assert result.pcr_g == (0.0,) * 4
    assert result.probes_used == 0


@pytest.mark.parametrize(("quorum", "ambiguous"), [(0.59, False), (0.6, True), (0.61, True), (0.0, False), (1.0, True)])
def test_the_quorum_is_a_share_of_the_outputs(quorum, ambiguous):
    result = consensus(columns("aaabc."), quorum=quorum)  # 3 of 5 outputs
    assert result.signals_k[0].ambiguous is ambiguous


def test_the_quorum_is_exact():
    assert (
        consensus(columns("a" * 7 + "bcd"), quorum=0.7).signals_k[0].ambiguous
    )  # 0.7 * 10 is 7.000000000000001 in floats
    assert not consensus(columns("a" * 8 + "bc"), quorum=0.7).signals_k[0].ambiguous


@given(
    st.integers(1, 4).flatmap(
        lambda probes: st.lists(
            st.lists(st.sampled_from(["a", "b", "c", None]), min_size=probes, max_size=probes), min_size=1, max_size=9
        )
    ),
    st.randoms(),
)
def test_it_is_the_definition(keys_gk, random):
    """PCR[i] = (1/K) #{k : y[i,k] is an output that no other output outnumbers}, whatever the order of candidates."""
    result = consensus(keys_gk)
    for keys_k, reward in zip(keys_gk, result.pcr_g, strict=True):
        agreeing = 0
        for k, key in enumerate(keys_k):
            column = [row[k] for row in keys_gk if row[k] is not None]
            agreeing += key is not None and all(column.count(key) >= column.count(other) for other in column)
        assert reward == agreeing / len(keys_k)
    order = list(range(len(keys_gk)))
    random.shuffle(order)
    assert consensus([keys_gk[i] for i in order]).pcr_g == tuple(result.pcr_g[i] for i in order)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="one key per probe"):
        consensus([["a"], ["a", "b"]])
    with pytest.raises(ValueError, match="ambiguous=skip is neither count nor drop"):
        consensus([["a"]], ambiguous="skip")
    with pytest.raises(ValueError, match="present_g has 1"):
        consensus([["a"], ["a"]], present_g=[True])


def test_reward_summary():
    summary = reward_summary([[0.3, 0.3, 0.3, 0.3], [1.0, 1.0, 1.0, 0.0], [0.5, 0.5, 1.0, None], [None, None]])
    assert summary["tied_groups"] == pytest.approx(1 / 3)
    assert summary["top_heavy_groups"] == pytest.approx(1 / 3)
    assert summary["empty_groups"] == 1.0
    assert summary["mean"] == pytest.approx((1.2 + 3.0 + 2.0) / 11)
    assert summary["one"] == pytest.approx(4 / 11)
    assert summary["zero"] == pytest.approx(1 / 11)
    assert summary["spread"] == pytest.approx((0 + 1 + 0.5) / 3)


def test_three_of_four_groups_tied():
    assert reward_summary([[0.7] * 8, [0.0] * 8, [1.0] * 8, [0.2, 0.4]])["tied_groups"] == 0.75


def test_histogram():
    tenths = [count / 10 for count in range(11)]
    assert reward_histogram(tenths) == (1,) * 11
    assert reward_histogram([0.05, 0.1, 0.99, 1.0]) == (1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1)
    with pytest.raises(ValueError, match=r"not at 1\.5"):
        reward_histogram([1.5])


def test_probe_summary():
    summary = probe_summary([consensus(columns("aaab", "...."))])
    assert summary == {
        "probes_used": 2.0,
        "probe_valid": 0.5,
        "probe_agreement": 0.375,
        "probe_clusters": 1.0,
        "probe_discrimination": 0.25,
        "probe_ambiguous": 0.5,
    }
