"""Puts the worker's process into its tier, and says what then holds for every program it starts.

Three tiers, strongest first: "namespaces" (namespaces.py + seccomp), "landlock" (landlock.py + seccomp), "seccomp"
(files can be read). "unsafe" has limits alone. All of this runs in Z before it takes a job; programs put on the rest in
program.py.
"""

from __future__ import annotations

import os
import sys

from erpo_jax.sandbox import landlock, namespaces, seccomp, syscalls
from erpo_jax.sandbox.syscalls import Filter

_LIBRARIES = (
    "/lib",
    "/lib64",
    "/lib32",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/etc/alternatives",
)
_THREADS = 64  # processes and threads a program may have, where they are counted per worker
_THREADS_SHARED = 4096  # more than the user has at the start, where the user's other processes count too


class Confinement:
    """What holds for every program of a worker."""

    def __init__(self, tier: str, filters: Filter | None, landlock: int, processes: int, sizes: int) -> None:
        self.tier, self.filters, self.landlock = tier, filters, landlock
        self.processes = processes  # limit on threads
        self.base_bytes = 0
        self._sizes = sizes  # descriptor of this process's /proc/self/statm

    def measure(self) -> None:
        """Takes the address space that this process has now as what a program's limit comes on top of."""
        self.base_bytes = int(os.pread(self._sizes, 64, 0).split()[0]) * os.sysconf("SC_PAGE_SIZE")
        os.close(self._sizes)


def confine(tier: str, packages: list[str], hidden_names: list[str], link: int) -> Confinement:
    """Enters `tier`. `packages` are folders of installed packages, in which `hidden_names` are kept out of sight. In
    the tier "namespaces" another process returns than the one that called. Raises OSError when the kernel does not give
    it."""
    readable = _readable(packages)
    hidden = [full for top in packages for name in hidden_names if os.path.isdir(full := os.path.join(top, name))]
    filters = None
    if tier != "unsafe":
        if not seccomp.supported():
            raise OSError(f"no seccomp table for {sys.platform} on {os.uname().machine}")
        filters = seccomp.build(deny_writing=tier == "seccomp")
    # /proc goes out of sight, and its "self" must be asked for by the process that goes on
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    processes = _THREADS
    version = 0
    if tier == "namespaces":
        own_users = namespaces.enter(readable, hidden, link)
        if not own_users:
            processes = _THREADS_SHARED + _threads_of_user(proc)
    else:
        if os.geteuid() == 0 and all(_open_to_all(path) for path in readable):
            namespaces.become_nobody()
        processes = _THREADS_SHARED + _threads_of_user(proc)
    sizes = os.open("self/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    os.close(proc)
    os.chdir("/")
    syscalls.drop_all_capabilities()
    if tier == "landlock":
        version = landlock.abi()
        if not version:
            raise OSError("the kernel has no Landlock")
        devices = ["/dev/zero", "/dev/random", "/dev/urandom"]
        landlock.restrict(version, [*readable, *devices], ["/dev/null", "/dev/full"], hidden)
    if tier != "unsafe":
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    return Confinement(tier, filters, version, processes, sizes)


def _readable(packages: list[str]) -> list[str]:
    """What a program may read: the standard library, installed packages, shared libraries."""
    paths = [*sys.path, *packages, os.path.join(sys.base_prefix, "lib"), *_LIBRARIES]
    with open("/proc/self/maps") as maps:
        mapped = {line.split(maxsplit=5)[5].strip() for line in maps if line.count("/")}
    paths += [os.path.dirname(path) for path in mapped if ".so" in os.path.basename(path)]
    kept: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths if path.startswith("/")}, key=len):
        inside = any(path == top or path.startswith(top + "/") for top in kept)
        if path != "/" and os.path.exists(path) and not inside:
            kept.append(path)
    return kept


def _open_to_all(path: str) -> bool:
    """Whether every user may read `path`. Without that root cannot become nobody and still import modules."""
    where = os.path.realpath(path)
    if not os.stat(where).st_mode & 0o004:
        return False
    while where != "/":
        where = os.path.dirname(where)
        if not os.stat(where).st_mode & 0o001:
            return False
    return True


def _threads_of_user(proc: int) -> int:
    """How many threads the user of this process has now: a limit on them counts all."""
    found = 0
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            if os.stat(name, dir_fd=proc).st_uid == os.geteuid():
                found += os.stat(f"{name}/task", dir_fd=proc).st_nlink - 2  # a folder per thread
        except OSError:
            continue  # ended meanwhile
    return found
