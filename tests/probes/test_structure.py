"""Fingerprints: what counts as the same structure, and what does not."""

import pytest

from erpo_jax.probes import fingerprint

SAME = [
    ("stdin", "5 9 7 8 6\n", "2 8 5 6 3\n"),
    ("stdin", "abca\n", "xyzx\n"),
    ("stdin", "1 2\n", "2 3\n"),
    ("function", "[[5, 4, 6]]", "[[9, 5, 8]]"),
    ("function", '["hello", [1, 2]]', '["jello", [2, 3]]'),
]
DIFFERENT = [
    ("stdin", "1 2 3\n", "1 2 3 4 5\n"),  # length
    ("stdin", "1 2 3\n", "3 2 1\n"),  # order
    ("stdin", "1 2 3\n", "1 2 2\n"),  # repeats
    ("stdin", "1 2 3\n", "-1 2 3\n"),  # sign
    ("stdin", "1 2 3\n", "0 2 3\n"),  # zero
    ("stdin", "1 2 3\n", "1 2 300\n"),  # magnitude
    ("stdin", "1 2 3\n", "1.5 2 3\n"),  # type
    ("stdin", "1 2 3\n", "a b c\n"),
    ("stdin", "1 2 3\n", "1 2\n3\n"),  # lines
    ("stdin", "7\n", "8\n"),  # a number on its own
    ("stdin", "1234567\n", "7654321\n"),  # a long one: the order of its digits
    ("stdin", "5 9\n", "9 5\n"),
    ("stdin", "abc\n", "aBc\n"),
    ("stdin", "abca\n", "abba\n"),  # a palindrome
    ("function", "[[]]", "[[0]]"),
    ("function", "[[], 1]", "[[], null]"),
    ("function", "[true]", "[false]"),
    ("function", "[[[1], [2]]]", "[[[1, 2]]]"),
    ("function", '[{"a": 1}]', '[{"a": "x"}]'),
    ("function", '[""]', '["a"]'),
]


@pytest.mark.parametrize(("mode", "left", "right"), SAME)
def test_same(mode, left, right):
    assert fingerprint(left, mode) == fingerprint(right, mode)


@pytest.mark.parametrize(("mode", "left", "right"), DIFFERENT)
def test_different(mode, left, right):
    assert fingerprint(left, mode) != fingerprint(right, mode)


def test_many_lines_are_a_list_of_cases():
    cases = ["1 2", "3 3", "5 4", "7 9", "2 2", "8 1", "6 6"]
    text = "7\n" + "\n".join(cases) + "\n"
    assert fingerprint(text, "stdin") == fingerprint("7\n" + "\n".join(cases[::-1]) + "\n", "stdin")
    assert fingerprint(text, "stdin") != fingerprint(text.replace("3 3", "3 -3"), "stdin")


def test_values_that_strain_numbers():
    for text in ("9" * 3000, "1e999", "-" + "9" * 400, "1e-999", "0.0"):
        assert fingerprint(text + "\n", "stdin")
