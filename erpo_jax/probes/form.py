"""The form of a problem's inputs: which texts are inputs at all, and how a damaged one is made whole again.

Function mode: a JSON list of arguments that fits the signature (arity, and the types that hints or examples give).
Stdin mode: the lines and tokens of the examples, as a `Layout` learned from them: how many lines, of which kinds,
whether lines repeat as blocks, and which numbers count something. One example says little, so what it leaves open is
allowed. Left out: grammars with several kinds of block, and counts that are sums or products.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from erpo_jax.probes.signature import Signature
from erpo_jax.probes.statement import read_statement
from erpo_jax.probes.structure import read_lines, read_scalar
from erpo_jax.problems import Problem

Lines = list[list[str]]
_KINDS = ("int", "float", "word")
_SHORT = 3  # that many equal tokens in a line may be fields; more are a list


class Form(Protocol):
    """What is known about the inputs of one problem."""

    def read(self, answer: str) -> str | None:
        """The input that an answer holds, in its canonical text; None when it is not of this form."""
        ...


def form_of(problem: Problem) -> Form:
    """The form that the problem's signature or examples show."""
    if problem.mode == "function":
        return FunctionForm(Signature.of(problem))
    return TextForm(layout_of(problem))


def layout_of(problem: Problem) -> Layout | None:
    """The layout that the examples show; where the statement gives a list's length as a range, lines are lists."""
    said = read_statement(f"{problem.statement}\n{problem.input_constraints or ''}").bounds
    listed = any(bound.length == "items" and bound.low < bound.high for bound in said)
    return Layout.learn([read_lines(test.input) for test in problem.public_tests], listed=listed)


@dataclass(frozen=True)
class FunctionForm:
    """JSON arguments of a signature."""

    signature: Signature

    def read(self, answer: str) -> str | None:
        arguments = self.signature.read(answer)
        return None if arguments is None else json.dumps(arguments, ensure_ascii=False)


