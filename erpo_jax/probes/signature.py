"""The arguments of a function problem: their number, names and types, read off the starter code and the examples.

Types are those that JSON can carry: int, float, str, bool, None, lists, dictionaries with text keys. A hint outside
them (or none) is filled from the examples, and without those anything goes.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from erpo_jax.problems import Problem

_SEQUENCES = frozenset(
    {"list", "List", "Sequence", "Iterable", "Collection", "tuple", "Tuple", "set", "Set", "frozenset"}
)
_MAPPINGS = frozenset({"dict", "Dict", "Mapping", "DefaultDict"})


@dataclass(frozen=True)
class Type:
    """`kind` is int, float, str, bool, none, list (of `item`), dict (of `item`, text keys), or any. `optional` allows
    None."""

    kind: str
    item: Type | None = None
    optional: bool = False

    def fits(self, value: Any) -> bool:
        """True when a value read from JSON is of this type. An int is a float; a bool is not an int."""
        if self.kind == "any" or (value is None and self.optional):
            return True
        if self.kind in ("list", "dict"):
            inside = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
            right = isinstance(value, list if self.kind == "list" else dict)
            return right and (self.item is None or all(map(self.item.fits, inside)))
        return _of_value(value).kind in ({"int", "float"} if self.kind == "float" else {self.kind})


ANY = Type("any")


@dataclass(frozen=True)
class Signature:
    """The function's name, and names and types of its arguments; the first `least` of them must be given."""

    function: str
    names: tuple[str, ...]
    types: tuple[Type, ...]
    least: int
    open_ended: bool = False

    @staticmethod
    def of(problem: Problem) -> Signature:
        """The signature of `problem.entry_point`: hints first, the types of the examples where there is none."""
        examples = [json.loads(test.input) for test in problem.public_tests]
        function = problem.entry_point or ""
        arguments = _arguments(problem.starter_code or "", function)
        if arguments is None:
            if not examples:
                return Signature(function, (), (), 0, open_ended=True)
            counts = [len(example) for example in examples]
            names = tuple(f"argument {number + 1}" for number in range(max(counts)))
            return Signature(function, names, _types_of_examples(examples, (ANY,) * max(counts)), min(counts))
        positional = [a for a in [*arguments.posonlyargs, *arguments.args] if a.arg not in ("self", "cls")]
        hints = tuple(_of_hint(argument.annotation) for argument in positional)
        return Signature(
            function=function,
            names=tuple(argument.arg for argument in positional),
            types=_types_of_examples(examples, hints),
            least=len(positional) - len(arguments.defaults),
            open_ended=arguments.vararg is not None,
        )

    def read(self, answer: str) -> list[Any] | None:
        """The arguments that an answer writes, or None when they do not fit.

        The first call of the function that fits is taken, wherever it stands and whatever follows. Without any call, a
        JSON or Python list of the arguments, bare arguments `1, [2]`, named ones `a = 1, b = [2]` or `{"a": 1, "b":
        [2]}`, a lone argument, and a list of several inputs (the first counts) are understood: small models write all
        of these.
        """
        for values in _calls(answer, self.function) or _readings(answer.strip(), self.names):
            if self._fits(values):
                return values
        return None

    def _fits(self, values: list[Any]) -> bool:
        if len(values) < self.least or (len(values) > len(self.names) and not self.open_ended):
            return False
        return all(kind.fits(value) for kind, value in zip(self.types, values, strict=False)) and _is_plain(values)


def _arguments(code: str, entry_point: str) -> ast.arguments | None:
    for text in (code, code.rstrip() + " pass", code.rstrip() + "\n    pass", code.rstrip() + "\n        pass"):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == entry_point:
                return node.args
    return None


