"""The publishers' comparisons of printed texts, written a second time and plainly from their sources: what
`erpo_jax.evaluate.rules` is held against. Each says whether `printed` counts as `expected`."""

import re
from decimal import Decimal, InvalidOperation

import numpy as np


def apps(printed, expected):
    """APPS's testing_util.py, standard input: the first that holds. A program's output is a list of lines."""
    output = printed.splitlines()
    if "\n".join(output).strip() == expected.strip():
        return True
    if "\n".join(line.strip() for line in output).strip() == expected.strip():
        return True
    wanted = [line.strip() for line in expected.split("\n") if line]
    output = [line for line in output if line]
    if output == wanted:
        return True
    try:
        ours, theirs = [float(line) for line in output], [float(line) for line in wanted]
        if len(ours) == len(theirs) and np.allclose(ours, theirs):
            return True
    except ValueError:
        pass
    return _sets([line.split() for line in output if line.split()], [line.split() for line in wanted])


def taco_repository(printed, expected):
    """The same function as TACO's repository has it now: the output stays one text, so that the steps made for lines
    walk over its characters, and the last one over its tokens."""
    if printed.strip() == expected.strip():
        return True
    wanted = [line.strip() for line in expected.split("\n") if line]
    try:
        ours, theirs = [float(letter) for letter in printed], [float(line) for line in wanted]
        if len(ours) == len(theirs) and np.allclose(ours, theirs):
            return True
    except ValueError:
        pass
    return _sets(printed.split(), [line.split() for line in wanted])


def _sets(lines, others):
    """Sets of lines as sets of tokens, as they stand or rounded to 3 digits."""
    if {frozenset(line) for line in lines} == {frozenset(line) for line in others}:
        return True
    try:
        return {frozenset(round(float(token), 3) for token in line) for line in lines} == {
            frozenset(round(float(token), 3) for token in line) for line in others
        }
    except (ValueError, OverflowError):
        return False


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity|nan)", re.ASCII)


def codecontests(printed, expected):
    """CodeContests' tester_sandboxer.cc: tokens in lower case, each equal or a number less than 1e-5 away."""
    ours, theirs = (
        [token for token in re.split(r"[ \n\t\r\v]", re.sub("[A-Z]+", lambda found: found[0].lower(), text)) if token]
        for text in (printed, expected)
    )
    if ours == theirs:
        return True
    if len(ours) != len(theirs):
        return False
    for one, other in zip(ours, theirs, strict=True):
        if _NUMBER.fullmatch(one.strip("\f")) and _NUMBER.fullmatch(other.strip("\f")):
            if not abs(float(one) - float(other)) < 1e-5:  # nan is near nothing
                return False
        elif one != other:
            return False
    return True


def livecodebench(printed, expected):
    """lcb_runner's testing_util.py, standard input: as many stripped lines, each equal or equal decimals."""
    ours, theirs = ([line.strip() for line in text.strip().split("\n")] for text in (printed, expected))
    if len(ours) != len(theirs):
        return False
    for one, other in zip(ours, theirs, strict=True):
        if one == other:
            continue
        try:
            if [Decimal(token) for token in one.split()] != [Decimal(token) for token in other.split()]:
                return False
        except InvalidOperation:
            return False
    return True
