"""Public-test reward (the baseline GRPO_Pub): the share of the statement's public tests that a candidate passes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from erpo_jax.problems.problem import Problem
from erpo_jax.reward.equality import json_key, outcome_key, output_key, token_key
from erpo_jax.sandbox.outcome import Outcome


def expected_keys(problem: Problem) -> tuple[Hashable, ...]:
    """The key of each public test's expected output, in order: of a text, or in function mode of a JSON value."""
    if problem.mode == "stdin":
        return tuple(output_key(test.output) for test in problem.public_tests)
    return tuple(_as_json(json_key(test.output)) for test in problem.public_tests)


def public_reward(problem: Problem, outcomes: Sequence[Outcome]) -> float | None:
    """Passed share of the public tests, `outcomes[j]` being what became of the candidate on test j; None without a
    test.

    In function mode a returned dictionary is compared as JSON would write it, keys as texts. A candidate without a
    verdict (`has_verdict`) must have left its group before. Raises ValueError when the numbers of outcomes and tests
    differ.
    """
    expected = expected_keys(problem)
    if len(outcomes) != len(expected):
        raise ValueError(f"{problem.id} has {len(expected)} public tests, but there are {len(outcomes)} outcomes")
    if not expected:
        return None
    given = [outcome_key(outcome, problem.mode) for outcome in outcomes]
    if problem.mode == "function":
        given = [_as_json(key) for key in given]
    passed = [key is not None and bool(key == right) for key, right in zip(given, expected, strict=True)]
    return sum(passed) / len(passed)


def _as_json(key: Any) -> Any:
    """A value's key with every dictionary key turned to a text, as JSON has them."""
    if not isinstance(key, tuple) or key[0] not in ("list", "dict"):
        return key
    kind, items = key
    if kind == "list":
        return (kind, tuple(map(_as_json, items)))
    return (kind, frozenset((_name(name), _as_json(item)) for name, item in items))


def _name(key: Any) -> Any:
    match key:
        case ("text" | "number", text):
            return token_key(text)
        case ("bool", flag):
            return "true" if flag else "false"
        case ("none",):
            return "null"
    return key
