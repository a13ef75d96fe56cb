"""C, the fork of one candidate: compiles its program once under its memory limit, then runs it on each input in a fork
of its own (P, program.py) and passes on what judge.py makes of that. Also tells which programs of a list are the same.
"""

from __future__ import annotations

import gc
import json
import marshal
import os
import resource
import signal
import sys
import time
from types import CodeType

from erpo_jax.sandbox import prelude, syscalls, wire
from erpo_jax.sandbox.confine import Confinement
from erpo_jax.sandbox.judge import Probe, one_line
from erpo_jax.sandbox.program import Program, fitting

TYPE_CHECKING = False  # workers do not load `typing`
if TYPE_CHECKING:
    from typing import Any, NoReturn

_HOLD_BYTES, _HOLD_SECONDS = 1 << 22, 0.5  # outcomes are held back for as long: each frame wakes the trainer


def run(frames: list[bytes], link: int, stage: int, zygote: int, confinement: Confinement) -> NoReturn:
    """Runs the one job in `frames`, which is emptied: programs are not to carry its bytes. Ends the process."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != zygote:
        os._exit(1)
    job = json.loads(frames.pop())
    if "fingerprint" in job:
        marks = [_fingerprint(source, job["limits"], confinement) for source in job["fingerprint"]]
        os.write(stage, b"!")
        wire.send(link, wire.pack({"fingerprints": marks}))
        os._exit(0)
    wrong = _not_arguments(job)
    try:
        code, refusal = (None, {}) if wrong else compiled(job["program"], job["limits"], confinement)
    except OSError as error:  # a limit was refused
        code, refusal = None, {"verdict": "sandbox_error", "detail": str(error)}
    os.write(stage, b"!")
    os.close(stage)
    if code is None:
        wire.send(link, wire.pack({"refused": wrong} if wrong else {"every": refusal}))
        os._exit(0)
    prelude.import_ahead(code)
    function = job["mode"] == "function"
    if function:
        prelude.lend(code)
    # what a program finds here in memory is not its doing
    confinement.base_bytes += sum(map(sys.getsizeof, job["inputs"]))
    gc.freeze()  # a program's last collection is to go through what is its own, and nothing else
    program = Program(code, job["limits"], job["entry_point"] if function else None, confinement)
    ended: list[Probe] = []
    late, since = False, time.monotonic()
    for text in job["inputs"]:
        if late and job["skip"]:
            break
        probe = Probe(program, job["limits"], text)
        probe.watch()
        late = late or probe.timed_out
        ended.append(probe)
        if time.monotonic() - since > _HOLD_SECONDS or sum(len(item.output) for item in ended) > _HOLD_BYTES:
            wire.send(link, b"".join([wire.pack(item.outcome()) for item in ended]))
            job["inputs"] = job["inputs"][len(ended) :]
            ended, since = [], time.monotonic()
    skipped = wire.pack({"verdict": "timeout", "skipped": True, "detail": "an earlier input timed out"})
    rest = len(job["inputs"]) - len(ended)
    wire.send(link, b"".join([wire.pack(item.outcome()) for item in ended]) + skipped * rest)
    os._exit(0)


def compiled(source: str, limits: dict[str, Any], confinement: Confinement) -> tuple[CodeType | None, dict[str, Any]]:
    """The code, or the outcome that a program without any has on every input. Raises OSError when a limit is
    refused."""
    before = {name: resource.getrlimit(name) for name in (resource.RLIMIT_AS, resource.RLIMIT_CPU)}
    space = confinement.base_bytes + (limits["memory_mb"] << 20)
    seconds = int(time.process_time() + limits["cpu_s"]) + 1
    try:
        _limit(resource.RLIMIT_AS, fitting(resource.RLIMIT_AS, space, None))
        _limit(resource.RLIMIT_CPU, fitting(resource.RLIMIT_CPU, seconds, None))
        return compile(source.removeprefix("\ufeff"), "program.py", "exec", dont_inherit=True), {}
    except MemoryError:
        return None, {"verdict": "memory", "detail": "MemoryError while compiling"}
    except (SyntaxError, ValueError, RecursionError, OverflowError) as error:
        where = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        return None, {"verdict": "error", "detail": one_line(f"{type(error).__name__}: {message}{where}")}
    finally:
        for name, pair in before.items():
            _limit(name, pair)


def _limit(name: int, pair: tuple[int, int]) -> None:
    """Raises OSError when the limit is refused, also where the standard library says ValueError."""
    try:
        resource.setrlimit(name, pair)
    except ValueError as error:
        raise OSError(f"setrlimit({name}, {pair}): {error}") from error


def _fingerprint(source: str, limits: dict[str, Any], confinement: Confinement) -> str | None:
    """Equal for programs that compile to the same code but for positions, so for all with the same syntax tree."""
    import hashlib  # here, because it brings a large library that no program needs

    code, _ = compiled(source, limits, confinement)
    try:
        return None if code is None else hashlib.sha256(marshal.dumps(_bare(code), 2)).hexdigest()
    except (RecursionError, ValueError):  # nested too deep
        return None


def _bare(code: CodeType) -> CodeType:
    constants = tuple(_bare(item) if isinstance(item, CodeType) else item for item in code.co_consts)
    return code.replace(co_consts=constants, co_linetable=b"", co_firstlineno=1)


def _not_arguments(job: dict[str, Any]) -> str | None:
    """Why an input of a function job is none."""
    if job["mode"] != "function":
        return None
    for index, text in enumerate(job["inputs"]):
        try:
            if isinstance(json.loads(text, parse_int=len), list):  # int() of many digits takes long
                continue
        except (ValueError, RecursionError):
            pass
        return f"input {index} is not a JSON list of arguments: {text[:80]!r}"
    return None


def compiler_broke(status: int) -> dict[str, Any]:
    """The outcome on every input when C ended (with the wait status `status`) before it ran anything: the source did
    that."""
    number = status & 0x7F
    if number in (signal.SIGXCPU, signal.SIGKILL):
        return {"verdict": "timeout", "detail": "compiling the program took too long"}
    how = f"signal {number}" if number else f"exit status {status >> 8}"
    return {"verdict": "error", "detail": f"the compiler ended with {how}"}
