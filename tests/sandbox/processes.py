"""Looking at the sandbox's processes from outside, any of which may end while it is looked at."""

import time
from collections.abc import Callable
from pathlib import Path


def read(file: str) -> str:
    """A file of /proc; empty when its process has ended."""
    try:
        return Path(file).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def below(pid: int) -> list[int]:
    """Every descendant of a process."""
    children = read(f"/proc/{pid}/task/{pid}/children").split()
    return [found for child in children for found in (int(child), *below(int(child)))]


def gone(pids: list[int], within: float = 5.0) -> bool:
    """Whether none of them runs any more, soon."""
    return settles(lambda: not any(read(f"/proc/{pid}/cmdline") for pid in pids), within)


def settles(holds: Callable[[], bool], within: float = 5.0) -> bool:
    """Whether it holds soon: the supervisor of a job ends a moment after it has answered."""
    end = time.monotonic() + within
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    return holds()
