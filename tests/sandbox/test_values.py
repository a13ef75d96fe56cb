"""The encoding of values: hand-written texts, round trips, bounds, and functions that return them."""

import math
import sys
from collections import Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erpo_jax.sandbox import Outcome, Sandbox, decode_value, encode_value
from erpo_jax.sandbox.values import MAX_ALIKE, MAX_DEPTH, NoEncoding, TooLarge, is_canonical

Point = namedtuple("Point", "x y")


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-12, "-12"),
        (2**63 - 1, "9223372036854775807"),
        (2**63, '["i","0x8000000000000000"]'),
        (-(2**63), '["i","-0x8000000000000000"]'),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (math.inf, '["f","inf"]'),
        (-math.inf, '["f","-inf"]'),
        (math.nan, '["f","nan"]'),
        ("", '""'),
        ('a"é\n\udc80', '"a\\"\\u00e9\\n\\udc80"'),
        ([], '["l"]'),
        ((1, "1"), '["t",1,"1"]'),
        ([[1], (2,)], '["l",["l",1],["t",2]]'),
        ({3, 10, 2}, '["s",10,2,3]'),
        (frozenset({(1, 2)}), '["s",["t",1,2]]'),
        ({}, '["d"]'),
        ({"b": 1, "a": [2]}, '["d",["a",["l",2]],["b",1]]'),
        ({(0, 1): None, 2: {}}, '["d",[2,["d"]],[["t",0,1],null]]'),
        (Point(1, 2), '["t",1,2]'),
        (Counter("aab"), '["d",["a",2],["b",1]]'),
        (defaultdict(int, {1: 2}), '["d",[1,2]]'),
        (OrderedDict(b=1, a=2), '["d",["a",2],["b",1]]'),
        (Colour.RED, "1"),
        (1 + 2j, '["c",1.0,2.0]'),
        (b"\x00\xff", '["b","00ff"]'),
    ],
)
def test_encodings(value: Any, text: str) -> None:
    assert encode_value(value) == text
    assert is_canonical(text)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**30, 10**40)
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text() | st.tuples(st.integers()), inner)
        | st.frozensets(st.integers() | st.text() | st.tuples(st.floats()))
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_round_trip(value: Any) -> None:
    text = encode_value(value)
    assert text.isascii()
    assert is_canonical(text)
    again = decode_value(text)
    assert encode_value(again) == text
    if "nan" not in text:
        assert again == value
        assert type(again) is type(value)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30))
def test_other_text_is_refused(text: str) -> None:
    try:
        value = decode_value(text)
    except ValueError:
        assert not is_canonical(text)
    else:
        assert not is_canonical(text) or encode_value(value) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        '["x",1]',
        "{}",
        '["l", 1]',
        "NaN",
        "Infinity",
        '["s",2,1]',
        '["s",1,1]',
        '["d",[1,2],[1,3]]',
        '["d",[["l"],1]]',
        "1e999",
        "01",
        '["i","0x1"]',
        '["f","1.0"]',
        "9" * 30,
        '["c",1,2]',
        "[" * 100_000,
    ],
)
def test_forged_encodings(text: str) -> None:
    assert not is_canonical(text)


@pytest.mark.parametrize("kind", [set, dict.fromkeys])
def test_values_that_take_the_square_of_their_size_to_put_together(kind: Callable[[Any], Any]) -> None:
    alike = [number * sys.hash_info.modulus for number in range(MAX_ALIKE + 1)]
    few, many = encode_value(kind(alike[:-1])), encode_value(kind(alike))
    assert decode_value(few) == kind(alike[:-1])
    assert not is_canonical(many)
    with pytest.raises(ValueError, match="more than 1000 elements of a set have the same hash"):
        decode_value(many)


def test_bounds() -> None:
    with pytest.raises(TooLarge):
        encode_value("x" * 99, 100)
    assert len(encode_value("x" * 98, 100)) == 100
    for large in ([0] * 1000, {n: n for n in range(1000)}, set(range(1000)), 10**1000, b"x" * 1000, "é" * 60):
        with pytest.raises(TooLarge):
            encode_value(large, 100)
    loop: list[Any] = [1, 2]
    loop.append(loop)
    with pytest.raises(NoEncoding, match=f"nested deeper than {MAX_DEPTH} levels"):
        encode_value(loop)
    loop[:] = [loop, loop]
    with pytest.raises((TooLarge, NoEncoding)):
        encode_value(loop)
    for other, said in (
        (object(), "returned a object"),
        (range(3), "returned a range"),
        (iter([]), "returned a list_iterator"),
        ([{1: len}], "returned a builtin_function_or_method"),  # not print, which Ray replaces in this process
    ):
        with pytest.raises(NoEncoding, match=said):
            encode_value(other)


@pytest.mark.parametrize(
    ("body", "verdict", "output", "detail"),
    [
        ("return x", "ok", '["l",1,"a",null,2.5]', ""),
        ("return {1: (x, {True}), 'k': -0.0}", "ok", '["d",["k",-0.0],[1,["t",["l",1,"a",null,2.5],["s",true]]]]', ""),
        ("return (y for y in x)", "error", None, "returned a generator"),
        ("return Solve()", "error", None, "returned a Solve"),
        ("return len", "error", None, "returned a builtin_function_or_method"),
        ("return 'z' * 10**6", "output_limit", None, "the returned value is larger than 100000 bytes"),
        ("return [0] * 10**7", "output_limit", None, "the returned value is larger than 100000 bytes"),
        ("print('z' * 10**6)", "output_limit", None, "more than 100000 bytes of output"),
        ("print('seen by nobody')", "ok", "null", ""),
        ("raise KeyError(3)", "error", None, "KeyError: 3 (line 4)"),
        ("import sys; sys.exit(0)", "error", None, "the program ended before the function returned"),
        ("x.clear(); return x", "ok", '["l"]', ""),
        ("return input()", "error", None, "EOFError: EOF when reading a line (line 4)"),
    ],
)
def test_functions_return_them(
    sandbox: Sandbox, run_call: Callable[..., Outcome], body: str, verdict: str, output: str | None, detail: str
) -> None:
    program = f"class Solve:\n    pass\ndef solve(x):\n    {body}"
    outcome = run_call(sandbox, program, '[[1, "a", null, 2.5]]', output_bytes=100_000)
    assert (outcome.verdict, outcome.output, outcome.detail) == (verdict, output, detail)


def test_an_instance_of_solution_is_made_for_each_call(sandbox: Sandbox, run_call: Callable[..., Outcome]) -> None:
    program = "class Solution:\n    def solve(self, a, b=2, *rest): return [a, b, list(rest), type(self).__name__]"
    assert run_call(sandbox, program, "[1, 5, 6, 7]").output == '["l",1,5,["l",6,7],"Solution"]'
    assert run_call(sandbox, program, "[]").detail.startswith(
        "TypeError: Solution.solve() missing 1 required positional argument"
    )
    static = "class Solution:\n    @staticmethod\n    def solve(a): return a\ndef other(a): return -a"
    assert run_call(sandbox, static, "[1]").output == "1"
    assert run_call(sandbox, static, "[1]", "other").output == "-1"
