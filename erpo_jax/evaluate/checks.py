"""Hidden tests that are code: one program out of a check, a candidate, and a proof that the checks ran to the end.

The text before `{program}`, the candidate, and the text after it run one after the other in one fresh namespace, as
HumanEval's and MBPP's own runners do (so `__name__` is not "__main__" and a main block stays quiet), each compiled by
itself, so that no open quote of a candidate swallows a check. Only when all three have run is a line printed that no
candidate can guess: a program that leaves early (`sys.exit(0)`, `os._exit(0)`) has not passed.
Left out: defence against a candidate that searches the interpreter's frames for that line; it shares a process with the
checks, as it does in the benchmarks' own runners. Nothing that trains ever runs a check, so nothing learns to.
"""

from __future__ import annotations

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
