"""Output equality: CASES O1 and O2, and the same on values."""

import decimal
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erpo_jax.reward import has_verdict, json_key, outcome_key, output_key, value_key
from erpo_jax.sandbox.outcome import Outcome
from erpo_jax.sandbox.values import encode_value

SAME = [
    ("0.333333", "0.333333333333"),
    ("2.50", "2.5"),
    ("2.0", "2"),
    ("2.", "2"),
    (".5", "0.5"),
    ("-0", "0"),
    ("-0.0", "0"),
    ("007", "7"),
    ("+5", "5"),
    ("1e5", "100000"),
    ("1E-3", "0.001"),
    ("1234567.0", "1234571.2"),  # six digits: 1.23457e6
    ("a  b \nc\t\n", "a b\nc"),
    ("1\r\n2\r\n", "1\n2"),
    ("x\n\n\n", "x"),
    ("", "\n \n"),
    (str(10**400), "1e400"),
]
DIFFERENT = [
    ("NO YES YES", "YES NO YES"),
    ("1\n2\n3", "1\n2"),
    ("1 2", "1\n2"),
    ("\nx", "x"),
    ("9007199254740993", "9007199254740992"),
    ("1234567", "1234571"),
    ("1234567.0", "1234567"),  # a number beyond six digits is not that integer
    ("Yes", "yes"),
    ("nan", "NaN"),
    ("inf", "-inf"),
    ("0.12345", "0.12346"),
    ("-1", "1"),
    ("1_000", "1000"),
    ("0x10", "16"),
    ("1e-400", "0"),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_same(left: str, right: str):
    assert output_key(left) == output_key(right)


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_different(left: str, right: str):
    assert output_key(left) != output_key(right)


def test_integers_longer_than_the_interpreter_reads():
    long = "9" * 5000
    assert output_key(long) == output_key("0" + long)
    assert output_key(long) != output_key(long[:-1] + "8")


@given(st.integers(), st.integers())
def test_integers_are_equal_exactly_when_they_are(left: int, right: int):
    assert (output_key(str(left)) == output_key(str(right))) == (left == right)


@given(st.text(st.characters(exclude_characters="\n"), max_size=8), st.integers(0, 3))
def test_blanks_around_lines_never_matter(line: str, blank_lines: int):
    assert output_key(f"  {line}\t" + "\n" * blank_lines) == output_key(line)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([1, 2], (1, 2)),
        (2, 2.0),
        (1 / 3, 0.333333),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1, 2}, {2, 1}),
        (0.0, -0.0),
        (10**25, 10**25),
        (float("nan"), float("nan")),
        (((1,),), [[1.0]]),
    ],
)
def test_same_values(left: object, right: object):
    assert value_key(encode_value(left)) == value_key(encode_value(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (2**53 + 1, 2**53),
        (10**25, 10**25 + 1),
        (True, 1),
        ("2", 2),
        (None, 0),
        ([], None),
        ([1, 2], [2, 1]),
        ([1], {1}),
        ("Yes", "yes"),
        ({1: 2}, {"1": 2}),
        (1, 1 + 1j),
        ("ab", b"ab"),
        ("a ", "a"),
        ([[1], [2]], [[1, 2]]),
    ],
)
def test_different_values(left: object, right: object):
    assert value_key(encode_value(left)) != value_key(encode_value(right))


def test_values_longer_than_the_interpreter_reads():
    for digits in ("1" + "0" * 6000, "-7" + "31" * 5000, "8" * 40_001):
        value = decimal.Decimal(digits)  # without the interpreter's limit on digits
        assert value_key(encode_value(int(value))) == json_key(digits)
    assert value_key(encode_value(10**6000 + 1)) != json_key("1" + "0" * 6000)


def test_a_broken_encoding_is_an_error():
    for text in ("[]", '["z",1]', "{", '["d",[1]]'):
        with pytest.raises(ValueError, match=r"encoded|Expecting|unpack|property"):
            value_key(text)


def test_only_ok_is_an_output():
    assert outcome_key(Outcome("ok", "1 \n"), "stdin") == output_key("1")
    assert outcome_key(Outcome("ok", '["t",1]'), "function") == value_key('["l",1]')
    for verdict in ("timeout", "memory", "output_limit", "error", "no_program"):
        assert outcome_key(Outcome(verdict, "1"), "stdin") is None
        assert has_verdict([Outcome("ok", "1"), Outcome(verdict)])
    assert not has_verdict([Outcome("ok", "1"), Outcome("sandbox_error")])


def test_real_outputs(shared_data):
    """On the real tests of 53 problems a key is equal to that of the text reformatted, and outputs stay apart."""
    with gzip.open(shared_data / "data" / "codecontests_stdin.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    merged = apart = 0
    for row in rows:
        outputs = [test["output"] for test in row["public_tests"] + row["hidden_tests"]]
        for text in outputs:
            assert output_key(text) == output_key(
                "\n".join(f" {line} " for line in text.strip("\n").split("\n")) + "\n\n"
            )
        texts = {tuple(tuple(line.split()) for line in text.rstrip().split("\n")) for text in outputs}
        merged += len(texts) - len({output_key(text) for text in outputs})
        apart += len(texts)
    assert apart > 1500
    assert merged == 0  # integers and words alone: no two different outputs fall together
