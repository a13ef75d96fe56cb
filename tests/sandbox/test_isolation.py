"""Ways out, tried one by one in each tier: system calls by number, other processes, files, memory, threads,
descriptors."""

import os
import platform
import resource
from collections.abc import Callable

import pytest

from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox, seccomp

RunOne = Callable[..., Outcome]

# name -> (number on x86_64, on aarch64, arguments): each must fail with EPERM, whatever the arguments mean
DENIED = {
    "fork": (57, None, "0"),
    "vfork": (58, None, "0"),
    "clone without CLONE_THREAD": (56, 220, "17, 0, 0, 0, 0"),
    "execve": (59, 221, "b'/bin/true', 0, 0"),
    "execveat": (322, 281, "-100, b'/bin/true', 0, 0, 0"),
    "kill": (62, 129, "getpid(), 0"),
    "tkill": (200, 130, "getpid(), 0"),
    "tgkill another": (234, 131, "1, 1, 0"),
    "tgkill itself with SIGKILL": (234, 131, "getpid(), getpid(), 9"),
    "rt_sigqueueinfo": (129, 138, "getpid(), 0, 0"),
    "pidfd_open": (434, 434, "1, 0"),
    "pidfd_send_signal": (424, 424, "1, 9, 0, 0"),
    "ptrace": (101, 117, "0, 0, 0, 0"),
    "process_vm_readv": (310, 270, "1, 0, 0, 0, 0, 0"),
    "process_vm_writev": (311, 271, "1, 0, 0, 0, 0, 0"),
    "socket": (41, 198, "2, 1, 0"),
    "socket unix": (41, 198, "1, 2, 0"),
    "socketpair of datagrams": (53, 199, "1, 2, 0, create_string_buffer(8)"),
    "connect": (42, 203, "0, 0, 0"),
    "bind": (49, 200, "0, 0, 0"),
    "sendto an address": (44, 206, "1, b'x', 1, 0, b'address', 7"),
    "sendto out of band": (44, 206, "1, b'x', 1, 1, 0, 0"),
    "recvfrom out of band": (45, 207, "1, 0, 0, 1, 0, 0"),
    "setsockopt": (54, 208, "1, 1, 26, create_string_buffer(16), 16"),
    "sendmsg": (46, 211, "1, 0, 0"),
    "memfd_create": (319, 279, "b'x', 0"),
    "shmget": (29, 194, "0, 4096, 0o1600"),
    "msgget": (68, 186, "0, 0o1600"),
    "semget": (64, 190, "0, 1, 0o1600"),
    "mq_open": (240, 180, "b'x', 66, 0, 0"),
    "bpf": (321, 280, "0, 0, 0"),
    "io_uring_setup": (425, 425, "1, 0"),
    "io_setup": (206, 0, "1, create_string_buffer(8)"),
    "futex that lends priority": (202, 98, "create_string_buffer(8), 6, 0, 0, 0, 0"),
    "timer_create": (222, 107, "0, 0, create_string_buffer(8)"),
    "inotify_init1": (294, 26, "0"),
    "fanotify_init": (300, 262, "0, 0"),
    "vmsplice": (278, 75, "1, 0, 0, 0"),
    "splice": (275, 76, "0, 0, 1, 0, 1, 0"),
    "sendfile": (40, 71, "1, 0, 0, 1"),
    "memfd_secret": (447, 447, "0"),
    "pkey_alloc": (330, 289, "0, 0"),
    "migrate_pages": (256, 238, "0, 8, 0, 0"),
    "mlockall": (151, 230, "3"),
    "keyctl": (250, 219, "0, 0"),
    "add_key": (248, 217, "0, 0, 0, 0, 0"),
    "unshare": (272, 97, "0x10000000"),
    "setns": (308, 268, "0, 0"),
    "mount": (165, 40, "0, 0, 0, 0, 0"),
    "umount2": (166, 39, "b'/', 2"),
    "pivot_root": (155, 41, "b'/', b'/'"),
    "chroot": (161, 51, "b'/'"),
    "seccomp": (317, 277, "0, 0, 0"),
    "prctl dumpable": (157, 167, "4, 1, 0, 0, 0"),
    "prctl parent's death": (157, 167, "1, 0, 0, 0, 0"),
    "perf_event_open": (298, 241, "0, 0, 0, 0, 0"),
    "userfaultfd": (323, 282, "0"),
    "setuid": (105, 146, "0"),
    "setresuid": (117, 147, "0, 0, 0"),
    "capset": (126, 91, "0, 0"),
    "personality": (135, 92, "0"),
    "setrlimit": (160, 164, "0, create_string_buffer(16)"),
    "sched_setscheduler": (144, 119, "0, 1, create_string_buffer(8)"),
    "sched_setattr": (314, 274, "0, create_string_buffer(64), 0"),
    "ioprio_set": (251, 30, "1, 0, 0"),
    "setsid": (112, 157, "0"),
    "setpgid": (109, 154, "0, 0"),
    "clock_settime": (227, 112, "0, create_string_buffer(16)"),
    "sethostname": (170, 161, "b'x', 1"),
    "setpriority": (141, 140, "0, 1, 5"),
    "sched_setaffinity": (203, 122, "1, 8, 0"),
    "prlimit of another": (302, 261, "1, 7, 0, 0"),
    "prlimit of CPU": (302, 261, "0, 0, create_string_buffer(16), 0"),
    "fcntl owner": (72, 25, "1, 8, 1"),
    "fcntl signal": (72, 25, "1, 10, 9"),
    "fcntl pipe size": (72, 25, "1, 1031, 1 << 20"),
    "ioctl owner": (16, 29, "1, 0x8901, create_string_buffer(8)"),
    "ioctl fake input": (16, 29, "0, 0x5412, b'x'"),
    "flock": (73, 32, "0, 2"),
    "ftruncate": (77, 46, "0, 0"),
    "fallocate": (285, 47, "0, 0, 0, 1"),
    "memory file's seals": (72, 25, "0, 1033, 0"),
    "unlink": (87, None, "b'/x'"),
    "unlinkat": (263, 35, "-100, b'/x', 0"),
    "mkdirat": (258, 34, "-100, b'/tmp/x', 0o777"),
    "renameat2": (316, 276, "0, 0, 0, 0, 0"),
    "linkat": (265, 37, "0, 0, 0, 0, 0"),
    "chmod": (268, 53, "-100, b'/', 0o777"),
    "truncate": (76, 45, "b'/x', 0"),
    "name_to_handle_at": (303, 264, "-100, b'/', 0, 0, 0"),
    "open_tree": (428, 428, "-100, b'/', 1"),
    "fsopen": (430, 430, "b'tmpfs', 0"),
    "mount_setattr": (442, 442, "-100, b'/', 0, 0, 0"),
    "openat2": (437, 437, "0, 0, 0, 0"),
    "open_by_handle_at": (304, 265, "0, 0, 0"),
    "landlock_restrict_self": (446, 446, "0, 0"),
    "reboot": (169, 142, "0, 0, 0, 0"),
    "syslog": (103, 116, "3, 0, 0"),
    "kcmp": (312, 272, "1, 1, 0, 0, 0"),
    "process_madvise": (440, 440, "0, 0, 0, 0, 0"),
    "a number far too large": (99999, 99999, "0"),
    "x32 fork": (0x40000000 + 57, None, "0"),
}
CALLS = (
    "from ctypes import *\nfrom os import getpid\nlibc = CDLL(None, use_errno=True)\nlibc.syscall.restype = c_long\n"
)


