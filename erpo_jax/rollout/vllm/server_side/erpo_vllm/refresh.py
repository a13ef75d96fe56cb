"""The worker extension: loads a folder that the trainer exported, and says what is wrong with one it does not load.

    python -m vllm... --worker-extension-cls erpo_vllm.refresh.Refresh
    collective_rpc("erpo_refresh", kwargs={"folder": ..., "version": ...}) -> one JSON object per worker

Everything is checked before a single weight changes: the names and shapes against the checkpoint that vLLM started
from, the checksum of every tensor against the list that the trainer wrote. An answer with "error" names the tensor;
nothing is raised, because an exception in a worker ends vLLM's engine.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

CHECKSUMS = "checksums.json"


class Refresh:
    """Mixed into vLLM's worker class; its attributes are the worker's."""

    vllm_config: Any
    rank: int
    model_runner: Any
    reload_weights: Any
    erpo_shapes: dict[str, list[int]] | None = None
    """Name and shape of every tensor of the checkpoint that this worker started from."""

    def erpo_refresh(self, folder: str, version: int) -> dict[str, Any]:
        """Load the weights of `folder`. Returns seconds and counts, or {"error", "intact"}: whether the old weights
        are still in place."""
        intact = True
        try:
            began = time.perf_counter()
            with ExitStack() as stack:
                tensors = _tensors(Path(folder), stack)
                fault = self._erpo_fault(Path(folder), tensors)
                if fault:
                    return {"error": fault, "intact": True}
                checked = time.perf_counter()
                intact = False
                missing = self._erpo_load(tensors)
            if missing:
                return {"error": f"vLLM's model kept its old {', '.join(missing)}", "intact": False}
            return {
                "version": version,
                "tensors": len(tensors),
                "verify_s": checked - began,
                "load_s": time.perf_counter() - checked,
            }
        except Exception as error:  # raised, it would end the engine, and the trainer would never see its message
            return {"error": f"{type(error).__name__}: {error}", "intact": intact}

    def _erpo_fault(self, folder: Path, tensors: dict[str, Any]) -> str | None:
        """What makes this folder another model's, or damaged; None when nothing does."""
        if self.erpo_shapes is None:
            with ExitStack() as stack:
                start = _tensors(_local(self.vllm_config.model_config), stack)
                self.erpo_shapes = {name: list(part.get_shape()) for name, part in start.items()}
        tied = getattr(self.vllm_config.model_config.hf_config, "tie_word_embeddings", False)
        expected = {name: shape for name, shape in self.erpo_shapes.items() if not (tied and name == "lm_head.weight")}
        shapes = {name: list(part.get_shape()) for name, part in tensors.items()}
        if lost := sorted(expected.keys() - shapes.keys()):
            return f"{folder} has no tensor {_shown(lost)}"
        if added := sorted(shapes.keys() - self.erpo_shapes.keys() - {"lm_head.weight"}):
            return f"{folder} has a tensor {_shown(added)}, which the served model has not"
        for name, shape in expected.items():
            if shapes[name] != shape:
                return f"{folder}: tensor {name} has shape {shapes[name]}; the served model has {shape}"
        file = folder / CHECKSUMS
        if not file.is_file():
            return f"{folder} has no {CHECKSUMS}; the trainer writes one with every export for an engine"
        listed = json.loads(file.read_text())
        if listed.keys() != shapes.keys():
            return f"{folder}: {CHECKSUMS} and the weights differ in {_shown(sorted(listed.keys() ^ shapes.keys()))}"
        workers = self.vllm_config.parallel_config.world_size
        for name in sorted(listed)[self.rank :: workers]:  # the workers share the reading
            if _checksum(tensors[name][:]) != listed[name]:
                return f"{folder}: tensor {name} is not what the trainer wrote (its checksum differs)"
        return None

    def _erpo_load(self, tensors: dict[str, Any]) -> list[str]:
        """Put the weights into vLLM's model. Returns the parameters that no tensor went to."""
        model = self.model_runner.get_model()
        wanted = {name for name, _ in model.named_parameters()}
        loaded: set[str] = set()
        load_weights = model.load_weights

        def recorded(weights: Iterator[tuple[str, Any]]) -> set[str]:
            found = load_weights(weights)
            loaded.update(wanted if found is None else found)
            return loaded

        model.load_weights = recorded
        try:
            self.reload_weights(weights_iterator=((name, part[:]) for name, part in tensors.items()))
        finally:
            del model.load_weights
        self._erpo_tie(model)
        return sorted(wanted - loaded)

    def _erpo_tie(self, model: Any) -> None:
        """On CPUs a tied head keeps a packed copy of the old embedding, which no reload renews."""
        if not getattr(self.vllm_config.model_config.hf_config, "tie_word_embeddings", False):
            return
        head: Any = getattr(model, "lm_head", None)
        embedding: Any = getattr(model.model, "embed_tokens", None)
        if hasattr(head, "quant_method") and hasattr(embedding, "weight"):
            head.weight = embedding.weight
            head.quant_method.process_weights_after_loading(head)


def _tensors(folder: Path, stack: ExitStack) -> dict[str, Any]:
    """Every tensor of the folder's safetensors files, unread. Raises FileNotFoundError."""
    from safetensors import safe_open

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no safetensors file that this machine can see")
    found = {}
    for file in files:
        opened = stack.enter_context(safe_open(file, framework="pt"))
        found.update({name: opened.get_slice(name) for name in opened.keys()})  # noqa: SIM118 (no mapping)
    return found


def _local(model_config: Any) -> Path:
    """The folder of the checkpoint that vLLM started from, also when it was named by its hub id."""
    if Path(model_config.model).is_dir():
        return Path(model_config.model)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(model_config.model, revision=model_config.revision, local_files_only=True))


def _checksum(tensor: Any) -> int:
    import torch

    flat = tensor.contiguous().view(-1).view(torch.uint8)
    return zlib.crc32(flat.numpy()) if flat.numel() else 0


def _shown(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
