"""When two outputs are equal: they have the same key.

A key is a canonical text. Numbers of other texts or types never reach a float on the way, so 9007199254740993 and
9007199254740992 stay two values. Left out: lenient judging (order of lines, letter case, absolute tolerance). Agreement
must mean sameness, and an equality with a tolerance has no keys because it is not transitive.
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Hashable, Sequence
from itertools import zip_longest
from typing import Any, Literal

from erpo_jax.sandbox.outcome import Outcome

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LIMB_BITS = 4096
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, traps=[decimal.Inexact])
_SIX_DIGITS = decimal.Context(prec=6, rounding=decimal.ROUND_HALF_EVEN, traps=[])


def output_key(text: str) -> Hashable:
    """The key of a program's standard output.

    Lines of whitespace-separated tokens, trailing blank lines cut. A token that is an integer stays exact; another
    number becomes its value at 6 significant digits, so that `2.50` is `2.5` and `2.0` is `2`; any other token, `nan`
    and `inf` among them, keeps its text and case.
    """
    lines = [" ".join(map(token_key, line.split())) for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def token_key(token: str) -> str:
    """The canonical text of one token: a number as digits and a power of ten, other text as it is."""
    if _INTEGER.fullmatch(token):
        # By text: int() of a very long number is refused by the interpreter, and slow.
        digits = token.lstrip("+-").lstrip("0")
        short = digits.rstrip("0")
        return _number_key(token[0] == "-", short, len(digits) - len(short))
    if _NUMBER.fullmatch(token):
        value = _SIX_DIGITS.create_decimal(token)
        if not value.is_finite():
            return str(value)  # an exponent beyond all bounds
        sign, digits_of, exponent = value.as_tuple()
        digits = "".join(map(str, digits_of)).lstrip("0")
        short = digits.rstrip("0")
        assert isinstance(exponent, int)
        return _number_key(sign == 1, short, exponent + len(digits) - len(short))
    return token


def _number_key(negative: bool, digits: str, exponent: int) -> str:
    if not digits:
        return "0"
    return ("-" if negative else "") + digits + (f"e{exponent}" if exponent else "")


def value_key(encoded: str) -> Hashable:
    """The key of a value that a function returned, from the sandbox's typed encoding of it (`erpo_jax.sandbox.values`).

    As for texts, but types stay apart: True is not 1, "2" is not 2. An int stays exact and equals the float of the same
    value; a float is its value at 6 significant digits; lists and tuples are alike. Raises ValueError for another text.
    """
    try:
        return _encoded_value(json.loads(encoded, parse_int=_Number, parse_float=_Number))
    except (IndexError, TypeError, KeyError) as error:
        raise ValueError(f"not an encoded value: {encoded[:80]!r}") from error


def json_key(text: str) -> Hashable:
    """The key of a JSON value, such as an expected output in function mode. Raises ValueError when it is not JSON."""
    return _json_value(json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_constant))


class _Number(str):
    """A number as JSON writes it. It stays a text, because int() of a very long one is refused by the interpreter."""


def _constant(name: str) -> _Number:
    return _Number({"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}[name])


def _scalar(node: Any) -> Hashable:
    if isinstance(node, _Number):
        return ("number", token_key(node))
    if isinstance(node, str):
        return ("text", node)
    return ("none",) if node is None else ("bool", bool(node))


def _json_value(node: Any) -> Hashable:
    if isinstance(node, list):
        return ("list", tuple(map(_json_value, node)))
    if isinstance(node, dict):
        return ("dict", frozenset((("text", name), _json_value(item)) for name, item in node.items()))
    return _scalar(node)


def _encoded_value(node: Any) -> Hashable:
    if not isinstance(node, list):
        return _scalar(node)
    tag, items = node[0], node[1:]
    if tag in ("l", "t"):
        return ("list", tuple(map(_encoded_value, items)))
    if tag == "s":
        return ("set", frozenset(map(_encoded_value, items)))
    if tag == "d":
        return ("dict", frozenset((_encoded_value(name), _encoded_value(item)) for name, item in items))
    if tag == "i":
        return ("number", token_key(_digits(int(items[0], 16))))
    if tag == "f":
        return ("number", items[0])
    if tag == "c":
        return ("complex", _encoded_value(items[0]), _encoded_value(items[1]))
    if tag == "b":
        return ("bytes", items[0])
    raise ValueError(f"not an encoded value: unknown tag {tag!r}")


def _digits(number: int) -> str:
    """str(number), of any length, without the square of the length in time that str() and Decimal() take: a program may
    return a million digits on each input."""
    size = _LIMB_BITS // 8
    raw = abs(number).to_bytes(number.bit_length() // 8 + 1, "little")
    limbs = [decimal.Decimal(int.from_bytes(raw[at : at + size], "little")) for at in range(0, len(raw), size)]
    power = decimal.Decimal(1 << _LIMB_BITS)
    while len(limbs) > 1:
        pairs = zip_longest(limbs[::2], limbs[1::2], fillvalue=decimal.Decimal(0))
        limbs = [_EXACT.fma(high, power, low) for low, high in pairs]
        power = _EXACT.multiply(power, power)
    return ("-" if number < 0 else "") + str(limbs[0])


def outcome_key(outcome: Outcome, mode: Literal["stdin", "function"]) -> Hashable | None:
    """The key of one outcome; None when the candidate gave no output (any verdict but `ok`)."""
    if outcome.verdict != "ok" or outcome.output is None:
        return None
    return output_key(outcome.output) if mode == "stdin" else value_key(outcome.output)


def has_verdict(outcomes: Sequence[Outcome]) -> bool:
    """False when the sandbox itself failed on any input: the candidate then leaves its group and is never scored."""
    return all(outcome.verdict != "sandbox_error" for outcome in outcomes)