def _of_hint(hint: ast.expr | None) -> Type:
    if isinstance(hint, ast.Constant):
        if hint.value is None:
            return Type("none")
        if isinstance(hint.value, str):
            try:
                return _of_hint(ast.parse(hint.value, mode="eval").body)
            except SyntaxError:
                return ANY
    if isinstance(hint, ast.BinOp) and isinstance(hint.op, ast.BitOr):
        return _union([_of_hint(hint.left), _of_hint(hint.right)])
    if isinstance(hint, ast.Subscript):
        name = _name(hint.value)
        parts = hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]
        inner = [_of_hint(part) for part in parts]
        if name == "Optional":
            return _union([*inner, Type("none")])
        if name == "Union":
            return _union(inner)
        if name in ("tuple", "Tuple"):
            return Type("list", inner[0] if len(set(inner)) == 1 or _is_ellipsis(parts[-1]) else None)
        if name in _SEQUENCES:
            return Type("list", inner[0])
        return Type("dict", inner[-1]) if name in _MAPPINGS else ANY
    name = _name(hint)
    if name in ("int", "float", "str", "bool"):
        return Type(name)
    return Type("list") if name in _SEQUENCES else Type("dict") if name in _MAPPINGS else ANY


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _union(types: Sequence[Type]) -> Type:
    """The one type that the parts have beside None; int and float are a float; else anything."""
    optional = any(part.kind == "none" or part.optional for part in types)
    rest = list(dict.fromkeys(Type(part.kind, part.item) for part in types if part.kind != "none"))
    if {part.kind for part in rest} == {"int", "float"}:
        rest = [Type("float")]
    if len(rest) > 1 and all(part.kind == "list" for part in rest):
        rest = [Type("list", _union([part.item or ANY for part in rest]))]
    if not rest:
        return Type("none")
    return Type(rest[0].kind, rest[0].item, optional) if len(rest) == 1 else ANY


def _of_value(value: Any) -> Type:
    if value is None:
        return Type("none")
    if isinstance(value, list):
        return Type("list", _union([_of_value(item) for item in value]) if value else None)
    if isinstance(value, dict):
        return Type("dict", _union([_of_value(item) for item in value.values()]) if value else None)
    return Type({bool: "bool", int: "int", float: "float", str: "str"}[type(value)])


def _types_of_examples(examples: Sequence[Sequence[Any]], hints: tuple[Type, ...]) -> tuple[Type, ...]:
    types = []
    for index, hint in enumerate(hints):
        seen = [example[index] for example in examples if index < len(example)]
        known = hint != ANY and hint.item != ANY and not (hint.kind in ("list", "dict") and hint.item is None)
        if known or not seen:
            types.append(hint)
            continue
        learned = _union([_of_value(value) for value in seen if value != [] and value != {}] or [_of_value(seen[0])])
        types.append(learned if hint == ANY or learned.kind == hint.kind else hint)
    return tuple(types)


def _readings(answer: str, names: Sequence[str]) -> list[list[Any]]:
    """Ways to read an answer as arguments, the likeliest first."""
    readings: list[list[Any]] = []
    for value in _literals(answer):
        several = isinstance(value, list) and all(isinstance(part, (list, dict)) for part in value)
        for part in [value, *(value if several else [])]:
            if isinstance(part, list):
                readings.append(part)
            if isinstance(part, dict) and names and set(part) == set(names):
                readings.append([part[name] for name in names])
            readings.append([part])
    bare = _call(f"f({answer})")
    return readings if bare is None else [*readings, bare]


def _calls(answer: str, function: str) -> list[list[Any]]:
    """The arguments of every whole call of the function, as far as they are literals."""
    if not function:
        return []
    starts = [found.end() for found in re.finditer(rf"\b{re.escape(function)}\s*\(", answer)]
    inside = [answer[start:end] for start in starts if (end := _closing(answer, start)) is not None]
    return [values for text in inside if (values := _call(f"f({text})")) is not None]


def _closing(text: str, start: int) -> int | None:
    """Where the parenthesis closes that was opened just before `start`; quoted texts are passed over."""
    depth = 1
    for found in re.finditer(r"""\"(?:\\.|[^"\\])*\"|'(?:\\.|[^'\\])*'|[()]""", text[start:]):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0:
            return start + found.start()
    return None


def _literals(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        pass
    try:
        return [_jsonable(ast.literal_eval(text))]
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return []


def _call(text: str) -> list[Any] | None:
    try:
        node = ast.parse(text, mode="eval").body
        if not isinstance(node, ast.Call):
            return None
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        return [_jsonable(ast.literal_eval(value)) for value in values]
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _jsonable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"JSON has no {type(value).__name__}")


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, (list, dict)):
        return all(map(_is_plain, value if isinstance(value, list) else value.values()))
    return True
