"""New weights to the engine, phase by phase, beside a plain copy of the same bytes on the same file system.

cast: waiting for tensors in the file's dtype and axes; write: the rest of the export; verify and load: the servers' own
checksums and loading (with vLLM); control: telling and asking them. The first refresh compiles and is reported apart.
Phases are medians; the copy is `cp` of the exported folder, the least of as many runs. Left out: GPUs.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from erpo_jax.benchmarks.timing import BenchmarkError
from erpo_jax.config import Config
from erpo_jax.policy import export, load, make_mesh
from erpo_jax.rollout.vllm import VllmEngine


@dataclass(frozen=True)
class RefreshBenchmark:
    """`runs`: seconds by phase of each refresh after the first; `megabytes` of the folder."""

    megabytes: float
    copy_s: float
    first_s: float
    runs: Sequence[Mapping[str, float]]

    @property
    def seconds(self) -> float:
        """A refresh, median."""
        return statistics.median(sum(run.values()) for run in self.runs)

    def lines(self) -> list[str]:
        """A report for people."""
        phases = {name: statistics.median(run[name] for run in self.runs) for name in self.runs[0]}
        return [
            f"{self.megabytes:,.0f} MB, cp {self.copy_s:.2f} s, first refresh (compiles) {self.first_s:.2f} s",
            "  ".join(f"{name} {seconds:.2f} s" for name, seconds in phases.items()),
            f"export + refresh {self.seconds:.2f} s, {self.seconds / self.copy_s:.1f} x cp, median of {len(self.runs)}",
        ]


def measure(
    model: str, *, folder: Path = Path("/dev/shm"), dtype: str = "bfloat16", repeats: int = 3, vllm_python: str = ""
) -> RefreshBenchmark:
    """Refresh `repeats` times, and once before. Without `vllm_python` the export alone. Raises BenchmarkError."""
    if repeats < 1:
        raise BenchmarkError(f"--repeats {repeats} must be at least 1")
    if not folder.is_dir():
        raise BenchmarkError(f"--folder {folder} is not there")
    policy = load(model, make_mesh(), compute_dtype=dtype)
    with tempfile.TemporaryDirectory(prefix="erpo_jax-bench-", dir=folder) as place:
        engine = None
        if vllm_python:
            config = vllm_config(vllm_python, max_prompt_tokens=512, max_new_tokens=64)
            config.vllm.exports = place
            engine = VllmEngine(config, policy, Path(place))

        def refresh(version: int) -> Mapping[str, float]:
            if engine is not None:
                engine.refresh(policy, version)
                return dict(engine.refresh_seconds)
            seconds: dict[str, float] = {}
            shutil.rmtree(Path(place) / "export", ignore_errors=True)
            export(policy, Path(place) / "export", dtype=dtype, checksums=True, seconds=seconds)
            return seconds

        try:
            first, *runs = [refresh(version) for version in range(1, repeats + 2)]
            exported = max(Path(place).rglob("model*.safetensors"), key=lambda file: file.stat().st_mtime).parent
            copies = [_copy(exported, Path(place) / "copy") for _ in range(repeats)]
            size = sum(file.stat().st_size for file in exported.iterdir())
        finally:
            if engine is not None:
                engine.close()
    return RefreshBenchmark(size / 1e6, min(copies), sum(first.values()), runs)


def vllm_config(python: str, *, max_prompt_tokens: int, max_new_tokens: int) -> Config:
    """A configuration of one vLLM process for such requests."""
    config = Config()
    config.vllm.python, config.vllm.kind = python, "process"
    config.rollout.max_prompt_tokens, config.rollout.max_new_tokens = max_prompt_tokens, max_new_tokens
    config.probes.max_new_tokens = max_new_tokens
    return config


def _copy(source: Path, target: Path) -> float:
    began = time.perf_counter()
    subprocess.run(["cp", "-r", source, target], check=True)
    seconds = time.perf_counter() - began
    shutil.rmtree(target)
    return seconds
