"""When an output counts as the expected one: one rule per benchmark family, named in the hidden-tests file.

    key            equality of the consensus reward's own key (`erpo_jax.reward`): lines of tokens, numbers by value
    tokens         tokens between white space, each equal (CodeForces without a checker)
    livecodebench  texts stripped, as many lines, each line equal or equal as decimals token by token; values with `==`
                   after a tuple became a list, no tolerance for floats
    codecontests   tokens in lower case, equal or numbers less than 1e-5 apart
    apps           APPS and TACO, the first that holds: stripped texts, stripped lines, lines that are numbers within
                   numpy.allclose, sets of lines that are sets of tokens (also rounded to 3 digits): order and
                   repetition are forgiven. Values with `==` to the expected one, or to its first element

Each is the benchmark's published rule, its quirks included: what they let pass is theirs to let pass. Programs that
judge answers ("checkers") are in `checks`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from erpo_jax.reward import json_key, output_key, value_key
from erpo_jax.sandbox import decode_value


@dataclass(frozen=True)
class Rule:
    """`texts(expected, actual)` judges standard output, `values(expected JSON, encoded value)` a function's result.
    `returns`: a program may return outside a function, for the publisher's grader puts it into one."""

    texts: Callable[[str, str], bool]
    values: Callable[[str, str], bool]
    returns: bool = False


def same_key(expected: str, actual: str) -> bool:
    return output_key(expected) == output_key(actual)


def same_value_key(expected: str, encoded: str) -> bool:
    return json_key(expected) == value_key(encoded)


def same_tokens(expected: str, actual: str) -> bool:
    return expected.split() == actual.split()


def livecodebench_texts(expected: str, actual: str) -> bool:
    theirs, ours = _stripped_lines(expected), _stripped_lines(actual)
    return len(theirs) == len(ours) and all(
        line == other or _equal_decimals(line, other) for line, other in zip(theirs, ours, strict=True)
    )


def livecodebench_values(expected: str, encoded: str) -> bool:
    return bool(_listed(decode_value(encoded)) == json.loads(expected))


def _stripped_lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _equal_decimals(line: str, other: str) -> bool:
    try:
        return [Decimal(token) for token in line.split()] == [Decimal(token) for token in other.split()]
    except InvalidOperation:  # a token that is no number, or a signalling NaN
        return False


def codecontests_texts(expected: str, actual: str) -> bool:
    theirs, ours = _lower_tokens(expected), _lower_tokens(actual)
    # Equal tokens beside a different one are compared as numbers too: nan is near nothing then.
    return theirs == ours or (len(theirs) == len(ours) and all(map(_near, theirs, ours)))


def _lower_tokens(text: str) -> list[bytes]:
    """Tokens with ASCII letters in lower case, split as the C++ does (a form feed does not separate)."""
    return [token for token in re.split(rb"[ \n\t\r\v]+", text.encode(errors="surrogateescape").lower()) if token]


def _near(token: bytes, other: bytes) -> bool:
    try:
        if b"_" in token + other:  # Python's own way to write numbers
            raise ValueError
        return abs(float(token) - float(other)) < 1e-5
    except ValueError:
        return token == other


def apps_texts(expected: str, actual: str) -> bool:
    printed = actual.splitlines()
    if expected.strip() in ("\n".join(lines).strip() for lines in (printed, [line.strip() for line in printed])):
        return True
    theirs = [line.strip() for line in expected.split("\n") if line]
    ours = [line for line in printed if line]
    if ours == theirs or _all_close(ours, theirs):
        return True
    their_sets = {frozenset(line.split()) for line in theirs}
    our_sets = {frozenset(tokens) for line in ours if (tokens := line.split())}
    return our_sets == their_sets or _equal_rounded(our_sets, their_sets)


def _all_close(lines: Sequence[str], others: Sequence[str]) -> bool:
    try:
        pairs = list(zip(map(float, lines), map(float, others), strict=True))
    except ValueError:
        return False
    return all(one == two or abs(one - two) <= 1e-8 + 1e-5 * abs(two) < math.inf for one, two in pairs)


def _equal_rounded(lines: set[frozenset[str]], others: set[frozenset[str]]) -> bool:
    try:
        one, two = ({frozenset(round(float(t), 3) for t in line) for line in some} for some in (lines, others))
    except ValueError:
        return False
    return one == two


def apps_values(expected: str, encoded: str) -> bool:
    value, wanted = _listed(decode_value(encoded)), _integer_keys(json.loads(expected))
    first = wanted[0] if isinstance(wanted, list) and wanted else None
    if value == wanted or (isinstance(wanted, list) and wanted and value == first):
        return True
    pairs = isinstance(value, list) and value and isinstance(value[0], tuple)
    return bool(pairs and all(isinstance(one, (list, tuple)) for one in value) and list(map(list, value)) == first)


def _integer_keys(value: Any) -> Any:
    """JSON made texts of a dictionary's integer keys: an expected dictionary, or the first of a list, gets them."""
    inner = value[0] if isinstance(value, list) and value else value
    if isinstance(inner, dict):
        try:
            return [{int(name): item for name, item in inner.items()}]
        except ValueError:
            return value
    return value


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


RULES = {
    "key": Rule(same_key, same_value_key),
    "tokens": Rule(same_tokens, same_value_key),
    "livecodebench": Rule(livecodebench_texts, livecodebench_values),
    "codecontests": Rule(codecontests_texts, same_value_key),
    "apps": Rule(apps_texts, apps_values, returns=True),
}
