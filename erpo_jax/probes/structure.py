"""The structure of an input, so that two inputs that exercise the same thing look the same.

A fingerprint keeps types and nesting, and of the values:
    a number on its own   exact up to 100; beyond that its sign, its parity, and its digits as a text has characters
    a number in a list    nothing of its own: it counts in the list's signs, order, repeats and magnitude
    a list                length (0, 1, 2, 3-4, 5-8, ...), signs, magnitude of the largest, order, whether values repeat
    a text                length as for lists, kinds of characters, order, repeats, whether it is a palindrome
    neighbours            for numbers side by side, which is larger
Left out: what a program does on the input. That would need outputs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]{1,3})?")
_FEW_LINES = 6


def read_lines(text: str) -> list[list[str]]:
    """The tokens of each line, trailing blank lines cut."""
    lines = [line.split() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def read_scalar(token: str) -> int | float | str:
    """The number a token writes, or the token."""
    if _INTEGER.fullmatch(token):
        return int(token)
    return float(token) if _FLOAT.fullmatch(token) and math.isfinite(float(token)) else token


def fingerprint(text: str, mode: Literal["stdin", "function"]) -> str:
    """The normalised structure of an input that has passed the format check."""
    if mode == "function":
        return _neighbours(json.loads(text)) + ",".join(_of(value, alone=True) for value in json.loads(text))
    lines = [[read_scalar(token) for token in line] for line in read_lines(text)]
    marks = [_of(line[0], alone=True) if len(line) == 1 else _neighbours(line[:3]) + _of(line) for line in lines]
    if len(marks) > _FEW_LINES:
        # Many lines are a list of cases: their kinds matter, not their number or order.
        marks = [marks[0], *sorted(set(marks[1:])), f"x{len(marks).bit_length()}"]
    return "|".join(marks)


def is_number(value: Any) -> bool:
    """An int or float, and not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _of(value: Any, *, alone: bool = False) -> str:
    if value is None or isinstance(value, bool):
        return str(value)
    if is_number(value):
        return _number(value, alone)
    if isinstance(value, str):
        return f"'{_text(value)}'"
    if isinstance(value, dict):
        return f"{{{_length(value)} {_of(list(value))} {_of(list(value.values()))}}}"
    return f"[{_length(value)} {_items(value)}]"


def _number(value: int | float, alone: bool) -> str:
    if isinstance(value, float):
        return f"f{_sign(value)}{_bits(value)}{'w' if value == math.floor(value) else ''}" if alone else "f"
    if not alone:
        return "i"
    if abs(value) <= 100:
        return f"i{value}"
    digits = f"{abs(value):d}"
    return f"i{_sign(value)}{value % 2}d{len(digits)}{_order(digits)}{_repeats(digits)}{'0' if '0' in digits else ''}"


def _items(values: Sequence[Any]) -> str:
    if values and all(is_number(value) for value in values):
        kinds = "".join(sorted({_number(value, alone=False) for value in values}))
        signs = "".join(sorted({_sign(value) for value in values}))
        return f"{kinds}{signs}{_bits(max(map(abs, values)))}{_order(values)}{_repeats(values)}"
    marks = sorted({_of(value) for value in values})
    order = _order(values) if all(isinstance(value, str) for value in values) else ""
    return ",".join(marks) + order + _repeats([json.dumps(value, sort_keys=True) for value in values])


def _text(text: str) -> str:
    kinds = (str.islower, str.isupper, str.isdigit, str.isspace, lambda c: not c.isalnum() and not c.isspace())
    marks = "".join(name for name, kind in zip("aA0_.", kinds, strict=True) if any(map(kind, text)))
    palindrome = "p" if len(text) > 1 and text == text[::-1] else ""
    return f"{_length(text)}{marks}{_order(text)}{_repeats(text)}{palindrome}"


def _neighbours(values: Sequence[Any]) -> str:
    pairs = pairwise(values)
    return "".join("<=>"[(a > b) - (a < b) + 1] if is_number(a) and is_number(b) else "." for a, b in pairs)


def _order(values: Sequence[Any]) -> str:
    """c constant, + rising, ^ never falling, - falling, v never rising, ~ mixed; nothing for fewer than two."""
    steps = {(a < b) - (a > b) for a, b in pairwise(values)}
    return {(): "", (0,): "c", (1,): "+", (0, 1): "^", (-1,): "-", (-1, 0): "v"}.get(tuple(sorted(steps)), "~")


def _repeats(values: Sequence[Any]) -> str:
    return "r" if len(set(values)) < len(values) else ""


def _length(values: Sequence[Any] | dict[Any, Any]) -> str:
    return f"n{max(len(values) - 1, 0).bit_length() + 1 if len(values) > 1 else len(values)}"


def _sign(value: int | float) -> str:
    return "-" if value < 0 else "0" if value == 0 else "+"


def _bits(value: int | float) -> str:
    """The magnitude in steps of two bits: 0, 1-3, 4-15, 16-63, ..."""
    return f"b{(int(min(abs(value), 1e300)).bit_length() + 1) // 2}"
