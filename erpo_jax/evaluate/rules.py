"""When an output counts as the expected one: one rule per benchmark family, named in the hidden-tests file.

`key` (default): equality of the consensus reward's own key (`erpo_jax.reward`): lines of tokens, numbers by value.
`livecodebench`: that benchmark's published rule: texts stripped, as many lines, each line equal or equal as decimals
token by token; values with `==` after a tuple became a list, no tolerance for floats. Left out: checkers for problems
with several answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from erpo_jax.reward import json_key, output_key, value_key
from erpo_jax.sandbox import decode_value


@dataclass(frozen=True)
class Rule:
    """`texts(expected, actual)` judges standard output, `values(expected JSON, encoded value)` a function's result."""

    texts: Callable[[str, str], bool]
    values: Callable[[str, str], bool]


def same_key(expected: str, actual: str) -> bool:
    return output_key(expected) == output_key(actual)


def same_value_key(expected: str, encoded: str) -> bool:
    return json_key(expected) == value_key(encoded)


def livecodebench_texts(expected: str, actual: str) -> bool:
    theirs, ours = _stripped_lines(expected), _stripped_lines(actual)
    return len(theirs) == len(ours) and all(
        line == other or _equal_decimals(line, other) for line, other in zip(theirs, ours, strict=True)
    )


def livecodebench_values(expected: str, encoded: str) -> bool:
    value = decode_value(encoded)
    return bool((list(value) if isinstance(value, tuple) else value) == json.loads(expected))


def _stripped_lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _equal_decimals(line: str, other: str) -> bool:
    try:
        return [Decimal(token) for token in line.split()] == [Decimal(token) for token in other.split()]
    except InvalidOperation:  # a token that is no number, or a signalling NaN
        return False


RULES = {
    "key": Rule(same_key, same_value_key),
    "livecodebench": Rule(livecodebench_texts, livecodebench_values),
}
