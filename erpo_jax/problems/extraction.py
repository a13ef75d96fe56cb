"""From the text of an answer to the program in it.

Reads fenced blocks as models really write them: tags in any case or none, fences never closed or never opened, code on
the fence's own line, fences inside a program's texts, drafts before the final block, sample output after it, thinking
before the answer, an answer that was begun for the model. Left out on purpose: any repair of broken code. A broken
program is scored as the broken one it is.
"""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
import warnings
from dataclasses import dataclass

_FENCE = re.compile(r"^(?P<lead>.*?)(?P<ticks>`{3,})(?P<info>[^`]*)$|^(?P<indent>\s*)(?P<tildes>~{3,})(?P<note>[^~]*)$")
_ONE_LINE = re.compile(r"^[^`]*```(?P<inside>[^`]+)```[^`]*$")
_PYTHON_TAG = re.compile(r"(i|c)?(python|py|pypy|sage)[\d.]*")
_OTHER_TAGS = frozenset(
    re.findall(
        r"\S+",
        """text txt plain plaintext output input stdin stdout console terminal sh shell bash zsh json yaml yml toml xml
        html css sql c cpp c++ cc cxx java javascript js typescript ts rust rs go golang ruby rb php kotlin swift scala
        haskell r perl lua csharp c# cs diff markdown md latex tex csv log none pseudocode""",
    )
)
# Where it ends or begins a line, or stands right before a word or a fence; elsewhere it is talk of the mark.
_THINKING_ENDS = re.compile(r"^[ \t]*</think>|</think>(?=[ \t]*$|\w|```)", re.MULTILINE)
_THINKING_BEGINS = re.compile(r"^[ \t]*<think>", re.MULTILINE)
_ATTRIBUTES = re.compile(r"\{.*\}|((copy|numberLines|linenums|showLineNumbers)\s*|(\w+=(\".*?\"|\S+))\s*)+")

_WORK = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.For, ast.While)


@dataclass(frozen=True)
class _Fence:
    lead: str
    ticks: str
    info: str


@dataclass(frozen=True)
class _Block:
    tag: str
    code: str
    closed: bool
    lines: range  # of the text


def extract_program(text: str, prefill: str = "") -> str | None:
    """The program of an answer, or None when there is none.

    `text` is what the model wrote after `prefill` (the part of its answer written for it; "" when it wrote everything).
    Thinking (up to the `</think>` that no program holds) is not part of the answer, and an answer cut inside it has no
    program. Text that parses as a whole is the program. Of several blocks the last that is a program counts: tagged as
    Python, or untagged with a definition, an import, a loop or a read of the input. An untagged block that only calls
    something (`print(5)`, `set()`) may be output: it counts when there is no other. A last block that only calls what
    an earlier one defines is an example of use, unless it reads standard input: then the two are one program. A begun
    answer goes on to its closing fence.
    """
    text, prefill = text.replace("\r\n", "\n"), prefill.replace("\r\n", "\n")
    begun = _blocks(prefill) if prefill else []
    if begun and not begun[-1].closed:
        return _continued(prefill + text, len(begun) - 1)
    answer = prefill + text if _is_program(prefill + text) else _without_thinking(prefill + text)
    if answer is None:
        return None
    if _is_program(answer):
        return _code(answer.split("\n"))
    blocks = [block for block in _blocks(answer) if block.code.strip()]
    return _choose(blocks) if blocks else None


def _continued(answer: str, index: int) -> str | None:
    """The program of block `index`, which was begun for the model."""
    blocks = _blocks(answer)
    code = blocks[index].code
    if not code.strip() or _parse(code) is None:
        # The model did not go on where it was put, but wrote a block of its own.
        own = [block for block in blocks[index + 1 :] if _is_program(block.code)]
        code = _choose(own) if own else code
    return code if code.strip() else None


def _without_thinking(text: str) -> str | None:
    end = _outside_programs(_THINKING_ENDS, text)
    while end is not None:
        text = text[end.end() :]
        if _outside_programs(_THINKING_BEGINS, text) is None:
            return text
        end = _outside_programs(_THINKING_ENDS, text)
    return None if _outside_programs(_THINKING_BEGINS, text) else text


