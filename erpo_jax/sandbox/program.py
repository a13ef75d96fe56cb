"""P, the process of one program on one input: puts on its limits, runs the program as a plain interpreter would, and
says in one line how it ended. What it says is the program's own word: judge.py believes it only about the program
itself.

Written for few touched pages: every one that a fork writes to is copied. So streams are made once, in Z, and limits in
C.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import io
import json
import os
import resource
import signal
import sys
import types
from operator import index

from erpo_jax.sandbox import landlock, syscalls, values
from erpo_jax.sandbox.confine import Confinement

TYPE_CHECKING = False  # workers do not load `typing`
if TYPE_CHECKING:
    from typing import Any, NoReturn

REPORT_FD = 63
CONFINED = b"!"
_OPEN_FILES = 64
_STACK = 120 << 20  # the kernel leaves a gap of 128 MiB below the stack, whatever its limit was at the start
_RESERVE = 32 << 20  # address space set free to report a MemoryError
_DEEPEST = 400_000  # frames: an endless recursion is to end in an error within its CPU limit; unwinding costs 2 us each

_set_recursion_limit = sys.setrecursionlimit


class Program:
    """One compiled program with all that is the same on each of its inputs."""

    def __init__(
        self, code: types.CodeType, limits: dict[str, Any], entry_point: str | None, confinement: Confinement
    ) -> None:
        self.code, self.entry_point, self.confinement = code, entry_point, confinement
        self.output_bytes: int = limits["output_bytes"]
        self.supervisor = os.getpid()
        self.exit_code = 0
        space = confinement.base_bytes + (limits["memory_mb"] << 20)
        self.all_space = fitting(resource.RLIMIT_AS, space + _RESERVE, space + _RESERVE)
        cpu = int(limits["cpu_s"]) + 2  # only a backstop: C reads the clock
        self.limits = [
            (resource.RLIMIT_AS, fitting(resource.RLIMIT_AS, space, space + _RESERVE)),
            (resource.RLIMIT_CPU, fitting(resource.RLIMIT_CPU, cpu, cpu + 1)),
            (resource.RLIMIT_FSIZE, (0, 0)),
            (resource.RLIMIT_NOFILE, fitting(resource.RLIMIT_NOFILE, _OPEN_FILES, _OPEN_FILES)),
            (resource.RLIMIT_CORE, (0, 0)),
            (resource.RLIMIT_NPROC, fitting(resource.RLIMIT_NPROC, confinement.processes, confinement.processes)),
            (resource.RLIMIT_STACK, fitting(resource.RLIMIT_STACK, _STACK, None)),
        ]
        # a program for a function is imported as graders import it: its main block, if any, is not for us
        name = "__main__" if entry_point is None else "solution"
        module = types.ModuleType(name)
        self.names = module.__dict__
        self.names.update(__builtins__=builtins, __annotations__={}, __file__="/program.py", __cached__=None)
        sys.modules["__main__"] = sys.modules[name] = module

    def run(self, arguments: str) -> NoReturn:
        """Runs the program, and in function mode calls the entry point on `arguments`. From here the process is the
        program's."""
        try:
            self._confine()
        except BaseException as error:  # not the program's doing: judge.py misses the mark
            os.write(REPORT_FD, f"{type(error).__name__}: {error}".encode())
            os._exit(1)
        try:
            try:
                exec(self.code, self.names)
                if self.entry_point is not None:
                    self._call(self.entry_point, json.loads(arguments))
            except BaseException as error:
                self._fail(error)
            self._finish()
        finally:  # a hook or a signal handler of the program's broke out of its own end
            os._exit(1)

    def _confine(self) -> None:
        """Puts on the limits and the filter, and leaves the mark that says so, which no program can take back."""
        os.closerange(3, REPORT_FD)
        os.closerange(REPORT_FD + 1, 1024)
        confinement = self.confinement
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self.supervisor:
            os._exit(1)
        for name, pair in self.limits:
            resource.setrlimit(name, pair)
        if confinement.landlock:
            landlock.nest(confinement.landlock)
        if confinement.filters is not None:
            confinement.filters.load(os.getpid())
        os.write(REPORT_FD, CONFINED)

    def _call(self, name: str, arguments: list[Any]) -> None:
        solution = self.names.get("Solution")
        if isinstance(solution, type) and hasattr(solution, name):
            function = getattr(solution(), name)
        elif name in self.names:
            function = self.names[name]
        else:
            raise NameError(f"the program defines no {name}")
        value = function(*arguments)
        try:
            self._say(f"value:{values.encode_value(value, self.output_bytes)}")
        except values.NoEncoding as error:
            self.exit_code = 1
            self._say(f"error:{error}")
        except values.TooLarge as error:
            self.exit_code = 1
            self._say(f"output_limit:{error}")

    def _fail(self, error: BaseException) -> None:
        """Ends as the interpreter does on an uncaught exception."""
        if isinstance(error, SystemExit):
            self._exit(error)
            return
        self.exit_code = 1
        if isinstance(error, MemoryError):
            resource.setrlimit(resource.RLIMIT_AS, self.all_space)  # room for what follows
            os.write(REPORT_FD, b"memory:MemoryError")
        else:
            self._say(f"error:{_one_line(error)}")
        self._show(error)

    def _exit(self, request: SystemExit) -> None:
        code = request.code
        if code is None or isinstance(code, int):
            self.exit_code = (code or 0) & 0xFF
        else:
            print(code, file=sys.stderr)
            self.exit_code = 1
        if self.exit_code:
            self._say(f"error:SystemExit: {str(code)[:200]}")

    def _show(self, error: BaseException) -> None:
        try:
            sys.excepthook(type(error), error, error.__traceback__)
        except SystemExit as request:
            self._exit(request)
        except Exception as broken:
            sys.__excepthook__(type(broken), broken, broken.__traceback__)

    def _say(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        while data:
            data = data[os.write(REPORT_FD, data) :]

    def _finish(self) -> NoReturn:
        """Threads, exit handlers, unwritten output and the last finalisers, in the interpreter's order; then the
        end."""
        threading = sys.modules.get("threading")
        for step in (threading._shutdown if threading else _nothing, atexit._run_exitfuncs):
            try:
                step()
            except BaseException as error:
                self._show(error)
        self._flush()
        # what the program's names hold goes now: a file written and never closed is written when it goes
        sys.modules.pop("__main__", None)
        sys.modules.pop("solution", None)
        del self.names, self.code
        gc.collect()
        self._flush()
        os._exit(self.exit_code)

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr, sys.__stdout__):
            try:
                if stream is not None and not getattr(stream, "closed", False):
                    stream.flush()
            except BaseException:
                if not self.exit_code:
                    self.exit_code = 120
                    self._say("error:the output could not be written")


