"""The rules by which an output counts as the expected one: a table for each, from the benchmarks' own graders."""

import math
from random import Random

import pytest

from erpo_jax.evaluate.rules import RULES
from erpo_jax.sandbox import encode_value
from tests.evaluate import published


@pytest.mark.parametrize(
    ("expected", "actual", "key", "livecodebench", "codecontests", "apps", "tokens"),
    [
        ("1 2\n3\n", "1 2\n3", True, True, True, True, True),
        ("1 2\n3\n", "1 2 3\n", False, False, True, False, True),
        ("2.50\n", "2.5\n", True, True, True, True, False),
        ("0.333333333333", "0.333333", True, False, True, True, False),
        ("0.5", "0.50002", False, False, False, True, False),  # apps: 3 digits
        ("0.5", "0.500009", False, False, True, True, False),  # 9e-6 apart
        ("NO YES YES", "YES NO YES", False, False, False, True, False),  # apps: sets of tokens
        ("1 2\n3 4", "3 4\n2 1\n1 2", False, False, False, True, False),  # apps: and sets of lines
        ("9007199254740993", "9007199254740992", False, False, True, True, False),  # doubles there
        ("Yes", "YES", False, False, True, False, False),
        ("a  b", "a b", True, False, True, True, True),
        ("1  2", "1 2", True, True, True, True, True),
        ("1\n\n2", "1\n2", False, False, True, True, True),
        ("sNaN", "1", False, False, False, False, False),
        ("", "\n \n", True, True, True, True, True),
        ("1", "", False, False, False, False, False),
        ("1", "1 1", False, False, False, True, False),  # apps: a set of tokens
    ],
)
def test_texts(expected, actual, key, livecodebench, codecontests, apps, tokens):
    assert RULES["key"].texts(expected, actual) is key
    assert RULES["livecodebench"].texts(expected, actual) is livecodebench
    assert RULES["codecontests"].texts(expected, actual) is codecontests
    assert RULES["apps"].texts(expected, actual) is apps
    assert RULES["tokens"].texts(expected, actual) is tokens


@pytest.mark.parametrize(
    ("expected", "actual", "passes"),
    [
        ("1e-6", "0", True),
        ("1e-5", "0", False),  # less than 1e-5, not as much
        ("1 x", "1.000001 X", True),
        ("1 x", "1.000001 y", False),
        ("nan x", "nan x", True),  # equal texts
        ("nan 1", "nan 1.0", False),  # else numbers, and nan is near nothing
        ("inf", "Infinity", False),
        ("1_0", "10", False),  # Python's own digits
        ("Ä", "ä", False),  # ASCII alone is made lower case
        ("a\fb", "a b", False),  # a form feed does not separate
        ("a\vb\tc", "a b c", True),
    ],
)
def test_codecontests(expected, actual, passes):
    assert RULES["codecontests"].texts(expected, actual) is passes


@pytest.mark.parametrize(
    ("expected", "actual", "passes"),
    [
        ("1 \n 2", "1\n2", True),  # lines stripped
        ("1.0\n2.0", "1.000001\n2", True),  # allclose over lines
        ("1.0\n2.0", "2.0\n1.0", True),  # and at last sets
        ("1.0 2.0", "1.00001 2.00001", True),  # rounded to 3 digits
        ("1.0 2.0", "1.001 2.0", False),
        ("inf", "1", False),
        ("inf\n1", "inf\n1.000000001", True),
        ("1 a", "1.0 a", False),  # rounding needs numbers throughout
        ("1\n2", "1 2", False),  # a line is a set of its own
        ("3\n3\n3", "3", True),
    ],
)
def test_apps(expected, actual, passes):
    assert RULES["apps"].texts(expected, actual) is passes


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


@pytest.mark.parametrize(
    ("expected", "value", "passes"),
    [
        ("3", 3, True),
        ("[3]", 3, True),  # a one-element list that holds the value
        ("[3, 4]", 3, True),  # their rule looks at the first element whatever follows
        ("[3, 4]", 4, False),
        ("[1, 2]", (1, 2), True),
        ("[[1, 2]]", (1, 2), True),
        ("[[[1, 2], [3, 4]]]", [(1, 2), (3, 4)], True),
        ("[[1, 2], [3, 4]]", [(1, 2), (3, 4)], False),  # tuples inside count only one level up
        ('{"1": 2}', {1: 2}, True),  # JSON made texts of integer keys
        ('[{"1": 2}]', {1: 2}, True),
        ('{"a": 2}', {"a": 2}, True),
        ('{"1": 2}', {"1": 2}, False),
        ("[]", [], True),
        ("0.1", 0.1 + 1e-12, False),
        ("[null]", None, True),
        ("true", 1, True),
        ("NaN", math.nan, False),
    ],
)
def test_apps_values(expected, value, passes):
    assert RULES["apps"].values(expected, encode_value(value)) is passes


PIECES = ("1", "2", "1.0", "1.00001", "1.000001", "0.5", "0.5004", "nan", "NaN", "inf", "Infinity", "sNaN", "1e400",
          "YES", "Yes", "é", "É", "1_0", "01", "1.", "x1", "9007199254740993", "9007199254740992", " ", "\n", "\r\n",
          "\t", "\v", "\f", "\u2028", "")  # fmt: skip


def changed(random, pieces):
    """The pieces with up to two of them replaced, left out or put in, or in another order."""
    found = list(pieces)
    for _ in range(random.randint(0, 2)):
        place = random.randint(0, len(found))
        kind = random.randint(0, 3)
        if kind == 0:
            random.shuffle(found)
        else:
            found[place : place + kind % 2] = [random.choice(PIECES) + " "] if kind != 3 else []
    return found


@pytest.mark.parametrize("rule", ["apps", "codecontests", "livecodebench"])
def test_a_second_writing_of_the_published_comparison_agrees(rule):
    random, verdicts = Random(0), []
    for _ in range(10_000):
        pieces = [random.choice(PIECES) + random.choice(("", " ", "\n")) for _ in range(random.randint(0, 5))]
        expected, actual = "".join(pieces), "".join(changed(random, pieces))
        verdicts.append(getattr(published, rule)(actual, expected))
        assert RULES[rule].texts(expected, actual) is bool(verdicts[-1]), (expected, actual)
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.8
