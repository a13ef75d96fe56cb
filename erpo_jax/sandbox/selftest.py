"""Known programs, good and hostile, one at least per verdict: what a tier must do right before anything is run in
it."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence

from erpo_jax.sandbox.outcome import Job, Limits, Outcome

Run = Callable[[Sequence[Job]], list[list[Outcome]]]

_SHORT = Limits(cpu_s=0.2, memory_mb=96, output_bytes=10_000, wall_s=2.0)
# input: a file outside and a secret. Prints what it could do of what a program must not
_ESCAPES = """
import errno, os, socket
path, secret, writable = input(), input(), input()
def attempt(name, action):
    try:
        action()
    except OSError as error:
        if name == "exec" and error.errno != errno.EPERM:
            print(name)
    else:
        print(name)
def read():
    if secret not in open(path).read():
        raise OSError
def fork():
    if os.fork() == 0:
        os._exit(0)
attempt("read", read)
for folder in (writable, "/tmp", "/dev/shm", "."):
    attempt("write", lambda: open(os.path.join(folder, secret), "w"))
attempt("fork", fork)
attempt("exec", lambda: os.execv("/nonexistent", ["x"]))
attempt("kill", lambda: os.kill(os.getppid(), 0))
attempt("socket", socket.socket)
if os.environ.get("ERPO_SANDBOX_CANARY"):
    print("environment")
"""
_ALLOWED = {"namespaces": "", "landlock": "", "seccomp": "read\n"}


def failures(run: Run, tier: str) -> list[str]:
    """What `run` gets wrong, a line each."""
    with _canary() as (path, secret):
        escapes = Job(_ESCAPES, (f"{path}\n{secret}\n{os.path.dirname(path)}\n",), limits=Limits(cpu_s=5.0))
        cases: list[tuple[str, Job, Outcome]] = [
            ("a sum", Job("print(sum(map(int, input().split())))", ("1 2 3\n",)), Outcome("ok", "6\n")),
            ("a function", Job("def f(x): return [x, 2.5]", ("[1]",), "function", "f"), Outcome("ok", '["l",1,2.5]')),
            ("an endless loop", Job("while True: pass", ("",), limits=_SHORT), Outcome("timeout")),
            ("too much memory", Job("x = bytearray(1 << 30)", ("",), limits=_SHORT), Outcome("memory")),
            ("endless output", Job("while 1: print('y')", ("",), limits=_SHORT), Outcome("output_limit", "y\n" * 5000)),
            ("an exception", Job("1 / 0", ("",)), Outcome("error")),
            ("no program", Job(None, ("",)), Outcome("no_program")),
        ]
        if tier != "unsafe":
            cases.append(("escapes", escapes, Outcome("ok", _ALLOWED[tier])))
        found = run([job for _, job, _ in cases])
        left = os.listdir(os.path.dirname(path))
    wrong = [
        f"{name}: expected {_shown(wanted)}, got {_shown(outcomes[0])}"
        for (name, _, wanted), outcomes in zip(cases, found, strict=True)
        if (outcomes[0].verdict, outcomes[0].output) != (wanted.verdict, wanted.output)
    ]
    if tier != "unsafe" and len(left) > 1:
        wrong.append("escapes: a program wrote a file")
    return wrong


@contextlib.contextmanager
def _canary() -> Iterator[tuple[str, str]]:
    """A file that every user of this machine may read, with a secret; and the same in our environment."""
    secret = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = os.path.join(folder, "canary")
        with open(path, "w") as file:
            file.write(secret)
        os.environ["ERPO_SANDBOX_CANARY"] = secret
        try:
            yield path, secret
        finally:
            del os.environ["ERPO_SANDBOX_CANARY"]


def _shown(outcome: Outcome) -> str:
    output = "" if outcome.output is None else f" with {outcome.output[:60]!r}"
    return f"{outcome.verdict}{output}" + (f" ({outcome.detail})" if outcome.detail else "")