def _nothing() -> None:
    pass


def make_streams() -> None:
    """Gives this process standard streams as a plain interpreter has them on a file and two pipes. Programs inherit the
    objects and get other files below them."""
    first, second, third = os.dup(0), os.dup(1), os.dup(2)
    stdin = os.memfd_create("stdin")
    read_end, write_end = os.pipe()
    for source, target in ((stdin, 0), (write_end, 1), (write_end, 2)):
        os.dup2(source, target)
    sys.stdin = sys.__stdin__ = _stream(0, "r", "surrogateescape", "<stdin>")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w", "surrogateescape", "<stdout>")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w", "backslashreplace", "<stderr>")  # type: ignore[misc]
    for source, target in ((first, 0), (second, 1), (third, 2)):
        os.dup2(source, target)
    for number in (first, second, third, stdin, read_end, write_end):
        os.close(number)


def _stream(number: int, mode: str, errors: str, name: str) -> io.TextIOWrapper:
    raw = io.FileIO(number, mode, closefd=False)
    raw.name = name
    buffer = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    by_line = number == 2
    stream = io.TextIOWrapper(buffer, "utf-8", errors, newline="\n", line_buffering=by_line)  # type: ignore[type-var]
    stream.mode = mode  # type: ignore[misc]
    return stream


def own_recursion_limit(frames: int) -> None:
    """A recursion limit that counts as in a plain interpreter, from a program that starts `frames` deep, and stops at
    the deepest."""
    shown = [1000]
    _set_recursion_limit(shown[0] + frames)

    def setrecursionlimit(limit: int, /) -> None:
        wanted = index(limit)
        _set_recursion_limit(min(wanted + frames, _DEEPEST) if 0 < wanted <= 0x7FFF_FFFF else wanted)
        shown[0] = wanted

    def getrecursionlimit() -> int:
        return shown[0]

    sys.setrecursionlimit, sys.getrecursionlimit = setrecursionlimit, getrecursionlimit


def fitting(name: int, soft: int, hard: int | None) -> tuple[int, int]:
    """The pair of limits nearest to the wish that this process may set. `hard` None leaves the hard limit as it is."""
    ceiling = resource.getrlimit(name)[1]
    if hard is None or (ceiling != resource.RLIM_INFINITY and hard > ceiling):
        hard = ceiling
    return (soft if hard == resource.RLIM_INFINITY else min(soft, hard)), hard


def _one_line(error: BaseException) -> str:
    try:
        message = str(error)[:200]
    except Exception:
        message = ""
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "program.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f" (line {line})" if line else ""
    return f"{type(error).__name__}: {message}{where}".replace("\n", " ")
