"""vLLM's HTTP server, which ends when the trainer does: `python -m erpo_vllm.serve` with the server's own flags.

The trainer holds the other end of this process's stdin, and starts it as the head of its own process group. When that
end closes, however the trainer ended, the whole group is killed: vLLM's engine and workers with it.
"""

from __future__ import annotations

import os
import signal
import threading


def end_with_parent() -> None:
    """Watch stdin from a thread, which lives as long as the process."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def main() -> None:
    end_with_parent()
    from vllm.entrypoints.launchers.api_server.entry import main as serve

    serve()


if __name__ == "__main__":
    main()
