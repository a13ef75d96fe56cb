"""The system calls a program may make: an allowlist, everything else is EPERM, foreign architectures are killed.

Denied, and so not to be found below: fork, exec, kill, ptrace, process_vm, sockets (but one kind of pair), memfd,
shared memory, bpf, io_uring, keyctl, unshare, mount. `clone` makes threads only. `fcntl` and `ioctl` are lists too,
because owner and signal commands reach other processes. Left out: architectures other than x86_64 and aarch64.
"""

from __future__ import annotations

import os
import sys

from erpo_jax.sandbox.syscalls import Filter

_AUDIT_ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}

# name: (x86_64, aarch64); None where the architecture has no such call
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # files already open, and reading
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "stat": (4, None),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "lseek": (8, 62),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "getcwd": (79, 17),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getdents64": (217, 61),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "close_range": (436, 436),
    # waiting
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "epoll_create": (213, None),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_wait": (232, None),
    "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441),
    "eventfd2": (290, 19),
    "pause": (34, None),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "wait4": (61, 260),
    "waitid": (247, 95),
    "restart_syscall": (219, 128),
    # memory
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "mincore": (27, 232),
    "madvise": (28, 233),
    "membarrier": (324, 283),
    # signals and timers of its own
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137),
    "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132),
    "alarm": (37, None),
    "getitimer": (36, 102),
    "setitimer": (38, 103),
    # threads
    "set_robust_list": (273, 99),
    "get_robust_list": (274, 100),
    "set_tid_address": (218, 96),
    "rseq": (334, 293),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "sched_getscheduler": (145, 120),
    "sched_getparam": (143, 121),
    "sched_get_priority_max": (146, 125),
    "sched_get_priority_min": (147, 126),
    "getcpu": (309, 168),
    "exit": (60, 93),
    "exit_group": (231, 94),
    # who and when
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getppid": (110, 173),
    "getpgrp": (111, None),
    "getpgid": (121, 155),
    "getsid": (124, 156),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getresuid": (118, 148),
    "getresgid": (120, 150),
    "getgroups": (115, 158),
    "uname": (63, 160),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "getpriority": (140, 141),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "time": (201, None),
    "gettimeofday": (96, 169),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "getrandom": (318, 278),
    # ends of a socket pair
    "shutdown": (48, 210),
    "getsockname": (51, 204),
    "getpeername": (52, 205),
    "getsockopt": (55, 209),
    # with a look at the arguments, below
    "open": (2, None),
    "openat": (257, 56),
    "clone": (56, 220),
    "clone3": (435, 435),
    "prlimit64": (302, 261),
    "tgkill": (234, 131),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
    "prctl": (157, 167),
    "socketpair": (53, 199),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "futex": (202, 98),
}
_LOOKED_AT = (
    "open",
    "openat",
    "clone",
    "clone3",
    "prlimit64",
    "tgkill",
    "ioctl",
    "fcntl",
    "prctl",
    "socketpair",
    "sendto",
    "recvfrom",
    "futex",
)

_LOAD, _AND, _EQUAL, _GREATER_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF_0000, 0x8000_0000, 0x0005_0001, 0x0005_0026

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND  # O_TMPFILE needs one of the first two
_THREAD = 0x0001_0000
_RLIMIT_CPU, _SIGKILL = 0, 9
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ, F_GET_SEALS
_FCNTLS = (0, 1, 2, 3, 4, 1030, 1032, 1034)
# PR_SET_NAME, PR_GET_NAME
_PRCTLS = (15, 16)
# FUTEX_WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET: none that inherits priority
_FUTEXES = (0, 1, 3, 4, 5, 9, 10)
_FUTEX_COMMAND, _OUT_OF_BAND = 0x7F, 1

_Code = list[tuple[int, int, int, int]]


def supported() -> bool:
    """Whether this machine's architecture has a table here."""
    return sys.platform == "linux" and os.uname().machine in _AUDIT_ARCH and sys.byteorder == "little"


def build(deny_writing: bool) -> Filter:
    """The filter of this architecture. `deny_writing` refuses to open any file for writing."""
    machine = os.uname().machine
    column = list(_AUDIT_ARCH).index(machine)
    number = {name: pair[column] for name, pair in _NUMBERS.items() if pair[column] is not None}
    code: _Code = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
    ]
    own_pid_at: list[int] = []
    for name in _LOOKED_AT:
        if name not in number:
            continue
        block, pid_slots = _block(name, deny_writing)
        own_pid_at += [len(code) + 1 + slot for slot in pid_slots]
        code += [(_EQUAL, 0, len(block), number[name] or 0), *block]
    plain = sorted(value or 0 for name, value in number.items() if name not in _LOOKED_AT)
    code += _search(_borders(plain), allowed=False)
    return Filter(code, own_pid_at)


