"""vLLM's HTTP server, which ends when the trainer does: `python -m erpo_vllm.serve` with the server's own flags.

The trainer holds the other end of this process's stdin, and starts it as the head of its own process group. When that
end closes, however the trainer ended, the whole group is killed: vLLM's engine and workers with it. Python's resource
tracker alone goes on, for a moment: it removes the shared memory of the dead, then ends by itself.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path


def end_with_parent() -> None:
    """Watch stdin from a thread, which lives as long as the process."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        _kill_group()

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _kill_group() -> None:
    for _ in range(2):  # again, for what was born meanwhile
        for folder in Path("/proc").glob("[0-9]*"):
            number = int(folder.name)
            with suppress(OSError):  # it has ended
                ours = os.getpgid(number) == os.getpgrp() and number != os.getpid()
                if ours and b"resource_tracker" not in (folder / "cmdline").read_bytes():
                    os.kill(number, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    end_with_parent()
    from vllm.entrypoints.launchers.api_server.entry import main as serve

    serve()


if __name__ == "__main__":
    main()
