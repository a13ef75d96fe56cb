"""New inputs out of old ones by typed mutation: it fills what the policy left open.

A mutation keeps the form: types, fixed fields, rectangular grids, and counts, which are set anew. It looks for what
testers look for: emptier and longer, all equal, sorted, reversed, repeated, zero, negated, at the bounds. What it makes
is judged like any other proposal. Left out: values far larger than any example's, because a probe should run in every
candidate's time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from erpo_jax.probes.form import Form, Layout, TextForm
from erpo_jax.probes.structure import is_number, read_lines, read_scalar

_LONGEST = 24


@dataclass(frozen=True)
class Palette:
    """What new values are made of: a range of numbers, and the characters of texts."""

    low: float
    high: float
    characters: str

    @staticmethod
    def of(texts: Sequence[str], low: float, high: float) -> Palette:
        """From inputs that exist and the bounds the statement gives (infinite where it gives none)."""
        numbers = [read_scalar(found) for text in texts for found in re.findall(r"-?\d+(?:\.\d+)?", text)]
        largest = max((abs(value) for value in numbers if not isinstance(value, str)), default=10)
        letters = {c for text in texts for word in re.findall(r"[^\W\d_]+", text) for c in word}
        reach = float(min(10 * largest + 10, 10**12))
        negative = any(value < 0 for value in numbers if not isinstance(value, str))
        floor = -reach if negative or math.isfinite(low) else 0.0
        return Palette(max(low, floor), min(high, reach), "".join(sorted(letters)) or "ab")

    def clip(self, value: int | float) -> int | float:
        """The nearest value in range."""
        bound = self.low if value < self.low else self.high if value > self.high else value
        return int(bound) if isinstance(value, int) else bound


class Mutator:
    """Mutations of the inputs of one problem."""

    def __init__(self, form: Form, palette: Palette, rng: Random):
        self._layout = form.layout if isinstance(form, TextForm) else None
        self._is_text = isinstance(form, TextForm)
        self._palette = palette
        self._rng = rng

    def mutate(self, text: str) -> str:
        """The input after one to three mutations; it may not fit the form, which the caller checks."""
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            text = self._of_text(text) if self._is_text else self._of_arguments(text)
        return text

    # Function mode.

    def _of_arguments(self, text: str) -> str:
        arguments = json.loads(text)
        if arguments:
            index = self._rng.randrange(len(arguments))
            arguments[index] = self._value(arguments[index])
        return json.dumps(arguments, ensure_ascii=False)

    def _value(self, value: Any) -> Any:
        if isinstance(value, bool):
            return not value
        if is_number(value):
            return self._number(value)
        if isinstance(value, str):
            return self._string(value, self._palette.characters)
        if isinstance(value, dict):
            return self._dict(value)
        if not isinstance(value, list):
            return value
        if value and all(isinstance(row, list) for row in value) and len({len(row) for row in value}) == 1:
            return self._grid(value)
        if value and all(isinstance(row, str) for row in value) and len({len(row) for row in value}) == 1:
            return ["".join(row) for row in self._grid([list(row) for row in value])]
        return self._list(value, self._value)

    def _cell(self, value: Any) -> Any:
        """A cell of a grid: a single character stays one."""
        if isinstance(value, str) and len(value) == 1:
            return self._rng.choice(self._palette.characters + value)
        return self._value(value)

    def _grid(self, rows: list[list[Any]]) -> list[list[Any]]:
        """A grid stays rectangular: a cell changes, rows come and go, or (rarely) a column does."""
        kind = self._rng.random()
        if not rows[0]:
            return self._list(rows, list)
        if kind < 0.5:
            rows = [list(row) for row in rows]
            row = self._rng.choice(rows)
            place = self._rng.randrange(len(row))
            row[place] = self._cell(row[place])
            return rows
        if len(rows[0]) > 1 and kind < 0.65:
            place = self._rng.randrange(len(rows[0]))
            if self._rng.random() < 0.5:
                return [row[:place] + row[place + 1 :] for row in rows]
            return [row[:place] + row[place : place + 1] + row[place:] for row in rows]
        return self._list(rows, lambda row: [self._cell(c) if self._rng.random() < 0.5 else c for c in row])

    def _dict(self, values: dict[str, Any]) -> dict[str, Any]:
        letters = self._palette.characters
        items = self._list(list(values.items()), lambda pair: (self._string(pair[0], letters), pair[1]))
        if values and self._rng.random() < 0.5:
            name = self._rng.choice(list(values))
            return values | {name: self._value(values[name])}
        return dict(items)

    # Stdin mode.

    def _of_text(self, text: str) -> str:
        lines = read_lines(text)
        parts = self._layout.split(lines) if self._layout is not None and self._layout.free is None else None
        if self._layout is None or parts is None:
            return _write(self._one_token(lines))
        head, blocks = parts
        layout = self._layout
        # Lines of words below two numbers, or all equally long, are a grid whose width stands elsewhere.
        widths = {tuple(len(token) for row in block for token in row) for block in blocks}
        fixed = len(layout.block) == 1 and (len(head[0]) > 1 or (len(blocks) > 1 and len(widths) == 1))

        def change(block: list[list[str]]) -> list[list[str]]:
            return self._rows(block, layout, len(head), fixed)

        if blocks and self._rng.random() < 0.4:
            blocks = self._list(blocks, change) or blocks
        elif blocks and self._rng.random() < 0.9:
            place = self._rng.randrange(len(blocks))
            blocks = [*blocks[:place], change(blocks[place]), *blocks[place + 1 :]]
        else:
            head = self._rows(head, layout, 0, fixed=False)
        return _write(layout.join(head, blocks))

    def _rows(self, rows: list[list[str]], layout: Layout, offset: int, fixed: bool) -> list[list[str]]:
        """One line of the head or of a block changed."""
        forms = [*layout.head, *layout.block][offset : offset + len(rows)]
        rows = [list(row) for row in rows]
        places = [
            (i, j) for i, form in enumerate(forms) for j in range(form.count or 1) if not layout.is_count(i + offset, j)
        ]
        if not places:
            return rows
        i, j = self._rng.choice(places)
        if forms[i].count is None:
            rows[i] = self._list(rows[i], self._token)
        elif j < len(rows[i]):
            rows[i][j] = self._token(rows[i][j], fixed)
        return rows

    def _one_token(self, lines: list[list[str]]) -> list[list[str]]:
        """One token changed in lines of unknown order: no number that may count what follows, no word's length."""
        lines = [list(line) for line in lines]
        longest = max([len(lines), *map(len, lines), *(len(token) for line in lines for token in line)])
        places = [
            (i, j)
            for i, line in enumerate(lines)
            for j, token in enumerate(line)
            if len(lines) == 1 or not (token.isdigit() and int(token[:9]) <= longest)
        ]
        if places and self._rng.random() < 0.7:
            i, j = self._rng.choice(places)
            lines[i][j] = self._token(lines[i][j], fixed=len(lines) > 1)
            return lines
        # Rows of the same width exchange a value, which suits whatever they are.
        width = self._rng.choice([len(line) for line in lines if len(line) > 1] or [0])
        rows = [line for line in lines[1:] if len(line) == width]
        if len(rows) > 1:
            column, (one, two) = self._rng.randrange(width), self._rng.sample(rows, 2)
            one[column], two[column] = two[column], one[column]
        return lines

    def _token(self, token: str, fixed: bool = False) -> str:
        value = read_scalar(token)
        digits = re.fullmatch(r"0\d+|[01]{3,}", token) is not None  # a text of digits rather than a number
        if not isinstance(value, str) and not digits:
            return f"{self._number(value)}"
        # Letters come from the examples' texts, other characters from the token's own.
        characters = self._palette.characters if token.isalpha() else "".join(sorted(set(token)))
        if fixed:
            return "".join(self._rng.choice(characters) if self._rng.random() < 0.3 else c for c in token)
        return self._string(token, characters) or token

    # Values.

    def _number(self, value: int | float) -> int | float:
        low, high = self._palette.low, self._palette.high
        ends = [end for end in (low, high) if math.isfinite(end)]
        choices: list[int | float] = [value + 1, value - 1, -value, 2 * value, value // 2, 0, 1, *ends]
        if len(ends) == 2:
            choices += [self._rng.uniform(low, high), self._rng.uniform(low, high)]
        if isinstance(value, float):
            return round(self._palette.clip(float(self._rng.choice([*choices, value + 0.5, value / 2]))), 3)
        return self._palette.clip(int(self._rng.choice(choices)))

    def _string(self, text: str, characters: str) -> str:
        return "".join(self._list(list(text), lambda _: self._rng.choice(characters), self._rng.choice(characters)))

    def _list(self, items: Sequence[Any], change: Callable[[Any], Any], new: Any = None) -> list[Any]:
        """A list changed in one way; `new` is an item for an empty one."""
        items = list(items)
        if not items:
            return [] if new is None else [new]
        place = self._rng.randrange(len(items))
        changed = change(items[place])
        ways: list[Callable[[], list[Any]]] = [
            lambda: [*items[:place], changed, *items[place + 1 :]],
            lambda: [*items[:place], changed, *items[place + 1 :]],
            lambda: items[:place] + items[place + 1 :],
            lambda: [*items[:place], items[place], *items[place:]],
            lambda: [*items, changed],
            lambda: [changed, *items],
            lambda: items[::-1],
            lambda: self._rng.sample(items, len(items)),
            lambda: [items[place]] * len(items),
            lambda: items[: place + 1],
            lambda: items[:1],
            lambda: items * 2 if len(items) <= _LONGEST // 2 else items[::2],
            lambda: sorted(items, key=_order, reverse=self._rng.random() < 0.3),
            lambda: [],
        ]
        return self._rng.choice(ways)()


def _order(item: Any) -> tuple[int, float, str]:
    value = read_scalar(item) if isinstance(item, str) else item
    return (0, float(value), "") if is_number(value) else (1, 0.0, json.dumps(value))


def _write(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(" ".join(line) for line in lines) + "\n"
