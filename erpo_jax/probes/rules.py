"""Limits on inputs as rules that an input obeys or breaks, made from what the statement says.

A rule is kept only when every example obeys it and one at least shows it, so a sentence that was misread falls away by
itself. A limit whose variable cannot be placed in the input joins the others into one range that all numbers share.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from erpo_jax.probes.form import layout_of
from erpo_jax.probes.signature import Signature
from erpo_jax.probes.statement import Bound, Statement, read_statement
from erpo_jax.probes.structure import is_number, read_lines, read_scalar
from erpo_jax.problems import Problem

Parts = Callable[[str], Sequence[Any]]


@dataclass(frozen=True)
class Rule:
    """One limit: what it says, the parts of an input (in canonical text) that it is about, and what each must be."""

    says: str
    parts: Parts
    allows: Callable[[Any], bool]
    needs_example: bool = False

    def holds(self, text: str) -> bool:
        """True when the input obeys the limit."""
        return all(map(self.allows, self.parts(text)))

    def is_shown_by(self, examples: Sequence[str]) -> bool:
        """True when every example obeys it and one has something it is about. Without examples plain limits stand."""
        if not examples:
            return not self.needs_example
        return all(map(self.holds, examples)) and any(self.parts(text) for text in examples)


@dataclass(frozen=True)
class Rules:
    """The limits of one problem, and the range of its numbers (infinite when unknown) for whoever makes new ones."""

    rules: tuple[Rule, ...] = ()
    low: float = -math.inf
    high: float = math.inf

    def obeyed(self, text: str) -> bool:
        """True when the input breaks none of the rules."""
        return all(rule.holds(text) for rule in self.rules)


def read_rules(problem: Problem) -> Rules:
    """The limits that the statement and `input_constraints` give and that the examples show."""
    said = read_statement(f"{problem.statement}\n{problem.input_constraints or ''}")
    parts = _argument_parts() if problem.mode == "function" else _text_parts(problem)
    low, high = _span([bound for bound in said.bounds if not bound.length])
    everything = Rule(f"numbers from {low:g} to {high:g}", parts.numbers, _within(low, high))
    rules = [everything] if math.isfinite(low) and math.isfinite(high) else []
    rules += _length_rules(said, parts, problem)
    rules += _argument_rules(said, problem) if problem.mode == "function" else _first_line_rules(said)
    rules += _text_rules(said, parts)
    examples = [test.input for test in problem.public_tests]
    kept = tuple({rule.says: rule for rule in rules if rule.is_shown_by(examples)}.values())
    return Rules(kept, low, high) if everything in kept else Rules(kept)


# Looking into inputs.


@dataclass(frozen=True)
class _Parts:
    """The parts of an input that rules are about.

    long_lists: lists that cannot be a row of fields. lone_number: the digits of an input that is one number.
    """

    numbers: Parts
    texts: Parts
    lists: Parts
    long_lists: Parts
    lone_number: Parts


def _argument_parts() -> _Parts:
    def lists(text: str) -> list[Any]:
        return [argument for argument in json.loads(text) if isinstance(argument, list)]

    return _Parts(
        numbers=lambda text: [value for value in _leaves(json.loads(text)) if is_number(value)],
        texts=lambda text: [value for value in _leaves(json.loads(text)) if isinstance(value, str)],
        lists=lists,
        long_lists=lists,
        lone_number=lambda text: [],
    )


def _text_parts(problem: Problem) -> _Parts:
    layout = layout_of(problem)

    def scalars(text: str) -> list[int | float | str]:
        return [read_scalar(token) for line in read_lines(text) for token in line]

    def lists(text: str) -> list[list[str]]:
        lines = read_lines(text)
        return layout.lists(lines) if layout is not None else [line for line in lines if len(line) > 1]

    return _Parts(
        numbers=lambda text: [value for value in scalars(text) if not isinstance(value, str)],
        texts=lambda text: [value for value in scalars(text) if isinstance(value, str)],
        lists=lists,
        long_lists=lambda text: [line for line in lists(text) if len(line) > 3],
        lone_number=lambda text: [text.strip()] if text.strip().isdigit() else [],
    )


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, dict)):
        return [leaf for item in (value if isinstance(value, list) else value.values()) for leaf in _leaves(item)]
    return [value]


# From what is said to rules.


def _span(bounds: Sequence[Bound]) -> tuple[float, float]:
    return min((b.low for b in bounds), default=-math.inf), max((b.high for b in bounds), default=math.inf)


def _within(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: low <= value <= high


def _sized(low: float, high: float) -> Callable[[Any], bool]:
    return lambda part: low <= len(part) <= high


def _length_rules(said: Statement, parts: _Parts, problem: Problem) -> list[Rule]:
    """Lengths that no variable names, or that a variable counts on a line of its own."""
    rules = []
    for kind, of in (("items", parts.lists), ("characters", parts.texts), ("digits", parts.lone_number)):
        wanted = (kind.replace("digits", "characters"), "any")
        known = [bound for bound in said.bounds if bound.name is None and bound.length in wanted]
        # `n integers` speaks of a line; what an argument's items are is said of the argument.
        if known and not (kind == "items" and problem.mode == "function"):
            low, high = _span(known)
            rules.append(Rule(f"{low:g} to {high:g} {kind}", of, _sized(low, high), needs_example=True))
    return rules


def _first_line_rules(said: Statement) -> list[Rule]:
    rules = []
    for bound in said.bounds:
        if bound.name in said.first_line and not bound.length:
            place = _of_first_line(said.first_line.index(bound.name))
            says = f"{bound.name} from {bound.low:g} to {bound.high:g}"
            rules.append(Rule(says, place, _within(bound.low, bound.high)))
    return rules


def _of_first_line(place: int) -> Parts:
    return lambda text: [
        value for value in map(read_scalar, read_lines(text)[0][place : place + 1]) if is_number(value)
    ]


def _argument_rules(said: Statement, problem: Problem) -> list[Rule]:
    """`nums[i]`, `nums.length`, `grid[i].length`, `n`: a range of an argument's parts at that depth."""
    names = Signature.of(problem).names
    rules = []
    for bound in said.bounds:
        base, *indices = (bound.name or "").split("[")
        if base in names:
            parts = _of_argument(names.index(base), len(indices), bound.length != "")
            says = f"{'length of ' if bound.length else ''}{bound.name} from {bound.low:g} to {bound.high:g}"
            rules.append(Rule(says, parts, (_sized if bound.length else _within)(bound.low, bound.high)))
    return rules


def _of_argument(place: int, depth: int, sized: bool) -> Parts:
    def parts(text: str) -> list[Any]:
        values = json.loads(text)[place : place + 1]
        for _ in range(depth):
            values = [item for value in values if isinstance(value, list) for item in value]
        return [value for value in values if (isinstance(value, (list, str)) if sized else is_number(value))]

    return parts


def _text_rules(said: Statement, parts: _Parts) -> list[Rule]:
    rules = []
    if said.letters:
        tests = [test for _, test in said.letters]
        says = "texts of " + ", ".join(says for says, _ in said.letters)
        rules.append(Rule(says, parts.texts, lambda part: all(any(test(c) for test in tests) for c in part), True))
    if said.distinct:
        rules.append(Rule("distinct items", parts.long_lists, _distinct, True))
    if said.rising:
        rules.append(Rule("rising order", parts.long_lists, _rising, True))
    return rules


def _distinct(items: Sequence[Any]) -> bool:
    marks = [json.dumps(item) for item in items]
    return len(set(marks)) == len(marks)


def _rising(items: Sequence[Any]) -> bool:
    values: list[Any] = [read_scalar(item) if isinstance(item, str) else item for item in items]
    return all(map(is_number, values)) and all(a <= b for a, b in pairwise(values))