DESCRIPTORS = """
import os
found = []
for n in range(4000):
    try: os.fstat(n); found.append(n)
    except OSError: pass
print(found)
"""


def test_the_table_of_calls_is_for_this_machine() -> None:
    assert seccomp.supported()


def test_denied_system_calls(each: Sandbox, run_one: RunOne) -> None:
    column = 0 if platform.machine() == "x86_64" else 1
    lines = [CALLS]
    for name, entry in DENIED.items():
        if entry[column] is not None:
            lines.append(
                f"set_errno(0)\nr = libc.syscall({entry[column]}, {entry[2]})\n"
                f"if (r, get_errno()) != (-1, 1): print({name!r}, r, get_errno())"
            )
    lines.append("r = libc.syscall(435, 0, 0)\nif (r, get_errno()) != (-1, 38): print('clone3', r, get_errno())")
    outcome = run_one(each, "\n".join(lines))
    assert (outcome.verdict, outcome.output) == ("ok", "")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other call table is x86's")
def test_the_32_bit_call_table_is_death(each: Sandbox, run_one: RunOne) -> None:
    # mov eax, 20 (getpid there); int 0x80; ret
    program = (
        "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()\nprint('alive')"
    )
    outcome = run_one(each, program)
    assert (outcome.verdict, outcome.detail) == ("error", "SIGSYS")


