"""System calls that the standard library does not offer, through ctypes. Linux only; importing it is safe anywhere.

Every call raises OSError with the call's name when the kernel refuses.
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # workers do not load `typing`
if TYPE_CHECKING:
    from typing import Any

NEW_NS, NEW_CGROUP, NEW_UTS, NEW_IPC = 0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000
NEW_USER, NEW_PID, NEW_NET = 0x1000_0000, 0x2000_0000, 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
ADDR_NO_RANDOMIZE = 0x0004_0000

# one number on every architecture
MOUNT_SETATTR, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 442, 444, 445, 446
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_AT_RECURSIVE = 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def _checked(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: Any, name: str = "syscall") -> int:
    """A raw system call. Integers are passed as 64-bit values, bytes and pointers as they are."""
    wide = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    return _checked(int(_libc.syscall(ctypes.c_long(number), *wide)), name)


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def prctl(option: int, second: int = 0, third: int = 0) -> None:
    _checked(_libc.prctl(option, second, third, 0, 0), f"prctl({option})")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    _checked(
        _libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() if kind else None,
            flags,
            options.encode() if options else None,
        ),
        f"mount {target}",
    )


def unmount(target: str) -> None:
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    syscall(_PIVOT_ROOT[os.uname().machine], os.fsencode(new), os.fsencode(old), name="pivot_root")


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def make_read_only(target: str, devices: bool = False) -> None:
    """Remounts `target` and all below it read-only, without set-uid and (unless `devices`) without device nodes."""
    attr = _MountAttr(_ATTR_RDONLY | _ATTR_NOSUID | (0 if devices else _ATTR_NODEV), 0, 0, 0)
    try:
        syscall(
            MOUNT_SETATTR,
            -100,
            os.fsencode(target),
            _AT_RECURSIVE,
            ctypes.byref(attr),
            ctypes.sizeof(attr),
            name=f"mount_setattr {target}",
        )
    except OSError:
        # before Linux 5.12: only the top mount, and flags locked by the outer namespace must be repeated
        flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | (0 if devices else MS_NODEV)
        mount("none", target, None, flags | (os.statvfs(target).f_flag & (MS_NODEV | MS_NOEXEC)))


def set_host_name(name: str) -> None:
    raw = name.encode()
    _checked(_libc.sethostname(raw, ctypes.c_size_t(len(raw))), "sethostname")


def without_address_randomisation() -> bool:
    """Turns address randomisation off for the next exec. False if that was so already, or is not allowed."""
    current = _libc.personality(ctypes.c_ulong(0xFFFF_FFFF))
    if current < 0 or current & ADDR_NO_RANDOMIZE:
        return False
    return bool(_libc.personality(ctypes.c_ulong(current | ADDR_NO_RANDOMIZE)) >= 0)


class _CapHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapData(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


def drop_all_capabilities() -> None:
    """Empties the bounding, ambient, effective, permitted and inheritable sets of this process for good."""
    for number in range(64):
        try:
            prctl(PR_CAPBSET_DROP, number)
        except OSError:
            break  # past the last capability, or none held that allows it: the empty sets below are what counts
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    empty = (_CapData * 2)()
    _checked(_libc.capset(ctypes.byref(_CapHeader(0x2008_0522, 0)), ctypes.byref(empty)), "capset")
    prctl(PR_SET_NO_NEW_PRIVS, 1)


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction))]


class Filter:
    """A seccomp program ready to load; `patch` sets constants that only the process itself knows."""

    def __init__(self, instructions: list[tuple[int, int, int, int]], own_pid_at: list[int]) -> None:
        self._array = (_Instruction * len(instructions))(*[_Instruction(*item) for item in instructions])
        self._program = _Program(len(instructions), self._array)
        self._address = ctypes.addressof(self._program)
        self._own_pid_at = own_pid_at

    def load(self, pid: int) -> None:
        """Puts this thread under the filter for good."""
        for index in self._own_pid_at:
            self._array[index].k = pid
        _checked(_libc.prctl(PR_SET_SECCOMP, 2, self._address, 0, 0), "seccomp")
