"""Programs that are made around a candidate: checks that run with it, checkers that judge its output, and a function
that it may return from.

*Checks.* One program is made of a check, a candidate, and a proof that the checks ran to the end. The text before
`{program}`, the candidate, and the text after it run one after the other in one fresh namespace, as HumanEval's and
MBPP's own runners do (so `__name__` is not "__main__" and a main block stays quiet), each compiled by
itself, so that no open quote of a candidate swallows a check. Only when all three have run is a line printed that no
candidate can guess: a program that leaves early (`sys.exit(0)`, `os._exit(0)`) has not passed.
Left out: defence against a candidate that searches the interpreter's frames for that line; it shares a process with the
checks, as it does in the benchmarks' own runners. Nothing that trains ever runs a check, so nothing learns to.

*Checkers* are called as open-r1/codeforces has it: `checker.py input.txt correct_output.txt solution_output.txt`,
and say 1 (some of them 100) on standard output to accept. They run in the sandbox, which has no files: `open` serves
these three.

*Returns.* APPS and TACO run a program inside a function, and some of their own solutions return from there.
"""

from __future__ import annotations

import json

from erpo_jax.evaluate.hidden import PLACE
from erpo_jax.sandbox import Outcome

_RUNNER = """\
import contextlib as _contextlib, io as _io, sys as _sys

def _run(parts, proof, out):
    space = {{}}
    with _contextlib.redirect_stdout(_io.StringIO()), _contextlib.redirect_stderr(_io.StringIO()):
        for name, text in parts:
            exec(compile(text, name, "exec", dont_inherit=True), space)
    out.write("\\n" + proof + "\\n")
    out.flush()

_run({parts!r}, {proof!r}, _sys.stdout)
"""


def checked_program(test: str, program: str, proof: str) -> str:
    """The program that runs `program` inside `test` and prints `proof` as its last line when every check held."""
    before, _, after = test.partition(PLACE)
    return _RUNNER.format(parts=[("<before>", before), ("<program>", program), ("<checks>", after)], proof=proof)


def proven(outcome: Outcome, proof: str) -> bool:
    """Whether the run ended well and its last line is the proof."""
    return outcome.verdict == "ok" and (outcome.output or "").rstrip("\n").rsplit("\n", 1)[-1] == proof


_CHECKER = """\
import builtins, io, json, os, sys

def _run(source, texts):
    held = dict(zip(("input.txt", "correct_output.txt", "solution_output.txt"), texts))
    real = builtins.open

    def opened(file, mode="r", *args, **named):
        text = held.get(file if isinstance(file, str) else os.fspath(file) if hasattr(file, "__fspath__") else None)
        if text is None:
            return real(file, mode, *args, **named)
        return io.BytesIO(text.encode()) if "b" in mode else io.StringIO(text)

    builtins.open = io.open = opened
    sys.argv = ["checker.py", *held]
    exec(compile(source, "checker.py", "exec", dont_inherit=True), {{"__name__": "__main__"}})

_run({source!r}, json.loads(sys.stdin.read()))
"""


def checker_program(checker: str) -> str:
    """The program that runs a checker on what `checker_input` made."""
    return _CHECKER.format(source=checker)


def checker_input(given: str, expected: str, actual: str) -> str:
    """What a checker's program reads: the test's input and output, and the candidate's output."""
    return json.dumps([given, expected, actual])


def accepted(outcome: Outcome) -> bool:
    """Whether a checker ended well and its last word is 1 or 100. A checker that fails accepts nothing."""
    words = (outcome.output or "").split()
    try:
        return outcome.verdict == "ok" and bool(words) and float(words[-1]) in (1, 100)
    except ValueError:
        return False


_RETURNING = """\
import ast

def _run(source):
    whole, inner = ast.parse("def code():\\n    pass\\ncode()"), ast.parse(source).body
    imports = [node for node in inner if isinstance(node, (ast.Import, ast.ImportFrom))]
    whole.body[0].body += [node for node in inner if node not in imports]
    whole.body[:0] = imports
    exec(compile(ast.fix_missing_locations(whole), "program.py", "exec", dont_inherit=True), {{"__name__": "__main__"}})

_run({program!r})
"""


def returning_program(program: str) -> str:
    """The program with all but its imports inside a function that is called."""
    return _RETURNING.format(program=program)


def returned_outside(outcome: Outcome) -> bool:
    """Whether the program did not compile because it returns outside a function."""
    return outcome.verdict == "error" and "'return' outside function" in outcome.detail
