"""Z, the process every program is forked from. It enters the sandbox, imports what programs like to use, and takes jobs
one by one from the trainer: a fork (C, candidate.py) for each. It never runs a program and ends when the trainer does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import site
import sys

from erpo_jax.sandbox import candidate, prelude, syscalls, wire
from erpo_jax.sandbox.confine import Confinement, confine
from erpo_jax.sandbox.program import make_streams, own_recursion_limit

TYPE_CHECKING = False  # workers do not load `typing`
if TYPE_CHECKING:
    from typing import Any, NoReturn

# more costs every fork; what else a program imports is imported once for its candidate (prelude.py)
_PRELOADED = {"bisect", "collections", "functools", "heapq", "itertools", "math", "operator", "random", "re"}
# from boot.py down to a program's first frame; before 3.12 calls of C functions count too
_FRAMES = 7 if sys.version_info < (3, 12) else 6


def main(argument: str) -> NoReturn:
    """Serves jobs for ever."""
    settings = json.loads(argument)
    _without_randomisation(settings)
    link, parent = _low(settings["link"]), _low(settings["parent"])
    try:
        confinement = confine(settings["tier"], settings["packages"], settings["hidden"], link)
        _prepare(settings)
        confinement.measure()
    except Exception as error:  # nobody sees this process's standard error
        wire.send(link, wire.pack({"failed": f"{type(error).__name__}: {error}"}))
        os._exit(1)
    wire.send(link, wire.pack({"ready": sys.version.split()[0]}))
    gc.collect()
    gc.freeze()
    _serve(link, parent, confinement)


def _low(number: int) -> int:
    """The descriptor under a low number of its own: one of a trainer with thousands is above what programs close."""
    low = os.dup(number)
    os.close(number)
    return low


def _without_randomisation(settings: dict[str, Any]) -> None:
    """Starts over with fixed addresses: the order of a set of objects hangs on them."""
    if settings.get("restarted"):
        return
    if syscalls.without_address_randomisation():
        again = json.dumps({**settings, "restarted": True})
        os.execv(sys.executable, [sys.executable, *settings["flags"], sys.argv[0], again])


def _prepare(settings: dict[str, Any]) -> None:
    """Makes this interpreter what a program expects to find, and small to fork."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != here] + settings["packages"]
    sys.path_importer_cache.clear()
    # what `site` does for a plain interpreter, without its search for packages and the code these may run
    site.setquit()
    site.sethelper()
    site.setcopyright()
    for name in settings["drop_environment"]:
        os.environ.pop(name, None)
    prelude.import_modules(_PRELOADED)
    if settings["preload_numpy"]:
        numpy = importlib.import_module("numpy")
        numpy.random.seed(0)
    importlib.import_module("random").seed(0)
    sys.set_int_max_str_digits(0)
    sys.argv[:] = ["program.py"]
    make_streams()
    own_recursion_limit(_FRAMES)
    for name in [name for name in sys.modules if name.startswith("erpo_jax")]:
        del sys.modules[name]


def _serve(link: int, parent: int, confinement: Confinement) -> NoReturn:
    own_pid = os.getpid()
    waiting = select.poll()
    waiting.register(link, select.POLLIN)
    waiting.register(parent, select.POLLIN)
    while True:
        if parent in dict(waiting.poll()):
            os._exit(0)
        frame = wire.receive(link)
        if frame is None:
            os._exit(0)
        frames = [frame]
        del frame
        stage_read, stage_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(stage_read)
                os.close(parent)
                candidate.run(frames, link, stage_write, own_pid, confinement)
            finally:  # whatever broke, these frames are Z's
                os._exit(1)
        frames.clear()
        os.close(stage_write)
        _watch(pid, link, parent)
        compiled = bool(os.read(stage_read, 1))
        os.close(stage_read)
        _, status = os.waitpid(pid, 0)
        _reap()
        if status and compiled:
            os._exit(1)  # the stream may end within a frame: the trainer starts a fresh worker
        if status:
            wire.send(link, wire.pack({"every": candidate.compiler_broke(status)}))


def _watch(pid: int, link: int, parent: int) -> None:
    """Waits until C has ended. Ends with the trainer."""
    handle = os.pidfd_open(pid)
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    waiting.register(parent, select.POLLIN)
    waiting.register(link, 0)  # no news but that the other end is gone
    ready = dict(waiting.poll())
    if parent in ready or link in ready:
        os.kill(pid, signal.SIGKILL)
        os._exit(0)
    os.close(handle)


def _reap() -> None:
    """Process 1 inherits what a killed C leaves behind."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return
