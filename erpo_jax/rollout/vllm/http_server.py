"""A vLLM server that already runs, by its address: its HTTP interface in the few calls that sampling needs.

Standard library alone: a connection per call, because one kept idle is closed by the server and then looks like its
death. Left out: streaming, text, chat.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from erpo_jax.rollout.engine import EngineFailed
from erpo_jax.rollout.vllm.backend import Answer, AnswerLate, ServerGone, refuse

VERSION = (0, 32)
"""The oldest vLLM that has the interface used here."""
CONTROL_TIMEOUT_S = 600.0


class HttpServer:
    """A Backend that somebody else started, with the flags of docs/vllm.md. It is waited for, never started."""

    def __init__(self, url: str, *, start_timeout_s: float) -> None:
        self.name = f"the vLLM server {url}"
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._start_timeout_s = start_timeout_s
        self._open: set[http.client.HTTPConnection] = set()
        self._guard = threading.Lock()

    def start(self, folder: Path) -> None:
        pass

    def wait(self) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while True:
            self._check_start()
            try:
                self._call("GET", "/health", timeout_s=10.0)
                break
            except (ServerGone, AnswerLate, EngineFailed) as error:
                if time.monotonic() > deadline:
                    raise EngineFailed(
                        f"{self.name} did not answer within vllm.start_timeout_s={self._start_timeout_s:g} ({error})"
                    ) from error
            time.sleep(0.5)
        version, models = (self._call("GET", path, timeout_s=30.0) for path in ("/version", "/v1/models"))
        try:
            found, self._model = str(version["version"]), models["data"][0]["id"]
        except (LookupError, TypeError) as error:
            raise EngineFailed(f"{self.name} does not say its version and model as a vLLM server does") from error
        check_version(self.name, found)

    def ask(self, token_ids: tuple[int, ...], sampling: Mapping[str, Any], timeout_s: float) -> Answer:
        body = {"model": self._model, "token_ids": list(token_ids), "sampling_params": sampling}
        found = self._call("POST", "/inference/v1/generate", body, timeout_s=timeout_s)
        return Answer.of(found["choices"][0])

    def load(self, folder: Path, version: int) -> Mapping[str, float]:
        """Answers in the making wait meanwhile, and go on under the new weights."""
        began = time.perf_counter()
        self._control("/pause?mode=keep")
        try:
            arguments = {"folder": str(folder), "version": version}
            found = self._control("/collective_rpc", {"method": "erpo_refresh", "kwargs": arguments})
            parts = dict(refuse(self.name, found.get("results")))
            self._control("/update_weight_version", {"new_version": str(version)})
            # also of answers in the making: their tokens are read again under the new weights
            if not self._control("/reset_prefix_cache?reset_running_requests=true").get("success"):
                raise EngineFailed(f"{self.name} did not reset its prefix cache, which belongs to the old weights")
        finally:
            self._control("/resume")
        served = self._call("GET", "/weight_info", timeout_s=CONTROL_TIMEOUT_S)["weight_version"]
        if served != str(version):
            raise EngineFailed(f"{self.name} says that it serves version {served} after a refresh to {version}")
        return parts | {"control": time.perf_counter() - began - sum(parts.values())}

    def sleep(self, level: int) -> None:
        self._control(f"/sleep?level={level}")

    def wake(self, *, weights_only: bool) -> None:
        self._control("/wake_up?tags=weights" if weights_only else "/wake_up")

    def cancel(self) -> None:
        with self._guard:
            for connection in self._open:
                if connection.sock is not None:
                    with suppress(OSError):  # it may have ended by itself
                        connection.sock.shutdown(socket.SHUT_RDWR)

    def restart(self, folder: Path) -> None:
        """Whoever started it may start it again: it is waited for."""
        self.wait()

    def stop(self) -> None:
        self.cancel()

    def _check_start(self) -> None:
        """Raises when there is nothing left to wait for."""

    def _control(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        try:
            return self._call("POST", path, body or {}, timeout_s=CONTROL_TIMEOUT_S)
        except AnswerLate as error:
            raise ServerGone(f"{self.name} did not answer {path} within {CONTROL_TIMEOUT_S:g} s") from error

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout_s: float
    ) -> dict[str, Any]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=timeout_s)
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("VLLM_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        with self._guard:
            self._open.add(connection)
        try:
            connection.request(method, self._prefix + path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        except TimeoutError as error:
            raise AnswerLate(f"{self.name} did not answer within {timeout_s:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise ServerGone(f"{self.name}: {error or type(error).__name__}") from error
        finally:
            with self._guard:
                self._open.discard(connection)
            connection.close()
        if response.status >= 500:
            raise ServerGone(f"{self.name} answered {path} with {response.status}: {_said(content)}")
        if response.status >= 400:
            raise EngineFailed(
                f"{self.name} refused {path} with {response.status}: {_said(content)}{_hint(response.status, path)}"
            )
        try:
            found = json.loads(content) if content else {}
        except ValueError as error:
            raise EngineFailed(
                f"{self.name} answered {path} with no JSON ({_said(content)}): no vLLM server?"
            ) from error
        return found if isinstance(found, dict) else {"value": found}


def check_version(name: str, found: str) -> None:
    """Raises EngineFailed for a vLLM that is too old."""
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdecimal())
    if numbers < VERSION:
        wanted = ".".join(map(str, VERSION))
        raise EngineFailed(f"{name} is vLLM {found}; {wanted} or newer is needed")


def _said(content: bytes) -> str:
    """The message in an error's JSON, or its beginning."""
    try:
        found = json.loads(content)
        error = found.get("error", found.get("detail", found))
        said = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        said = content.decode(errors="replace")
    return " ".join(str(said).split())[:300] or "nothing"


def _hint(status: int, path: str) -> str:
    if status not in (403, 404):
        return ""
    if path.startswith("/inference"):
        return "; the server needs --enable-scale-out"
    return "; the server needs VLLM_SERVER_DEV_MODE=1 in its environment"
