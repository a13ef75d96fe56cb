"""The majority reward against hand-computed numbers, alone and as `reward.kind` of a group."""

import pytest

from erpo_jax.config import RewardConfig
from erpo_jax.experience import Attempt, Group, score
from erpo_jax.problems import Problem, Prompt
from erpo_jax.reward import majority
from erpo_jax.rollout import Completion
from erpo_jax.sandbox import Outcome


def rows(*texts):
    """Keys per candidate, one letter per probe, '.' being nothing."""
    return [[None if key == "." else key for key in text] for text in texts]


@pytest.mark.parametrize(
    ("behaviours", "rewards"),
    [
        (("abc", "abc", "abd", "xbc"), (1, 1, 0, 0)),  # PCR would give 1, 1, 2/3, 2/3
        (("ab", "ab", "cd", "cd", "ad"), (1, 1, 1, 1, 0)),  # two vectors tie at the top
        (("ab", "ac", "ad"), (1, 1, 1)),  # nobody agrees: equal rewards, no advantage
        (("a.", "a.", "ab"), (1, 1, 0)),  # crashing on the same probe is behaving alike
        (("..", "..", "..", "ab"), (0, 0, 0, 1)),  # no output at all is no vote
        (("..", ".."), (0, 0)),
    ],
)
def test_by_hand(behaviours, rewards):
    assert majority(rows(*behaviours)) == rewards


def test_the_absent_neither_vote_nor_are_rewarded():
    assert majority(rows("ab", "cd", "cd"), present_g=[True, False, True]) == (1.0, None, 1.0)


def test_no_probes_give_no_reward():
    with pytest.warns(UserWarning, match="without probes"):
        assert majority([[], []]) == (None, None)


def test_rows_of_different_length_are_refused():
    with pytest.raises(ValueError, match="differ in length"):
        majority(rows("ab", "a"))


def group(*behaviours, present=None):
    present = present or [True] * len(behaviours)
    attempts = []
    for text, here in zip(behaviours, present, strict=True):
        outcomes = [
            Outcome("error", None, 0.0, 0.0) if key == "." else Outcome("ok", f"{key}\n", 0.0, 0.0) for key in text
        ]
        attempts.append(Attempt(Completion((1,), (0.0,), "stop", 0), text, "p", here, outcomes))
    return Group(Problem(id="p", statement="s"), Prompt((1,), ""), tuple(behaviours[0]), attempts, version=0)


@pytest.mark.parametrize(
    ("kind", "ambiguous", "rewards"),
    [
        ("pcr", "count", [1.0, 1.0, 2 / 3, 1 / 3]),
        ("majority", "count", [1.0, 1.0, 0.0, 0.0]),
        # probe 2 (c c e f: 2 of 4) is not clear and is left out: candidate 2 behaves like the first two
        ("majority", "drop", [1.0, 1.0, 1.0, 0.0]),
    ],
)
def test_as_the_reward_of_a_group(kind, ambiguous, rewards):
    scored = group("abc", "abc", "abe", "dbf")
    score([scored], RewardConfig(kind=kind, ambiguous=ambiguous))
    assert [attempt.reward for attempt in scored.attempts] == pytest.approx(rewards)
    assert scored.consensus is not None


def test_when_no_probe_is_clear_there_is_no_reward():
    scored = group("a", "b")
    score([scored], RewardConfig(kind="majority", ambiguous="drop"))
    assert [attempt.reward for attempt in scored.attempts] == [None, None]
