"""The HTTP server that the trainer starts: killed, deaf, refreshed; and the one that is reached by its address."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from erpo_jax.rollout import EngineDisagrees, EngineFailed, Sampling, check_agreement
from erpo_jax.rollout.vllm import VllmEngine
from tests.rollout.vllm.conftest import changed, random_prompts, settings, trainer_logprobs


def test_ids_that_text_would_not_give_back_are_scored_as_they_are(server_engine, quickstart):
    """CASES U13: prompt and answer are other ids after decode and encode; log-probs are those of the very ids."""
    tokenizer = quickstart.tokenizer()
    wild = changed(quickstart, seed=4)  # its answers are no text that anyone would write
    server_engine.refresh(wild, 3)
    prompts = random_prompts([30, 60], quickstart.spec.vocabulary)
    groups = server_engine.generate(prompts, 16, Sampling(2.0, 60), [0, 100])
    changed_by_text = 0
    for prompt, group in zip(prompts, groups, strict=True):
        assert tokenizer.encode(tokenizer.decode(prompt), add_special_tokens=False) != prompt
        for answer in group:
            text = tokenizer.decode(answer.token_ids)
            changed_by_text += tokenizer.encode(text, add_special_tokens=False) != list(answer.token_ids)
            expected = trainer_logprobs(wild, prompt, answer.token_ids, 2.0)
            np.testing.assert_allclose(answer.logprobs, expected, atol=1e-4)
    assert changed_by_text > 4


def test_a_refresh_over_http(server_engine, quickstart):
    """CASES W5 on the server: tied weights, prompts over two blocks of its cache, each asked before and after."""
    prompts = random_prompts([300, 40, 5], quickstart.spec.vocabulary)
    new = changed(quickstart)
    server_engine.refresh(quickstart, 4)
    assert check_agreement(server_engine, quickstart, prompts).gap_max < 1e-4
    server_engine.refresh(new, 5)
    assert set(server_engine.refresh_seconds) == {"cast", "write", "verify", "load", "control"}
    assert check_agreement(server_engine, new, prompts).gap_max < 1e-4
    with pytest.raises(EngineDisagrees):
        check_agreement(server_engine, quickstart, prompts)
    ((answer,),) = server_engine.generate([[5, 6]], 1, Sampling(1.0, 8), [0])
    assert answer.weights_version == 5


def test_one_request_that_never_answers_is_lost_alone(server_engine, quickstart, tmp_path, recwarn):
    """CASES R6: through a line that swallows one request of 48. Also: a server that already runs, by its address."""
    backend = server_engine.backends[0]
    with Line(backend._port, swallow=b'"seed": 1005') as line:
        words = [f"vllm.urls=[http://127.0.0.1:{line.port}]", "vllm.answer_timeout_s=8", "vllm.placement=none"]
        engine = VllmEngine(settings(*words), changed(quickstart), tmp_path, version=6)
        prompts = random_prompts([9, 8, 7], 700)
        groups = engine.generate(prompts, 16, Sampling(1.0, 40), [0, 1000, 2000])
        lost = [(i, j) for i, group in enumerate(groups) for j, a in enumerate(group) if a.finish_reason == "lost"]
        assert lost == [(1, 5)]
        assert groups[1][5].token_ids == ()
        assert sum(len(group) for group in groups) == 48
        assert {a.weights_version for group in groups for a in group} == {6}
        (said,) = engine.lost
        assert "prompt 1, sample 5" in said
        assert "did not answer within 8 s" in said
        assert any("prompt 1, sample 5" in str(warning.message) for warning in recwarn)
        engine.close()
    ((alive,),) = server_engine.generate([[5, 6]], 1, Sampling(1.0, 8), [0])  # not ours to stop
    assert alive.token_ids


def test_a_server_killed_during_a_rollout_comes_back_with_the_current_weights(server_engine, quickstart, monkeypatch):
    """CASES R5: kill -9 of the engine in the middle; all of the rollout comes, under the weights of now."""
    monkeypatch.setattr(server_engine, "_end_ids", ())  # every answer is long, so that there is a middle
    new = changed(quickstart, seed=2)
    server_engine.refresh(new, 8)
    head = psutil.Process(server_engine.backends[0].child.pid)
    old = [head, *head.children(recursive=True)]
    assert len(old) >= 3
    shared = {Path(part.path) for each in old for part in each.memory_maps() if part.path.startswith("/dev/shm/psm_")}
    killed = []

    def kill(done, total):
        if not killed:
            killed.append(next(each for each in old if "EngineCore" in " ".join(each.cmdline())))
            killed[0].send_signal(signal.SIGKILL)

    prompts = random_prompts([12, 20, 31, 40] * 2, quickstart.spec.vocabulary)
    groups = server_engine.generate(prompts, 16, Sampling(1.0, 120), [100 * i for i in range(8)], kill)
    assert killed
    assert server_engine.restarts == 1
    assert {a.finish_reason for group in groups for a in group} == {"length"}
    assert {a.weights_version for group in groups for a in group} == {8}
    for prompt, group in zip(prompts, groups, strict=True):
        for answer in group:
            expected = trainer_logprobs(new, prompt, answer.token_ids, 1.0)
            np.testing.assert_allclose(answer.logprobs, expected, atol=1e-4)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(map(is_alive, old)):  # the last one clears up behind the others
        time.sleep(0.1)
    assert not any(map(is_alive, old))
    assert shared
    assert not any(file.exists() for file in shared)


def is_alive(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_spent_budget_ends_the_rollout_with_its_reason(tied, tmp_path):
    engine = VllmEngine(settings("vllm.kind=process", "vllm.restarts=0"), tied, tmp_path)

    def kill(done, total):
        os.kill(engine.backends[0].child.pid, signal.SIGKILL)

    with pytest.raises(EngineFailed, match=r"vllm.restarts=0 are used up"):
        engine.generate(random_prompts([12, 20]), 16, Sampling(1.0, 100), [0, 100], kill)
    engine.close()
    with pytest.raises(EngineFailed, match=r"the engine is closed"):
        engine.generate([[5]], 1, Sampling(1.0, 4), [0])


def test_a_killed_trainer_leaves_no_server_behind(tied_folder, tmp_path):
    """SIGKILL, which nobody can handle: the server notices by itself, also while it is still starting."""
    script = (
        "import sys; from pathlib import Path; from erpo_jax.rollout.vllm.own_server import OwnServer\n"
        "from erpo_jax.rollout.vllm.child import Python; from tests.rollout.vllm.conftest import settings\n"
        "config = settings().vllm\n"
        "server = OwnServer(0, config, Python(config.python), Path(sys.argv[2]), dtype='float32', longest=64)\n"
        "server.start(Path(sys.argv[1])); print(server.child.pid, flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tied_folder), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as trainer:
        server = psutil.Process(int(trainer.stdout.readline()))
        time.sleep(1.0)
        assert server.is_running()
        trainer.kill()
    server.wait(20)
    assert not server.is_running()


class Line:
    """A TCP line to a port that forwards everything, but never a connection whose first message has `swallow` in it."""

    def __init__(self, port: int, swallow: bytes) -> None:
        self._target, self._swallow = port, swallow
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._held: list[socket.socket] = []

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.close()
        for held in self._held:
            held.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        message = b""
        while b"\r\n\r\n" not in message:
            part = near.recv(65536)
            if not part:
                return
            message += part
        head, _, body = message.partition(b"\r\n\r\n")
        fields = [line.split(b":") for line in head.lower().split(b"\r\n")]
        wanted = next((int(field[1]) for field in fields if field[0] == b"content-length"), 0)
        while len(body) < wanted:
            body += near.recv(65536)
        if self._swallow in body:
            self._held.append(near)
            return
        with near, socket.create_connection(("127.0.0.1", self._target)) as far:
            far.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + b"\r\n\r\n" + body)
            while part := far.recv(65536):
                near.sendall(part)