def _low(argument: int) -> tuple[int, int, int, int]:
    return (_LOAD, 0, 0, 16 + 8 * argument)


def _high(argument: int) -> tuple[int, int, int, int]:
    return (_LOAD, 0, 0, 20 + 8 * argument)


def _one_of(values: tuple[int, ...]) -> _Code:
    """Allows when the accumulator is one of `values`, else EPERM."""
    tests: _Code = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [*tests, (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]


def _block(name: str, deny_writing: bool) -> tuple[_Code, list[int]]:
    """What follows once the call is known to be `name`; ends in a return on every path. And where its own pid goes."""
    if name in ("open", "openat"):
        if not deny_writing:
            return [(_RETURN, 0, 0, _ALLOW)], []
        flags = 1 if name == "open" else 2
        return [_low(flags), (_ANY_BIT, 0, 1, _WRITING), (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)], []
    if name == "clone":
        return [_low(0), (_ANY_BIT, 1, 0, _THREAD), (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)], []
    if name == "clone3":
        return [(_RETURN, 0, 0, _ENOSYS)], []  # its flags lie in memory; libc falls back to clone
    if name == "prlimit64":  # its own limits, but never the CPU's: that ends in a SIGKILL nobody could tell from ours
        own_pid: _Code = [_low(0), (_EQUAL, 2, 0, 0), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _EPERM)]
        no_new_limit: _Code = [
            _low(2),
            (_EQUAL, 0, 3, 0),
            _high(2),
            (_EQUAL, 0, 1, 0),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _EPERM),
        ]
        return [*own_pid, _low(1), (_EQUAL, 1, 0, _RLIMIT_CPU), (_RETURN, 0, 0, _ALLOW), *no_new_limit], [2]
    if name == "tgkill":  # itself, and not with what C takes for its own doing
        return [
            _low(0),
            (_EQUAL, 1, 0, 0),
            (_RETURN, 0, 0, _EPERM),
            _low(2),
            (_EQUAL, 1, 0, _SIGKILL),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _EPERM),
        ], [1]
    if name == "ioctl":
        return [_low(1), *_one_of(_IOCTLS)], []
    if name == "fcntl":
        return [_low(1), *_one_of(_FCNTLS)], []
    if name == "prctl":
        return [_low(0), *_one_of(_PRCTLS)], []
    if name == "socketpair":
        unix, stream = 1, 1
        return [
            _low(0),
            (_EQUAL, 1, 0, unix),
            (_RETURN, 0, 0, _EPERM),
            _low(1),
            (_AND, 0, 0, 0xF),
            *_one_of((stream,)),
        ], []
    if name == "futex":
        return [_low(1), (_AND, 0, 0, _FUTEX_COMMAND), *_one_of(_FUTEXES)], []
    # a pair is for plain bytes: no message out of band, and no address to send to
    in_band: _Code = [_low(3), (_ANY_BIT, 0, 1, _OUT_OF_BAND), (_RETURN, 0, 0, _EPERM)]
    if name == "recvfrom":
        return [*in_band, (_RETURN, 0, 0, _ALLOW)], []
    assert name == "sendto"
    return [
        *in_band,
        _low(4),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _EPERM),
        _high(4),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ], []


def _borders(numbers: list[int]) -> list[int]:
    """Where allowed turns to denied and back, walking up from 0: [first allowed, first denied after it, ...]."""
    borders: list[int] = []
    for value in numbers:
        if borders and borders[-1] == value:
            borders[-1] = value + 1
        else:
            borders += [value, value + 1]
    return borders


def _search(borders: list[int], allowed: bool) -> _Code:
    """A binary search of the accumulator among the borders; `allowed` is the state below the first one."""
    if not borders:
        return [(_RETURN, 0, 0, _ALLOW if allowed else _EPERM)]
    middle = len(borders) // 2
    below = _search(borders[:middle], allowed)
    above = _search(borders[middle + 1 :], allowed ^ (middle % 2 == 0))
    if len(below) > 255:
        raise AssertionError("the seccomp program is too long for one jump")
    return [(_GREATER_EQUAL, len(below), 0, borders[middle]), *below, *above]
