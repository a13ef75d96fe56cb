"""The canonical typed encoding of a returned value: compact JSON text, equal for equal values, of bounded size.

    None, bool, str     null, true, false, "text"
    int                 a JSON integer while |n| < 2**63, else ["i","0x..."] (hexadecimal: no limit on digits)
    float               a JSON number that has a point or an exponent; ["f","nan"], ["f","inf"], ["f","-inf"]
    complex, bytes      ["c",re,im] with two encoded floats; ["b","hex"]
    list, tuple         ["l",x,...], ["t",x,...]
    set, frozenset      ["s",x,...], elements sorted by their encoding
    dict                ["d",[key,value],...], pairs sorted by the key's encoding

Subclasses count as their base (a namedtuple is a tuple, a Counter a dict). Left out on purpose: everything else. An
object of another type has no value that two programs could share, only an address.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # workers do not load `typing`
if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 200
MAX_ALIKE = 1000
"""Elements of a set, or keys of a dict, that may share one hash: the time to put them together grows with the square
of that."""


class NoEncoding(ValueError):
    """The value has no encoding: its type, or its depth."""


class TooLarge(ValueError):
    """The encoding is larger than allowed."""


def encode_value(value: Any, max_bytes: int = 1_000_000) -> str:
    """The encoding of `value`, at most `max_bytes` ASCII characters. Raises NoEncoding and TooLarge."""
    encoder = _Encoder(max_bytes)
    text = encoder.text(value, 0)
    if len(text) > max_bytes:
        raise TooLarge(f"the returned value is larger than {max_bytes} bytes")
    return text


class _Encoder:
    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.spent = 0

    def text(self, value: Any, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise NoEncoding(f"returned a value nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, (list, tuple)):
            tag = '["l"' if isinstance(value, list) else '["t"'
            self._spend(6)
            return ",".join([tag, *[self.text(item, depth + 1) for item in value]]) + "]"
        if isinstance(value, (set, frozenset)):
            self._spend(6)
            return ",".join(['["s"', *sorted([self.text(item, depth + 1) for item in value])]) + "]"
        if isinstance(value, dict):
            self._spend(6)
            pairs = [(self.text(key, depth + 1), self.text(item, depth + 1)) for key, item in value.items()]
            return ",".join(['["d"', *[f"[{key},{item}]" for key, item in sorted(pairs)]]) + "]"
        text = self._scalar(value)
        self._spend(len(text) + 1)
        return text

    def _scalar(self, value: Any) -> str:
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            value = int(value)
            if -(1 << 63) < value < (1 << 63):
                return int.__repr__(value)
            if value.bit_length() // 4 > self.max_bytes:
                raise TooLarge(f"the returned value is larger than {self.max_bytes} bytes")
            return f'["i","{value:#x}"]'
        if isinstance(value, float):
            return _float_text(float(value))
        if isinstance(value, str):
            if len(value) > self.max_bytes:
                raise TooLarge(f"the returned value is larger than {self.max_bytes} bytes")
            return json.dumps(str(value))
        if isinstance(value, complex):
            return f'["c",{_float_text(value.real)},{_float_text(value.imag)}]'
        if isinstance(value, bytes):
            if len(value) > self.max_bytes:
                raise TooLarge(f"the returned value is larger than {self.max_bytes} bytes")
            return f'["b","{value.hex()}"]'
        raise NoEncoding(f"returned a {type(value).__name__}")

    def _spend(self, size: int) -> None:
        self.spent += size
        # separators and brackets are counted roughly here; the exact length is checked once at the end
        if self.spent > 2 * self.max_bytes + 64:
            raise TooLarge(f"the returned value is larger than {self.max_bytes} bytes")


def _float_text(value: float) -> str:
    if value - value == 0.0:
        return float.__repr__(value)
    return '["f","nan"]' if value != value else '["f","inf"]' if value > 0 else '["f","-inf"]'


def decode_value(text: str) -> Any:
    """The value that `encode_value` encoded; sets come back as frozensets. Raises ValueError for any other text."""
    try:
        return _value(json.loads(text, parse_constant=_no_constant))
    except (KeyError, IndexError, TypeError, RecursionError) as error:
        raise ValueError(f"not an encoded value: {text[:80]!r}") from error


def is_canonical(text: str) -> bool:
    """Whether `text` is what `encode_value` gives for some value. Safe on any text: it takes time in proportion to its
    length."""
    try:
        value = _value(json.loads(text, parse_constant=_no_constant, parse_int=_short_int))
        return encode_value(value, len(text)) == text
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _hashed(items: list[Any]) -> list[Any]:
    """The items, none too many of which have the same hash."""
    alike: dict[int, int] = {}
    for item in items:
        number = hash(item)
        alike[number] = alike.get(number, 0) + 1
    if max(alike.values(), default=0) > MAX_ALIKE:
        raise ValueError(f"not an encoded value: more than {MAX_ALIKE} elements of a set have the same hash")
    return items


def _short_int(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("not an encoded value: an integer too long for plain JSON")
    return int(digits)


def _no_constant(name: str) -> Any:
    raise ValueError(f"not an encoded value: it holds {name}")


def _value(node: Any) -> Any:
    if not isinstance(node, list):
        if isinstance(node, dict):
            raise ValueError("not an encoded value: it holds a JSON object")
        return node
    tag, items = node[0], node[1:]
    if tag == "l":
        return [_value(item) for item in items]
    if tag == "t":
        return tuple(_value(item) for item in items)
    if tag == "s":
        return frozenset(_hashed([_value(item) for item in items]))
    if tag == "d":
        return dict(zip(_hashed([_value(key) for key, _ in items]), [_value(item) for _, item in items], strict=True))
    if tag == "i":
        return int(items[0], 16)
    if tag == "f":
        return float(items[0])
    if tag == "c":
        return complex(_value(items[0]), _value(items[1]))
    if tag == "b":
        return bytes.fromhex(items[0])
    raise ValueError(f"not an encoded value: unknown tag {tag!r}")
