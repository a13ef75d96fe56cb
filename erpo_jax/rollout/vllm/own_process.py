"""vLLM as one process over pipes (erpo_vllm.process): for small models and tests, on one device."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import IO, Any

from erpo_jax.config import VllmConfig
from erpo_jax.rollout.engine import EngineFailed
from erpo_jax.rollout.vllm.backend import PROBE, Answer, AnswerLate, ServerGone, refuse
from erpo_jax.rollout.vllm.child import Child, Python, engine_arguments
from erpo_jax.rollout.vllm.http_server import CONTROL_TIMEOUT_S

Reply = dict[str, Any]


class OwnProcess:
    """A Backend. Answers come in any order; a thread reads them and hands each to the call that waits for it."""

    def __init__(self, config: VllmConfig, python: Python, folder: Path, *, dtype: str, longest: int) -> None:
        self.name = "the vLLM process"
        self._config, self._python, self._dtype, self._longest = config, python, dtype, longest
        self.child = Child(python, "erpo_vllm.process", self.name, folder / "process.log", config.devices)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Reply]] = {}
        self._guard = threading.Lock()
        self._ended = False
        self._stdin: IO[str] | None = None

    def start(self, folder: Path) -> None:
        arguments = engine_arguments(
            folder,
            dtype=self._dtype,
            longest=self._longest,
            concurrency=self._config.concurrency,
            on_cpu=self._python.on_cpu,
        )
        if not self._python.on_cpu:
            arguments |= {"gpu_memory_utilization": self._config.memory_fraction}
        process = self.child.start([json.dumps(arguments)], stdout=subprocess.PIPE)
        self._stdin, self._ended = process.stdin, False
        self._ready = self._await(0)
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def wait(self) -> None:
        try:
            self._ready.result(self._config.start_timeout_s)
            self.ask((0,), PROBE, self._config.start_timeout_s)  # what vLLM cannot run ends it only here
        except (FutureTimeout, AnswerLate) as error:
            raise EngineFailed(
                f"{self.name} did not start within vllm.start_timeout_s={self._config.start_timeout_s:g}"
            ) from error
        except ServerGone as error:
            raise self.child.refuse() from error

    def ask(self, token_ids: tuple[int, ...], sampling: Mapping[str, Any], timeout_s: float) -> Answer:
        found = self._call({"call": "generate", "token_ids": token_ids, "sampling_params": sampling}, timeout_s)
        return Answer.of(found["choices"][0])

    def load(self, folder: Path, version: int) -> Mapping[str, float]:
        try:
            found = self._call({"call": "load", "folder": str(folder), "version": version}, CONTROL_TIMEOUT_S)
        except AnswerLate as error:
            raise ServerGone(str(error)) from error
        return refuse(self.name, found["results"])

    def sleep(self, level: int) -> None:
        """It has no other device to share than the CPU's memory."""

    def wake(self, *, weights_only: bool) -> None:
        pass

    def cancel(self) -> None:
        """The process itself goes on with what it was asked; nobody waits for it any more."""
        with self._guard:
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(ServerGone(f"{self.name} ended, or what it was asked was broken off"))

    def restart(self, folder: Path) -> None:
        self.child.stop()
        self._reader.join()  # it ends with the old process, and must not take the new one's calls with it
        self.start(folder)
        self.wait()

    def stop(self) -> None:
        self.cancel()
        self.child.stop()

    def _await(self, number: int) -> Future[Reply]:
        future: Future[Reply] = Future()
        with self._guard:
            if self._ended:  # a child of it may hold the pipe open, so that writing would not tell
                raise ServerGone(f"{self.name} is gone")
            self._waiting[number] = future
        return future

    def _call(self, request: Mapping[str, Any], timeout_s: float) -> Reply:
        number = next(self._numbers)
        future = self._await(number)
        try:
            with self._guard:
                assert self._stdin is not None
                self._stdin.write(json.dumps({"id": number, **request}) + "\n")
                self._stdin.flush()
        except (OSError, ValueError) as error:
            raise ServerGone(f"{self.name} is gone ({error})") from error
        try:
            found = future.result(timeout_s)
        except FutureTimeout as error:
            raise AnswerLate(f"{self.name} did not answer within {timeout_s:g} s") from error
        finally:
            with self._guard:
                self._waiting.pop(number, None)
        if "error" in found:
            raise EngineFailed(f"{self.name} refused a request: {found['error']}")
        return found

    def _read(self, answers: IO[str]) -> None:
        with answers:
            for line in answers:
                found = json.loads(line)
                with self._guard:
                    future = self._waiting.pop(found["id"], None)
                if future is not None:
                    future.set_result(found)
        with self._guard:
            self._ended = True
        self.cancel()
