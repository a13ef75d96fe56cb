"""The strong tier: a process in namespaces of its own, on a read-only root that holds the interpreter and its libraries
alone.

No helper program is needed. Inside: no /proc, no network, no writable place, uid and gid of nobody, no capability. Left
out: cgroups, which cannot be relied on; memory and processes are limited per program instead.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Sequence

from erpo_jax.sandbox import syscalls
from erpo_jax.sandbox.syscalls import MS_BIND, MS_NODEV, MS_NOSUID, MS_PRIVATE, MS_REC

NOBODY = 65534
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_WITHOUT_USER = (
    syscalls.NEW_NS | syscalls.NEW_PID | syscalls.NEW_NET | syscalls.NEW_IPC | syscalls.NEW_UTS | syscalls.NEW_CGROUP
)


def enter(readable: Sequence[str], hidden: Sequence[str], link: int) -> bool:
    """Goes on as process 1 of new namespaces; the calling process stays outside only to wait for it and to end as it
    ends.

    `link` is closed in the process that waits. True when it has a user namespace of its own. Raises OSError.
    """
    own_users = _unshare()
    child = os.fork()
    if child:
        os.close(link)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    _build_root(readable, hidden)
    syscalls.set_host_name("sandbox")
    become_nobody()
    # after the change of user, which would clear it
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    return own_users


def _unshare() -> bool:
    uid, gid = os.geteuid(), os.getegid()
    root = uid == 0
    try:
        if root:
            _unshare_user_as_root()
        else:
            syscalls.unshare(syscalls.NEW_USER)
            _map_self(uid, gid)
        own_users = True
    except OSError as error:
        # user namespaces switched off: root may still do without one
        if not root or error.errno not in (errno.EPERM, errno.ENOSPC, errno.EINVAL, errno.ENOSYS, errno.EUSERS):
            raise
        own_users = False
    syscalls.unshare(_WITHOUT_USER)
    return own_users


def _unshare_user_as_root() -> None:
    """Maps root and nobody, which only a process outside the new namespace may write."""
    parent, gid = os.getpid(), os.getegid()
    ready_read, ready_write = os.pipe()
    helper = os.fork()
    if helper == 0:
        code = 1
        try:
            os.close(ready_write)
            if os.read(ready_read, 1):
                ids = f"0 0 1\n{NOBODY} {NOBODY} 1"
                _write(f"/proc/{parent}/uid_map", ids)
                _write(f"/proc/{parent}/gid_map", ids)
                code = 0
        finally:
            os._exit(code)
    os.close(ready_read)
    try:
        syscalls.unshare(syscalls.NEW_USER)
        os.write(ready_write, b"!")
    finally:
        os.close(ready_write)
        _, status = os.waitpid(helper, 0)
    if status:  # root without the right to set users may map itself alone, as any user
        try:
            _map_self(0, gid)
        except OSError as error:  # not one of the errors that mean there are no user namespaces: we are in one by now
            raise OSError(errno.EPROTO, f"root may not be mapped into a user namespace ({error.strerror})") from error


def _map_self(uid: int, gid: int) -> None:
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{NOBODY} {uid} 1")
    _write("/proc/self/gid_map", f"{NOBODY} {gid} 1")


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _build_root(readable: Sequence[str], hidden: Sequence[str]) -> None:
    """Puts an empty file system in place of the root, binds what is to be readable, and lets go of the rest."""
    sources = {path: os.path.realpath(path) for path in readable}
    syscalls.mount("none", "/", None, MS_REC | MS_PRIVATE)
    base = next((path for path in ("/tmp", "/run", "/mnt", "/var", "/dev/shm") if os.path.isdir(path)), None)
    if base is None:
        raise OSError(errno.ENOENT, "no directory to build the sandbox's root on")
    syscalls.mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    os.mkdir(f"{base}/.outside")
    syscalls.pivot_root(base, f"{base}/.outside")
    os.chdir("/")
    for path in sorted(sources, key=len):
        if not os.path.exists(path):  # else it came with a folder above it
            _bind(f"/.outside{sources[path]}", path)
            syscalls.make_read_only(path)
    for path in _DEVICES:
        if os.path.exists(f"/.outside{path}"):
            _bind(f"/.outside{path}", path)
    for path in hidden:
        if os.path.isdir(path):
            syscalls.mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | syscalls.MS_RDONLY, "size=4k,mode=755")
    syscalls.unmount("/.outside")
    os.rmdir("/.outside")
    syscalls.make_read_only("/", devices=True)
    os.chdir("/")


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o444))
    syscalls.mount(source, target, None, MS_BIND | MS_REC)


def become_nobody() -> None:
    """Changes user and group for good; nothing to do for one that is nobody already."""
    if os.geteuid() == NOBODY:
        return
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
