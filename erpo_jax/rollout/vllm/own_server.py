"""vLLM servers that the trainer starts, watches, and starts again: one per GPU or tensor-parallel group."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from erpo_jax.config import VllmConfig
from erpo_jax.errors import UserError
from erpo_jax.rollout.vllm.backend import PROBE, AnswerLate, ServerGone
from erpo_jax.rollout.vllm.child import Child, Python, engine_arguments, flags
from erpo_jax.rollout.vllm.http_server import HttpServer


class OwnServer(HttpServer):
    """A Backend that is ours. `number` is its place among the servers; its log is `folder`/server-<number>.log."""

    def __init__(
        self, number: int, config: VllmConfig, python: Python, folder: Path, *, dtype: str, longest: int
    ) -> None:
        port = config.port + number if config.port else _free_port(config.host)
        host = f"[{config.host}]" if ":" in config.host else config.host
        super().__init__(f"http://{host}:{port}", start_timeout_s=config.start_timeout_s)
        self.name = f"vLLM server {number} on port {port}"
        self._config, self._python, self._dtype, self._longest = config, python, dtype, longest
        width = config.tensor_parallel
        devices: Sequence[int] = config.devices[number * width : (number + 1) * width]
        self.child = Child(python, "erpo_vllm.serve", self.name, folder / f"server-{number}.log", devices)

    def start(self, folder: Path) -> None:
        """Raises UserError when the port is taken."""
        config = self._config
        _check_port(config.host, self._port)
        arguments = engine_arguments(
            folder,
            dtype=self._dtype,
            longest=self._longest,
            concurrency=config.concurrency,
            on_cpu=self._python.on_cpu,
        )
        arguments |= {
            "served_model_name": "policy",
            "host": config.host,
            "port": self._port,
            "tensor_parallel_size": config.tensor_parallel,
            "enable_scale_out": True,
            "uvicorn_log_level": "warning",
        }
        if not self._python.on_cpu:
            arguments |= {"gpu_memory_utilization": config.memory_fraction, "enable_sleep_mode": config.sleep > 0}
        self.child.start([*flags(arguments), *config.arguments])

    def wait(self) -> None:
        super().wait()
        # /health is green before the engine has proven itself
        try:
            self.ask((0,), PROBE, self._start_timeout_s)
        except (ServerGone, AnswerLate) as error:
            raise self.child.refuse() from error

    def restart(self, folder: Path) -> None:
        self.cancel()
        self.child.stop()
        self.start(folder)
        self.wait()

    def stop(self) -> None:
        super().stop()
        self.child.stop()

    def _check_start(self) -> None:
        if not self.child.running:
            raise self.child.refuse()


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise UserError(f"vllm.host={host} is no address of this machine ({error.strerror or error})") from error
        return int(probe.getsockname()[1])


def _check_port(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that is closing is free
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"port {port} on {host} is in use or not ours ({error.strerror}); set vllm.port to the first of "
                f"vllm.servers free ports, or to 0 for any"
            ) from error
