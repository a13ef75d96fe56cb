"""Reads the text of a compiled XLA program (`compiled.as_text()`) into computations and instructions.

Only what counting needs: names, opcodes, shapes, operands, called computations, and where an instruction comes from.
Left out: layouts, literals, and everything a cost does not depend on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from erpo_jax.errors import UserError

_BITS = {"pred": 8, "token": 0, "opaque": 0}
_ARRAY = re.compile(r"\b([a-z][a-z0-9]*)\[([\d,<=]*)\]")
_NAME = re.compile(r"%([\w.\-]+)")
_CALLED = re.compile(
    r"\b(calls|to_apply|body|condition|true_computation|false_computation|branch_computations|called_computations)="
    r"(\{[^}]*\}|%[\w.\-]+)"
)


class HloError(UserError):
    """A text that is no compiled program, or one whose cost depends on what it does not say."""


@dataclass(frozen=True)
class Shape:
    """One array: element type and dimensions."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        bits = _BITS.get(self.dtype)
        if bits is None:
            # the first number in the name: f32, bf16, s4, f8e4m3fn
            found = re.search(r"\d+", self.dtype)
            bits = int(found.group()) if found else 0
        return self.size * bits // 8


@dataclass(frozen=True)
class Instruction:
    """One line of a computation. `shapes`: its result, one entry per array of a tuple."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    text: str
    """What follows the operands: attributes, metadata, backend_config."""
    root: bool = False

    @property
    def bytes(self) -> int:
        return sum(shape.bytes for shape in self.shapes)

    @property
    def size(self) -> int:
        return sum(shape.size for shape in self.shapes)

    @cached_property
    def scope(self) -> str:
        """`op_name` of the metadata: the jax.named_scope path that it comes from, "" when the compiler made it."""
        found = re.search(r'\bop_name="([^"]*)"', self.text)
        return found.group(1) if found else ""

    @cached_property
    def target(self) -> str:
        """What a custom call calls."""
        found = re.search(r'custom_call_target="([^"]*)"', self.text)
        return found.group(1) if found else ""

    @cached_property
    def backend_config(self) -> dict[str, Any]:
        start = self.text.find("backend_config={")
        if start < 0:
            return {}
        found, _ = json.JSONDecoder().raw_decode(self.text, start + len("backend_config="))
        return dict(found)

    @cached_property
    def called(self) -> dict[str, tuple[str, ...]]:
        """Names of the computations it calls, by the attribute that names them."""
        return {kind: tuple(_NAME.findall(names)) for kind, names in _CALLED.findall(self.text)}

    def dimensions(self, attribute: str) -> tuple[int, ...]:
        """The numbers of `attribute={1,2}`; () when it is absent or empty."""
        found = re.search(rf"\b{attribute}=\{{([\d,]*)\}}", self.text)
        return tuple(int(number) for number in found.group(1).split(",") if number) if found else ()


@dataclass
class Computation:
    """A list of instructions in the order of their schedule."""

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions.values())

    @property
    def root(self) -> Instruction:
        return next(instruction for instruction in self if instruction.root)

    def operands(self, instruction: Instruction) -> list[Instruction]:
        return [self.instructions[name] for name in instruction.operands]

    def users(self, instruction: Instruction) -> list[Instruction]:
        return [user for user in self if instruction.name in user.operands]


@dataclass
class Module:
    """A whole program, as one device runs it."""

    name: str
    computations: dict[str, Computation]
    entry: str

    def __getitem__(self, name: str) -> Computation:
        return self.computations[name]


def parse(text: str) -> Module:
    """Raises HloError for a text without an entry computation."""
    computations: dict[str, Computation] = {}
    entry, current = "", None
    for line in text.splitlines():
        if current is None:
            header = re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$", line)
            if header:
                current = computations.setdefault(header.group(2), Computation(header.group(2)))
                entry = current.name if header.group(1) else entry
        elif line.startswith("}"):
            current = None
        elif " = " in line:
            instruction = _instruction(line.strip())
            current.instructions[instruction.name] = instruction
    if not entry:
        raise HloError("this is no compiled XLA program: it has no ENTRY computation; give compiled.as_text()")
    name = re.match(r"HloModule ([\w.\-]+)", text)
    return Module(name.group(1) if name else "", computations, entry)


def _instruction(line: str) -> Instruction:
    left, _, right = line.partition(" = ")
    end = _closing(right, 0) if right.startswith("(") else right.index(" ")
    shape, rest = right[:end], right[end:].lstrip()
    opening = rest.index("(")
    closing = _closing(rest, opening)
    opcode = rest[:opening]
    # a literal may hold anything
    operands = () if opcode in ("constant", "parameter") else tuple(_NAME.findall(rest[opening:closing]))
    return Instruction(
        name=left.removeprefix("ROOT ").removeprefix("%"),
        opcode=opcode,
        shapes=tuple(
            Shape(dtype, tuple(int(size.lstrip("<=")) for size in dims.split(",") if size))
            for dtype, dims in _ARRAY.findall(shape)
        ),
        operands=operands,
        text=rest[closing:],
        root=left.startswith("ROOT "),
    )


def _closing(text: str, opening: int) -> int:
    """The index behind the bracket that closes the one at `opening`."""
    depth = 0
    for found in re.finditer(r"[()]", text[opening:]):
        depth += 1 if found.group() == "(" else -1
        if depth == 0:
            return opening + found.end()
    return len(text)
