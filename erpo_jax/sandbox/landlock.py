"""Landlock: a process gives up every file but the ones named, and reaching out to other processes and to the network.

Left out: nothing is undone; a domain holds for the process and all it starts. Needs Linux 5.13; what newer kernels add
(network from ABI 4, signals and abstract sockets from ABI 6) is used where it is there, and seccomp denies it anyway.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

from erpo_jax.sandbox.syscalls import LANDLOCK_ADD, LANDLOCK_CREATE, LANDLOCK_RESTRICT, syscall

_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_PATH_BENEATH = 1


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def abi() -> int:
    """The kernel's Landlock version, 0 without Landlock."""
    try:
        return syscall(LANDLOCK_CREATE, 0, 0, 1, name="landlock_create_ruleset")
    except OSError:
        return 0


def restrict(version: int, readable: Iterable[str], writable: Iterable[str] = (), hidden: Iterable[str] = ()) -> None:
    """Leaves this process only reads beneath `readable` (less the folders `hidden`, which stand directly in one of
    them), and writes to the files `writable`. Needs no_new_privs."""
    handled = _Ruleset((1 << _FS_BITS[min(version, 5)]) - 1, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = syscall(LANDLOCK_CREATE, ctypes.byref(handled), size, 0, name="landlock_create_ruleset")
    try:
        covered = set(hidden)
        for path in readable:
            inside = [name for name in covered if os.path.dirname(name) == path]
            if not inside:
                _allow(ruleset, path, _READ_FILE | _READ_DIR)
                continue
            _allow(ruleset, path, _READ_DIR)
            for entry in sorted(os.listdir(path)):
                full = os.path.join(path, entry)
                if full not in covered:
                    _allow(ruleset, full, _READ_FILE | _READ_DIR)
        for path in writable:
            _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
        syscall(LANDLOCK_RESTRICT, ruleset, 0, name="landlock_restrict_self")
    finally:
        os.close(ruleset)


def nest(version: int) -> None:
    """A domain within the domain: same files, and from now on neither signals nor traces reach what stands outside
    it."""
    # it must handle something to be a domain; making block devices was never allowed outside either
    handled = _Ruleset(1 << 11, 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 8
    ruleset = syscall(LANDLOCK_CREATE, ctypes.byref(handled), size, 0, name="landlock_create_ruleset")
    syscall(LANDLOCK_RESTRICT, ruleset, 0, name="landlock_restrict_self")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # gone, or not to be reached: then there is nothing to allow
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= ~_READ_DIR
        rule = _Beneath(rights, handle)
        syscall(LANDLOCK_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0, name="landlock_add_rule")
    finally:
        os.close(handle)