@dataclass(frozen=True)
class TextForm:
    """Standard input of a layout; None accepts any text that is not blank (a problem without examples)."""

    layout: Layout | None

    def read(self, answer: str) -> str | None:
        lines = [line.rstrip() for line in answer.replace("\r\n", "\n").split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        if not lines or not all(line.isprintable() or "\t" in line for line in lines):
            return None
        if self.layout is not None and not self.layout.matches([line.split() for line in lines]):
            return None
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class LineForm:
    """One kind of line: the kinds of its tokens, and their number when it is fixed (None: any)."""

    kinds: tuple[str, ...]
    count: int | None
    least: int = 0

    def matches(self, tokens: Sequence[str]) -> bool:
        if self.count is None:
            return len(tokens) >= self.least and all(_fits(token, self.kinds[0]) for token in tokens)
        return len(tokens) == self.count and all(map(_fits, tokens, self.kinds))


@dataclass(frozen=True)
class Layout:
    """The lines of an input: `head` lines, then blocks of `block` lines each (none when it is empty), or free lines.

    counts: (line, token) of numbers that say how many tokens the next line has; lines number the head and then one
        block.
    blocks_counted_at: (line, token) of the number in the head that says how many blocks follow.
    free: set when examples show no such order; then a line must only look like one of these.
    """

    head: tuple[LineForm, ...]
    block: tuple[LineForm, ...] = ()
    counts: tuple[tuple[int, int], ...] = ()
    blocks_counted_at: tuple[int, int] | None = None
    free: tuple[LineForm, ...] | None = None

    @staticmethod
    def learn(examples: Sequence[Lines], *, listed: bool = False) -> Layout | None:
        """What the examples have in common; None without an example. `listed`: short lines of a kind may be lists."""
        examples = [lines for lines in examples if lines]
        if not examples:
            return None
        lengths = {len(lines) for lines in examples}
        blocked = _learn_blocks(examples, listed)
        if blocked is not None and (len(lengths) > 1 or len(examples[0]) > _SHORT):
            return blocked
        if len(lengths) == 1 and max(lengths) <= 2 * _SHORT:
            head, counts = _learn_lines(examples, listed)
            return Layout(head, counts=counts)
        first, _ = _learn_lines([lines[:1] for lines in examples])
        rest = [_merge([line], loose=True) for lines in examples for line in lines[1:]]
        return Layout(first, free=tuple(dict.fromkeys(rest)))

    def matches(self, lines: Lines) -> bool:
        """True when the lines are an input of this layout, counts included."""
        if self.free is not None:
            forms = self.free
            return (
                bool(lines)
                and self.head[0].matches(lines[0])
                and all(any(form.matches(line) for form in forms) for line in lines[1:])
            )
        parts = self.split(lines)
        if parts is None:
            return False
        head, blocks = parts
        for rows, forms, offset in [(head, self.head, 0), *((block, self.block, len(self.head)) for block in blocks)]:
            if not all(form.matches(row) for form, row in zip(forms, rows, strict=True)):
                return False
            counts = [(i - offset, j) for i, j in self._counts_in(offset, len(forms))]
            if any(_int(rows[i][j]) != len(rows[i + 1]) for i, j in counts):
                return False
        return self.blocks_counted_at is None or _int(_at(head, self.blocks_counted_at)) == len(blocks)

    def split(self, lines: Lines) -> tuple[Lines, list[Lines]] | None:
        """The head lines and the blocks; None when the number of lines cannot be right."""
        size, head = len(self.block), len(self.head)
        if self._ends_in_nothing(lines):
            lines = [*lines, []]
        rest = len(lines) - head
        if (rest <= 0 or rest % size) if size else rest:
            return None
        return lines[:head], [lines[at : at + size] for at in range(head, len(lines), size)] if size else []

    def join(self, head: Lines, blocks: Sequence[Lines]) -> Lines:
        """The lines of head and blocks, with every count set to what it counts."""
        head, blocks = [list(row) for row in head], [[list(row) for row in block] for block in blocks]
        for rows, forms, offset in [(head, self.head, 0), *((block, self.block, len(self.head)) for block in blocks)]:
            for i, j in self._counts_in(offset, len(forms)):
                rows[i - offset][j] = str(len(rows[i - offset + 1]))
        if self.blocks_counted_at is not None:
            i, j = self.blocks_counted_at
            head[i][j] = str(len(blocks))
        return [*head, *(row for block in blocks for row in block)]

    def lists(self, lines: Lines) -> Lines:
        """The lines whose number of tokens is free."""
        parts = self.split(lines) if self.free is None else None
        if parts is None:
            return [line for line in lines if len(line) > 1]
        head, blocks = parts
        rows = [(self.head, head), *((self.block, block) for block in blocks)]
        return [row for forms, part in rows for form, row in zip(forms, part, strict=True) if form.count is None]

    def is_count(self, line: int, token: int) -> bool:
        """True when this token counts something. `line` numbers the head's lines and then those of one block."""
        return (line, token) in self.counts or (line, token) == self.blocks_counted_at

    def _ends_in_nothing(self, lines: Lines) -> bool:
        """True when the last number counts zero tokens on a last line, which was cut with the trailing blanks."""
        size, rest = len(self.block), len(lines) - len(self.head)
        if rest % size != size - 1 if size else rest != -1:
            return False
        last_but_one = len(self.head) + size - 2
        return any(i == last_but_one and lines[-1][j : j + 1] == ["0"] for i, j in self.counts)

    def _counts_in(self, offset: int, size: int) -> list[tuple[int, int]]:
        return [(i, j) for i, j in self.counts if offset <= i < offset + size]


def _learn_blocks(examples: Sequence[Lines], listed: bool) -> Layout | None:
    """`t`, then t blocks of equally many lines each; or `n` among other numbers, then n lines."""
    width = min(len(lines[0]) for lines in examples)
    for place in range(width):
        sizes = {_block_size(lines, place) for lines in examples}
        size = sizes.pop()
        if sizes or not size or (size > 1 and width > 1):
            continue
        blocks = [lines[at : at + size] for lines in examples for at in range(1, len(lines), size)]
        (head,), _ = _learn_lines([lines[:1] for lines in examples])
        forms, counts = _learn_lines(blocks, listed)
        if head.count is not None:
            return Layout((head,), forms, tuple((i + 1, j) for i, j in counts), blocks_counted_at=(0, place))
    return None


def _block_size(lines: Lines, place: int) -> int:
    """Lines per block when that token of the first line counts the blocks, else 0."""
    count = _int(lines[0][place]) or 0
    rest = len(lines) - 1
    return rest // count if count > 0 and rest % count == 0 else 0


def _learn_lines(
    examples: Sequence[Lines], listed: bool = False
) -> tuple[tuple[LineForm, ...], tuple[tuple[int, int], ...]]:
    """The form of each line of examples that have equally many, and the tokens that count the next line's."""
    columns = list(zip(*examples, strict=True))
    counts = []
    for i in range(len(columns) - 1):
        width = min(len(row) for row in columns[i])
        for j in range(width):
            pairs = [(_int(row[j]), len(after)) for row, after in zip(columns[i], columns[i + 1], strict=True)]
            # One count of 1 or 2 may be chance.
            if all(value == length for value, length in pairs) and (len(pairs) > 1 or pairs[0][1] > 2):
                counts.append((i, j))
                break
    counted = {i + 1 for i, _ in counts}
    # Where lines may be lists, the header of a count is none.
    loose = [i in counted or (listed and not any(i == line for line, _ in counts)) for i in range(len(columns))]
    return tuple(_merge(rows, loose=free) for rows, free in zip(columns, loose, strict=True)), tuple(counts)


def _merge(rows: Sequence[Sequence[str]], *, loose: bool) -> LineForm:
    """The form that fits all rows. `loose`: their number of tokens is free although the rows may agree."""
    lengths = {len(row) for row in rows}
    kinds = {_kind(token) for row in rows for token in row}
    widest = max(kinds, key=_KINDS.index, default="word")
    count = lengths.pop() if len(lengths) == 1 else None
    uniform = len(kinds) <= 1
    if count is None or (loose and uniform and count != 1) or (uniform and count > _SHORT and len(rows) < _SHORT):
        return LineForm((widest,), None, least=0 if loose or not all(rows) else 1)
    per_token = tuple(max((_kind(row[j]) for row in rows), key=_KINDS.index) for j in range(count))
    return LineForm(per_token, count)


def _kind(token: str) -> Literal["int", "float", "word"]:
    value = read_scalar(token)
    return "int" if isinstance(value, int) else "float" if isinstance(value, float) else "word"


def _fits(token: str, kind: str) -> bool:
    return _KINDS.index(_kind(token)) <= _KINDS.index(kind)


def _int(token: str) -> int | None:
    value = read_scalar(token)
    return value if isinstance(value, int) else None


def _at(lines: Lines, place: tuple[int, int]) -> str:
    return lines[place[0]][place[1]]
