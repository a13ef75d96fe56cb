"""The rules by which an output counts as the expected one."""

import pytest

from erpo_jax.evaluate.rules import RULES


@pytest.mark.parametrize(
    ("expected", "actual", "key", "livecodebench"),
    [
        ("1 2\n3\n", "1 2\n3", True, True),
        ("1 2\n3\n", "1 2 3\n", False, False),
        ("2.50\n", "2.5\n", True, True),
        ("0.333333333333", "0.333333", True, False),
        ("NO YES YES", "YES NO YES", False, False),
        ("9007199254740993", "9007199254740992", False, False),
        ("Yes", "YES", False, False),
        ("a  b", "a b", True, False),
        ("1  2", "1 2", True, True),
        ("1\n\n2", "1\n2", False, False),
        ("sNaN", "1", False, False),
        ("", "\n \n", True, True),
    ],
)
def test_texts(expected, actual, key, livecodebench):
    assert RULES["key"].texts(expected, actual) is key
    assert RULES["livecodebench"].texts(expected, actual) is livecodebench


@pytest.mark.parametrize(
    ("expected", "encoded", "key", "livecodebench"),
    [
        ("[1, 2]", '["l",1,2]', True, True),
        ("[1, 2]", '["t",1,2]', True, True),
        ("[[1, 2]]", '["l",["t",1,2]]', True, False),
        ("0.333333333333", "0.3333333334", True, False),
        ("true", "1", False, True),
        ('"1"', "1", False, False),
        ("[2, 1]", '["l",1,2]', False, False),
    ],
)
def test_values(expected, encoded, key, livecodebench):
    assert RULES["key"].values(expected, encoded) is key
    assert RULES["livecodebench"].values(expected, encoded) is livecodebench