def _outside_programs(mark: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first `mark` of the text that stands in no block that parses (there it is part of a program's texts)."""
    if mark.search(text) is None:
        return None
    programs = [block.lines for block in _blocks(text) if _parse(block.code) is not None]
    for found in mark.finditer(text):
        line = text.count("\n", 0, found.start())
        if not any(line in lines for lines in programs):
            return found
    return None


def _fence(line: str) -> _Fence | None:
    found = _FENCE.match(line)
    if found is None:
        return None
    if found["ticks"]:
        return _Fence(found["lead"], found["ticks"], found["info"])
    return _Fence("", found["tildes"], found["note"])


def _blocks(text: str) -> list[_Block]:
    """Every fenced block of the text, in order.

    A block that is never closed runs to the next opening fence with a tag, or to the end. A fence that was never opened
    ends the text before it, when that is a program.
    """
    lines = text.split("\n")
    blocks: list[_Block] = []
    start = 0  # first line after the last block
    number = 0
    while number < len(lines):
        one = _ONE_LINE.match(lines[number])
        fence = _fence(lines[number])
        number += 1
        if one is not None:
            tag, first = _split_info(one["inside"])
            blocks.append(_Block(tag, first, closed=True, lines=range(number - 1, number)))
            start = number
            continue
        if fence is None:
            continue
        tag, first = _split_info(fence.info)
        if fence.lead.strip() and first:
            continue  # prose that mentions a fence
        end = _end(lines, number, fence)
        if not fence.info.strip() and not _is_program("\n".join(lines[number:end])):
            before = _after_prose([*lines[start : number - 1], fence.lead])
            if _is_program(before):
                blocks.append(_Block("", before, closed=True, lines=range(start, number)))
                start = number
                continue
        body = ([first] if first else []) + lines[number:end]
        closing = _fence(lines[end]) if end < len(lines) else None
        closed = closing is not None and not closing.info.strip()
        if closed and closing is not None and closing.lead.strip():
            body.append(closing.lead)
        blocks.append(_Block(tag, _code(body), closed, lines=range(number - 1, end)))
        number = end + 1 if closed else end
        start = number
    return blocks


def _end(lines: list[str], first: int, opening: _Fence) -> int:
    """The line of the fence that ends a block whose code begins at `first`: a closing one, or the next with a tag."""
    for number in range(first, len(lines)):
        fence = _fence(lines[number])
        if fence is None or fence.ticks[0] != opening.ticks[0] or len(fence.ticks) < len(opening.ticks):
            continue
        closing = not fence.info.strip()
        if not closing and (fence.lead.strip() or not _is_tag(fence.info)):
            continue
        if not _inside_a_text(lines, first, number, fence):
            return number
    return len(lines)


def _inside_a_text(lines: list[str], first: int, number: int, fence: _Fence) -> bool:
    """True when the fence in line `number` stands in a triple-quoted text of a program that goes on and ends well."""
    so_far = "\n".join([*lines[first:number], fence.lead])
    quotes = [quote for quote in ('"""', "'''") if quote in so_far]
    if not quotes or not any(_parse(so_far + quote) is not None for quote in quotes):
        return False
    for later in range(number + 1, len(lines)):
        closing = _fence(lines[later])
        if closing is not None and not closing.info.strip() and _parse("\n".join([*lines[first:later], closing.lead])):
            return True
    return False


def _after_prose(lines: list[str]) -> str:
    """The lines from the first that is not plainly a sentence."""
    sentence = re.compile(r"[A-Z][\w',;-]*( [\w',;`-]+)+ ?[.:!]?$")
    for number, line in enumerate(lines):
        if line.strip() and not sentence.match(line.strip()):
            return _code(lines[number:])
    return ""


def _is_python(tag: str) -> bool:
    return _PYTHON_TAG.fullmatch(tag) is not None


def _is_tag(info: str) -> bool:
    word = info.strip().lower()
    return word in _OTHER_TAGS or _is_python(word)


def _split_info(info: str) -> tuple[str, str]:
    """The rest of an opening fence's line as (tag, first line of code).

    A lone word is a tag; more than that is a tag and its attributes, a tag and code, or code.
    """
    info = info.strip()
    if re.fullmatch(r"[\w+#.-]*", info):
        return info.lower(), ""
    if info.startswith("{") and info.endswith("}"):
        return next(iter(re.findall(r"[\w+#]+", info)), "").lower(), ""
    word, _, rest = info.partition(" ")
    if not _is_tag(word) or _parse(info) is not None:
        return "", info
    return word.lower(), "" if _ATTRIBUTES.fullmatch(rest.strip()) else rest.strip()


def _code(lines: list[str]) -> str:
    """The lines as one text without blank ends; a block in a list item stands indented as a whole."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    code = "\n".join(lines).rstrip()
    return textwrap.dedent(code) if code[:1].isspace() else code


def _choose(blocks: list[_Block]) -> str:
    session = [block for block in blocks if not block.code.startswith(">>>")]
    own = [block for block in session if block.tag not in _OTHER_TAGS]
    sure = [block for block in own if (_is_python(block.tag) and not _is_value(block.code)) or _works(block.code)]
    programs = sure or [block for block in own if _calls(block.code)] or own or blocks
    last = programs[-1].code
    for earlier in reversed(programs[:-1]):
        if _uses(last, earlier.code):
            return f"{earlier.code}\n\n{last}" if _reads_input(last) else earlier.code
    return last


def _parse(code: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a candidate's text is not our warning
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_value(code: str) -> bool:
    """Parses, but to nothing more than names, numbers and texts: prose or output, never a program."""
    tree = _parse(code)
    return tree is not None and all(
        isinstance(node, ast.Expr) and not any(isinstance(part, ast.Call) for part in ast.walk(node))
        for node in tree.body
    )


def _is_program(code: str) -> bool:
    code = _code(code.split("\n"))
    return _parse(code) is not None and not _is_value(code)


def _works(code: str) -> bool:
    """A program beyond doubt, by what no output has: it defines, imports, loops, or calls something to read input."""
    return _has(code, _WORK) or (_calls(code) and _reads_input(code))


def _calls(code: str) -> bool:
    """Parses and calls something: a short program, or output such as `set()`."""
    return _has(code, (ast.Call,))


def _has(code: str, kinds: tuple[type[ast.AST], ...]) -> bool:
    tree = _parse(code)
    return tree is not None and any(isinstance(node, kinds) for node in ast.walk(tree))


def _uses(code: str, earlier: str) -> bool:
    """`code` defines nothing and needs a name that `earlier` defines."""
    tree, base = _parse(code), _parse(earlier)
    if tree is None or base is None:
        return False
    if any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in ast.walk(tree)):
        return False
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(dir(builtins))
    bound |= {alias.asname or alias.name for node in imports for alias in node.names}
    defined = {node.name for node in base.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return any(node.id in defined - bound for node in names)


def _reads_input(code: str) -> bool:
    return re.search(r"\binput\s*\(|\bstdin\b|\bopen\s*\(\s*0", code) is not None
