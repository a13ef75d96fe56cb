"""What a problem statement says about its inputs: ranges, lengths, kinds of letters, order. Plain patterns over its
text.

Left out: limits between variables, sums over test cases, and whatever is said in other words than these patterns know.
Whether a reading is right is decided elsewhere, by the examples.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Length = Literal["", "any", "items", "characters"]

_NUMBER = (
    r"-?(?:\d+(?:\.\d+)?\*)?"  # 2*10^5
    r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
    r"(?:e\d+|\^\d+(?: ?[-+] ?1\b)?)?"  # 2^31 - 1
)
_VARIABLE = r"(?:len\(\w+\)|\|\w+\||[A-Za-z]\w*(?:\[\w+\])*(?:\.(?:length|size\(\)|size))?)"
_OPERAND = rf"(?:{_NUMBER}|{_VARIABLE}(?:, ?{_VARIABLE})*)"
_CHAIN = re.compile(rf"{_OPERAND}(?: ?[<>]=? ?{_OPERAND})+")
_RANGE = re.compile(
    r"(?P<name>\b[a-z])?\s*(?P<verb>between|from|of|in the range|with|has|have|are|is|in|,|^|\()\s*\[?\s*"
    rf"(?P<low>{_NUMBER})\s*(?:to|and|-|\.\.\.?|,)\s*(?P<high>{_NUMBER})\b\s*\]?"
    r"(?=\s*(?P<unit>[a-z]+)?(?: (?P<noun>[a-z]+))?)",
    re.MULTILINE,
)
_ITEMS = frozenset({"integers", "numbers", "elements", "items", "words", "strings", "values", "tokens"})
_CHARACTERS = frozenset({"characters", "character", "letters", "letter", "digits", "symbols", "chars"})
_COUNTED = re.compile(rf"\b([a-zA-Z]) (?:space-separated )?(?:{'|'.join(sorted(_ITEMS))})\b")
_FIRST_LINE = re.compile(
    r"first (?:and only |and the only )?line (?:of (?:the )?input )?(?:contains|consists of|has)(?: only| exactly)?"
    r" (?:(?:a|an|one|two|three|four|single|space-separated|positive|non-negative|the) )*(?:integers?|numbers?)"
    r"(?: numbers?)?:? (?P<names>[a-z](?:\w*)(?:(?:, and | and |, ?)[a-z]\w*)*)\b"
)
_SUBJECT = r"(?:elements|integers|values|numbers|strings|words|characters)"
_DISTINCT = re.compile(
    rf"pairwise distinct|all (?:the )?{_SUBJECT}[^.]{{0,40}} (?:are )?(?:distinct|unique)"
    rf"|{_SUBJECT} are (?:all )?(?:distinct|unique)"
)
# "is sorted in ascending order" speaks of the input, "sort it in ascending order" of the task.
_SORTED = re.compile(r"(?:is|are|given) (?:already )?sorted in (?:a )?(?:non-decreasing|ascending|increasing|strictly)")
_LIMIT_WORDS = re.compile(
    r"[<>]=|constraint|guarantee|at most|at least|between|no more than|positive|negative|non-?empty|distinct|only|valid"
    r"|assume",
    re.IGNORECASE,
)
# Letters limit inputs where texts are said to consist of them; "flip lowercase letters" limits nothing.
_CONSIST = r"(?:consist|contain|only|made|\d|\bof )[^.]{0,60}?"
_OF_LETTERS = r"[^.]{0,40}?(?:letters?|characters?|alphabet)\b"
_LETTERS: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
    ("small letters", rf"{_CONSIST}\b(?:lower ?-?case|small)\b{_OF_LETTERS}", lambda c: "a" <= c <= "z"),
    ("capital letters", rf"{_CONSIST}\b(?:upper ?-?case|capital)\b{_OF_LETTERS}", lambda c: "A" <= c <= "Z"),
    (
        "letters",
        rf"{_CONSIST}(?<!case )(?<!small )(?<!capital )(?:english|latin) (?:letters|alphabet)",
        lambda c: c.isascii() and c.isalpha(),
    ),
    ("digits", r"(?:consist|contain|only|made)[^.]{0,60}?\bdigits\b", lambda c: "0" <= c <= "9"),
    (
        "0 and 1",
        r"\bbinary string|(?:characters|symbols|consist\w* (?:only )?of) '?\"?0'?\"? (?:and|or) '?\"?1\b",
        lambda c: c in "01",
    ),
)
_PLAIN = (
    ("\\leq", "<="),
    ("\\geq", ">="),
    ("\\le", "<="),
    ("\\ge", ">="),
    ("\\lt", "<"),
    ("\\gt", ">"),
    ("\u2264", "<="),
    ("\u2265", ">="),
    ("\u2a7d", "<="),
    ("\u2a7e", ">="),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&le;", "<="),
    ("&ge;", ">="),
    ("\\cdot", "*"),
    ("\\times", "*"),
    ("\u22c5", "*"),
    ("\u00b7", "*"),
    ("\u00d7", "*"),
    ("\u2212", "-"),
    ("\u2013", "-"),
    ("**", "^"),
    ("{,}", ","),
    ("$", ""),
    ("`", ""),
    ("\\", ""),
    ("\u00a0", " "),
    ("\u2009", " "),
)


@dataclass(frozen=True)
class Bound:
    """A range of a variable's values, both ends included, or of its `length` (of a list's items, a text's characters).

    `name` is the variable as written, indices as `a[i]`, or None when the statement does not name it.
    """

    name: str | None
    low: float
    high: float
    length: Length = ""


@dataclass(frozen=True)
class Statement:
    """What was read.

    first_line: names of the numbers on the first line of standard input, when the statement lists them.
    letters: kinds of characters that texts consist of, with the test for each.
    """

    bounds: tuple[Bound, ...]
    first_line: tuple[str, ...]
    letters: tuple[tuple[str, Callable[[str], bool]], ...]
    distinct: bool
    rising: bool


def read_statement(text: str) -> Statement:
    """Everything that the patterns find in a statement."""
    text = _plain(text)
    lower = text.lower()
    bounds = [*_chains(text), *_ranges(lower)]
    first = _FIRST_LINE.search(text)
    return Statement(
        bounds=tuple(bounds + _counts(bounds, text)),
        first_line=tuple(re.split(r", and | and |, ?", first["names"])) if first else (),
        letters=tuple((says, test) for says, pattern, test in _LETTERS if re.search(pattern, lower)),
        distinct=_DISTINCT.search(lower) is not None,
        rising=_SORTED.search(lower) is not None,
    )


def mentions_limits(text: str) -> bool:
    """True when a statement seems to limit its inputs, in whatever words."""
    return _LIMIT_WORDS.search(_plain(text)) is not None


def _plain(text: str) -> str:
    for old, new in _PLAIN:
        text = text.replace(old, new)
    text = re.sub(r"\^ ?\{ ?(\d+) ?\}", r"^\1", text)
    text = re.sub(r"_\{?(\w)\}?", r"[\1]", text)
    text = re.sub(r"(\d) ?\* ?(\d)", r"\1*\2", text)
    return re.sub(r"(\d)\^ ?(\d)", r"\1^\2", text)


def _number(text: str) -> float | None:
    if not re.fullmatch(_NUMBER, text):
        return None
    shift = re.search(r"(?<=\d) ?([-+]) ?1$", text)
    if shift:
        base = _number(text[: shift.start()])
        return None if base is None else base + (1 if shift[1] == "+" else -1)
    sign = -1 if text.startswith("-") else 1
    product = 1.0
    for part in text.lstrip("-").replace(",", "").split("*"):
        root, _, power = part.partition("^")
        if len(power) > 2:
            return None
        product *= float(root) ** int(power or 1)
    return sign * product


def _chains(text: str) -> list[Bound]:
    """Comparisons: `1 <= l < r <= 10^5`, `-5 <= a[i], b[i] <= 5`, `n >= 1`, `1 <= nums.length`, `|s| <= 10`."""
    bounds = []
    for chain in _CHAIN.finditer(text):
        parts = re.split(r" ?([<>]=?) ?", chain[0])
        terms, signs = parts[::2], parts[1::2]
        if all(sign.startswith(">") for sign in signs):
            terms, signs = terms[::-1], [sign.replace(">", "<") for sign in signs[::-1]]
        elif not all(sign.startswith("<") for sign in signs):
            continue
        numbers = [_number(term) for term in terms]
        for index, term in enumerate(terms):
            if numbers[index] is None:
                low = _nearest(numbers[:index][::-1], signs[:index][::-1], step=1)
                high = _nearest(numbers[index + 1 :], signs[index:], step=-1)
                if low is not None or high is not None:
                    ends = (-math.inf if low is None else low, math.inf if high is None else high)
                    bounds += [_bound(name, *ends) for name in re.split(r", ?", term)]
    return bounds


def _nearest(numbers: Sequence[float | None], signs: Sequence[str], step: int) -> float | None:
    """The first number on the way; an integer behind `<` is left out of the range."""
    for number, sign in zip(numbers, signs, strict=True):
        if number is not None:
            return number + step if sign == "<" and number == math.floor(number) else number
    return None


def _bound(name: str, low: float, high: float) -> Bound:
    bare = re.sub(r"^len\((\w+)\)$|^\|(\w+)\|$", r"\1\2", name)
    path = re.sub(r"\.(length|size\(\)|size)$", "", bare)
    return Bound(path, low, high, "any" if path != name else "")


def _ranges(text: str) -> list[Bound]:
    """Ranges in words: "from 2 to 7", "4 to 8 words of 2 to 7 small letters", "a length between 1 and 50"."""
    bounds = []
    for found in _RANGE.finditer(text):
        low, high = _number(found["low"]), _number(found["high"])
        if low is None or high is None or low > high:
            continue
        unit, noun = found["unit"], found["noun"]
        spans = found["verb"] in ("between", "from", "in", "in the range")
        if unit in _CHARACTERS or (noun in _CHARACTERS and not spans):
            bounds.append(Bound(None, low, high, "characters"))
        elif unit in _ITEMS and not spans:
            bounds.append(Bound(None, low, high, "items"))
        elif "length" in text[max(0, found.start() - 40) : found.start()] or unit == "long":
            bounds.append(Bound(None, low, high, "any"))
        elif spans and unit not in ("th", "st", "nd", "rd"):
            bounds.append(Bound(found["name"], low, high))
    return bounds


def _counts(bounds: Sequence[Bound], text: str) -> list[Bound]:
    """`n integers` makes the range of n one of lengths too."""
    counted = set(_COUNTED.findall(text))
    return [Bound(None, b.low, b.high, "items") for b in bounds if b.name in counted and not b.length]