@pytest.mark.parametrize(
    "program",
    [
        "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 6\nprint(asyncio.run(f()))",
        (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(8) as pool: print(sum(pool.map(int, '123')))"
        ),
        (
            "import threading\nthreading.stack_size(1 << 26)\n"
            "t = threading.Thread(target=lambda: print(6))\nt.start()\nt.join()"
        ),
        "import threading\nt = threading.Timer(0.02, print, [6])\nt.start()",
        (
            "import signal, time\nsignal.signal(signal.SIGALRM, lambda *_: print(6))\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.02)\ntime.sleep(0.1)"
        ),
        "import socket\na, b = socket.socketpair()\na.send(b'6')\nprint(b.recv(1).decode())",
        (
            "import resource\n"
            "resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, "
            "resource.getrlimit(resource.RLIMIT_STACK)[1]))\nprint(6)"
        ),
        (
            "import decimal, fractions, statistics, json, zlib, hashlib, base64, datetime, array, unittest, "
            "logging, queue, bisect\nprint(6)"
        ),
        "import os, sys\nos.write(1, b'6\\n')\nsys.stdout.close()",
        "import ctypes\nprint(ctypes.CDLL(None).abs(-6))",
        "import atexit\n@atexit.register\ndef _(): print(6)",
        "f = open(1, 'w')\nf.write('6\\n')",
        "class A:\n    def __del__(self): print(6)\na = A()",
        "class A:\n    def __del__(self): print(6)\na = A()\na.a = a",
        "import sys, io\nsys.stdout = io.TextIOWrapper(open(1, 'wb', closefd=False))\nprint(6)",
        (
            "import sys\nout = []\nclass W:\n    def write(self, s): out.append(s)\n"
            "    def flush(self): pass\nold = sys.stdout\nsys.stdout = W()\nprint(6)\n"
            "old.write(''.join(out))"
        ),
        "import warnings\nwarnings.warn('x')\nassert 1\nprint(6 if __debug__ else 5)",
        "from random import *\nseed(1)\nprint(randrange(5, 7) and 6)",
        "import getpass, time, locale, platform, tempfile, pathlib\nprint(6)",
        "import os\nr, w = os.pipe()\nos.write(w, b'6')\nprint(os.read(r, 1).decode())",
        "import select, os\nr, w = os.pipe()\ne = select.epoll()\ne.register(w)\nprint(6 if e.poll(1) else 5)",
        "exec('x=' * 10**5 + '6')\nprint(x)",
        "import sys\nsys.excepthook = lambda *_: print(6) or sys.exit(0)\nraise ValueError",
    ],
)
def test_what_ordinary_programs_do_works(each: Sandbox, run_one: RunOne, program: str) -> None:
    outcome = run_one(each, program)
    assert (outcome.verdict, (outcome.output or "").strip()) == ("ok", "6"), outcome.detail


@pytest.mark.parametrize(
    "program",
    [
        (
            "import threading, time\nthreading.stack_size(1 << 15)\n"
            "while True: threading.Thread(target=time.sleep, args=(99,)).start()"
        ),
        "import threading\ndef f():\n    threading.Thread(target=f).start()\n    f()\nf()",
        "import os\nwhile True: os.pipe()",
        "x = []\nwhile True: x.append(open('/dev/null'))",
        "import socket\nx = []\nwhile True: x.append(socket.socketpair())",
        "import mmap\nx = [mmap.mmap(-1, 1 << 28) for _ in range(100)]",
        "import sys\nsys.stdout.write('x' * (1 << 30))",
        "x = 'a' * (1 << 29)\ny = x * 8",
        "import re\nre.match('(a*)*b', 'a' * 40)",
        "while True: input()",
        "import sys\nsys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**5): x = [x]\nrepr(x)",
        "def f(): f()\nf()",
        "import os, signal\nsignal.raise_signal(signal.SIGKILL)",
        "import ctypes\nctypes.memset(0, 0, 1)",
        "import os\nos.abort()",
        "eval('(' * 10**5)",
        "compile('-' * 10**6 + '1', '', 'eval')",
        "import faulthandler\nfaulthandler._sigsegv()",
        "import os\nos.dup2(0, 63)\nos.close(1)\nprint(1)",
        "import time\nwhile True: time.sleep(0.001)",
        "import atexit\natexit.register(lambda: exec('while True: pass'))",
        "class A:\n    def __del__(self):\n        while True: pass\na = A()",
        "import threading\nthreading.Thread(target=lambda: exec('while True: pass')).start()",
        "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
        (
            "import sys\nclass W:\n    def flush(self):\n        while True: pass\n"
            "    def write(self, s): pass\nsys.stdout = W()"
        ),
    ],
)
def test_misuse_ends_by_itself_and_the_next_program_runs(sandbox: Sandbox, run_one: RunOne, program: str) -> None:
    outcome = run_one(sandbox, program, cpu_s=0.4, wall_s=1.5, memory_mb=200)
    assert outcome.verdict in ("error", "memory", "timeout", "output_limit"), outcome
    assert outcome.wall_s < 3
    assert run_one(sandbox, "print(6)").output == "6\n"


