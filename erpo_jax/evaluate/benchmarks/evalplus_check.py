"""EvalPlus's comparison of a candidate with the reference, as source: it runs inside the sandbox, after the candidate.

`evalplus.py` puts this file's text into a hidden test. Standard library only; nothing here is called in our process but
by the tests of the rule. The order of the steps, and a tolerance that stays once a float was seen, are EvalPlus's.
Left out: numpy arrays as results (they have no place in either set).
"""

import copy
import math
from collections.abc import Callable
from typing import Any


def check(
    candidate: Callable[..., Any],
    reference: Callable[..., Any],
    inputs: list[Any],
    atol: float,
    rule: str | None = None,
) -> None:
    """Raises AssertionError, or whatever the candidate raises, unless it agrees with the reference on every input."""
    for arguments in inputs:
        expected = reference(*copy.deepcopy(arguments))
        shown = copy.deepcopy(arguments)
        found = candidate(*arguments)
        if rule == "root":  # HumanEval/32: any root of the polynomial
            assert abs(sum(factor * math.pow(found, power) for power, factor in enumerate(shown[0]))) <= atol
            continue
        exact = found == expected
        if rule == "anything":
            exact = True
        elif rule == "or zero":
            exact = exact or found == 0
        elif rule == "pyramid":  # the height read as that of the apex above the base
            base, height = shown
            exact = exact or abs(found - round(base**2 + 2 * base * math.sqrt((base / 2) ** 2 + height**2))) <= atol
        elif rule == "digit by digit":
            width = max(len(str(number)) for number in shown)
            digits = zip(*(str(number).zfill(width) for number in shown), strict=True)
            exact = exact or found == sum(abs(int(one) - int(other)) for one, other in digits)
        elif rule == "as sets":
            exact = set(found) == set(expected)
        elif rule == "not none":
            expected = expected is not None if not isinstance(expected, bool) else expected
            exact = found == expected if isinstance(found, bool) else expected == (found is not None)
        if atol == 0 and all_floats(expected):
            atol = 1e-6
        if exact or atol == 0:
            assert exact
        else:
            assert type(found) is type(expected)
            assert all_close(found, expected, atol)


def all_floats(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, float) for item in value)
    return isinstance(value, float)


def all_close(found: Any, expected: Any, atol: float) -> bool:
    """|found - expected| <= atol + 1e-7 |expected| throughout, as numpy.allclose has it."""
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(all_close(*pair, atol) for pair in zip(found, expected, strict=True))
    return bool(found == expected or abs(found - expected) <= atol + 1e-7 * abs(expected) < math.inf)