@pytest.mark.parametrize(
    "source",
    [
        "-" * 200_000 + "1",
        "(" * 100 + "1" + ")" * 100 + "\n" + "a" * 10**6,
        "x = " + "[" * 150 + "]" * 150,
        "f(" * 90 + ")" * 90,
        "x = 1\n" * 20_000,
        "+".join(["1"] * 50_000),
        "if 1:\n" + " if 1:\n" * 3,
        "def f():\n" + "  yield\n" * 1000,
        "\t1\n  2",
        "0" * 10**6,
        "f = " + "lambda: " * 1100 + "0",
    ],
)
def test_hostile_sources_cost_only_themselves(sandbox: Sandbox, run_one: RunOne, source: str) -> None:
    workers = sandbox.worker_pids
    outcome = run_one(sandbox, source, "", cpu_s=1.0)
    assert outcome.verdict in ("ok", "error", "memory", "timeout"), outcome
    assert run_one(sandbox, "print(6)").output == "6\n"
    pair = sandbox.run(
        [
            Job(source, ("",), limits=Limits(cpu_s=1.0)),
            Job(source + "\n\n", ("",), limits=Limits(cpu_s=1.0)),
            Job("print(6)", ("",)),
        ]
    )
    assert pair[2][0].output == "6\n"
    assert sandbox.worker_pids == workers


def test_nothing_to_see_and_nowhere_to_write(sandbox: Sandbox, run_one: RunOne) -> None:
    program = """
import os
seen = []
for top, folders, files in os.walk('/'):
    seen += [os.path.join(top, name) for name in files if not top.startswith(('/usr', '/lib'))]
    folders[:] = [name for name in folders if (top + name).count('/') < 5]
    for name in files[:3] + ['new']:
        try: os.close(os.open(os.path.join(top, name), os.O_WRONLY | os.O_CREAT)); wrote = os.path.join(top, name)
        except OSError: continue
        if not wrote.startswith('/dev/'): print('wrote', wrote)
print(os.getuid(), os.getgid(), os.getgroups() in ([], [65534]), os.uname().nodename)
print(os.path.exists('/proc/self'), os.path.exists('/sys/kernel'), os.path.exists('/etc/passwd'))
print([path for path in seen if not path.startswith(('/dev/', '/etc/alternatives/')) and '/lib' not in path])
"""
    outcome = run_one(sandbox, program, cpu_s=20.0)
    assert outcome.output is not None, outcome
    assert outcome.output.splitlines() == [
        "65534 65534 True sandbox",
        "False False False",
        "['/etc/ld.so.cache']",
    ]


def test_our_package_is_not_there_and_our_descriptors_neither(each: Sandbox, run_one: RunOne) -> None:
    assert "ModuleNotFoundError" in run_one(each, "import erpo_jax").detail
    assert run_one(each, DESCRIPTORS).output == "[0, 1, 2, 63]\n"
    assert os.path.exists(seccomp.__file__)


def test_a_trainer_with_thousands_of_descriptors_lends_none(run_one: RunOne) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048 if hard == resource.RLIM_INFINITY else min(2048, hard), hard))
    held: list[int] = []
    try:
        while not held or held[-1] < 1200:
            held.append(os.open(os.devnull, os.O_RDONLY))
        with Sandbox(workers=1) as sandbox:
            assert run_one(sandbox, DESCRIPTORS).output == "[0, 1, 2, 63]\n"
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_input_cannot_be_changed(each: Sandbox, run_one: RunOne) -> None:
    program = (
        "import os\nfor action in (lambda: os.write(0, b'x'), lambda: os.ftruncate(0, 0)):\n"
        "    try: action(); print('changed')\n"
        "    except OSError: pass\nprint(input())"
    )
    assert run_one(each, program, "abc").output == "abc\n"


def test_what_a_program_says_of_itself_is_fit_for_a_terminal(each: Sandbox, run_one: RunOne) -> None:
    outcome = run_one(each, "import os\nos.write(63, b'error:\\x1b[2J\\r\\nok \\0')\nos._exit(1)")
    assert (outcome.verdict, outcome.detail) == ("error", r"\x1b[2J\r\nok \x00")
