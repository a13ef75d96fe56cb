"""Policies out: a Hugging Face folder that transformers and vLLM load, written a tensor at a time and atomically.

The folder has the files, the tensor names and the dtypes of the policy's source; every file beside the weights and
config.json is a byte-equal copy. config.json gains what the other major version of transformers reads.
"""

from __future__ import annotations

import collections
import dataclasses
import filecmp
import functools
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from erpo_jax.policy.checkpoint_files import (
    CHECKSUMS,
    DTYPES,
    INDEX,
    SINGLE,
    Stored,
    has_weights,
    open_checkpoint,
    sync,
    write_safetensors,
)
from erpo_jax.policy.hf import EMBEDDING, HEAD, Link, links
from erpo_jax.policy.policy import Policy, read_json
from erpo_jax.policy.sharding import partition
from erpo_jax.policy.spec import CheckpointError

# weights in other formats would be the source's, not this policy's
_STALE = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".index.json", CHECKSUMS)
_SHARD_BYTES = 5_000_000_000
_AHEAD = 3  # tensors in the making at once: enough to keep the devices busy, few enough to be no second copy
_NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


def export(
    policy: Policy,
    folder: str | Path,
    *,
    dtype: str | None = None,
    overwrite: bool = False,
    checksums: bool = False,
    seconds: dict[str, float] | None = None,
) -> Path:
    """Write the policy as a Hugging Face folder and return its path. `checksums` adds checksums.json.

    `dtype` None keeps each tensor's own (of a source without weights: config.json's). The folder appears whole or not
    at all. One that is there already stays when its content is the same; when it differs that is a CheckpointError,
    unless `overwrite` replaces it. `seconds` gets "cast", the time spent waiting for tensors in the file's dtype and
    axes, and "write", the rest.
    """
    began, waited = time.monotonic(), [0.0]
    if dtype is not None and dtype not in _NAMES:
        raise CheckpointError(f"export dtype {dtype!r} is not one of {', '.join(_NAMES)}")
    target = Path(folder).expanduser().absolute()
    if target.exists() and target.resolve() == policy.source.resolve():
        raise CheckpointError(f"{target} is the policy's own source and is not written over; choose another folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.parent / f".{target.name}.partial-{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        _write(policy, partial, dtype, checksums, waited)
        _publish(partial, target, overwrite)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if seconds is not None:
        seconds |= {"cast": sum(waited), "write": time.monotonic() - began - sum(waited)}
    return target


def _write(policy: Policy, folder: Path, dtype: str | None, checksums: bool, waited: list[float]) -> None:
    config = (policy.source / "config.json").read_bytes()
    stored_dtype, plan = _plan(policy, dtype)
    _write_bytes(folder / "config.json", _portable(config, policy, stored_dtype if dtype else None))
    for file in sorted(policy.source.iterdir()):
        if file.is_file() and file.name != "config.json" and not file.name.endswith(_STALE):
            _write_bytes(folder / file.name, file.read_bytes())
    by_name = {link.name: link for link in links(policy.spec)}
    if policy.spec.tied:
        head = by_name[EMBEDDING]
        by_name[HEAD] = Link(HEAD, head.parameter, None, head.stored)
    found: dict[str, int] = {}
    for name, tensors in plan.items():
        found |= write_safetensors(folder / name, tensors, _values(policy, tensors, by_name, waited))
    if checksums:
        _write_bytes(folder / CHECKSUMS, json.dumps(found, indent=0).encode())
    if list(plan) != [SINGLE]:
        _write_bytes(folder / INDEX, _index(policy, plan))


def _plan(policy: Policy, dtype: str | None) -> tuple[str, dict[str, dict[str, Stored]]]:
    """Which tensors go to which file, as in the source; a source without weights gets files of at most 5 GB."""
    if has_weights(policy.source):
        with open_checkpoint(policy.source) as files:
            plan: dict[str, dict[str, Stored]] = {name: {} for name in files.files}
            for name, stored in files.tensors.items():
                own = DTYPES[_NAMES[dtype]] if dtype else stored.dtype
                plan[stored.file][name] = Stored(stored.file, own, stored.shape)
        return dtype or "", plan
    config = read_json(policy.source / "config.json")
    chosen = dtype or config.get("dtype") or config.get("torch_dtype") or "float32"
    if chosen not in _NAMES:
        raise CheckpointError(f"{policy.source / 'config.json'}: dtype {chosen!r} is not one of {', '.join(_NAMES)}")
    kind = DTYPES[_NAMES[chosen]]
    groups: list[dict[str, Stored]] = [{}]
    size = 0
    for link in links(policy.spec):
        shape = link.shape(policy.spec)
        bytes_ = kind.itemsize * int(np.prod(shape, dtype=np.int64))
        if groups[-1] and size + bytes_ > _SHARD_BYTES:
            groups.append({})
            size = 0
        groups[-1][link.name] = Stored("", kind, shape)
        size += bytes_
    if len(groups) == 1:
        return chosen, {SINGLE: groups[0]}
    return chosen, {f"model-{i + 1:05d}-of-{len(groups):05d}.safetensors": group for i, group in enumerate(groups)}


def _values(
    policy: Policy, tensors: dict[str, Stored], by_name: dict[str, Link], waited: list[float]
) -> Iterator[np.ndarray]:
    """The tensors, made on the devices while the ones before them are written; `waited` gets the seconds of waiting."""
    coming: collections.deque[jax.Array] = collections.deque()
    left = iter(tensors.items())
    for _ in tensors:
        for name, stored in itertools.islice(left, _AHEAD - len(coming)):
            link = by_name[name]
            leaf: Any = policy.params
            for step in link.parameter.path:
                leaf = leaf[step]
            # of one kind whatever the layer: the layer is an argument of the compiled program
            kind = dataclasses.replace(link, name="", layer=None if link.layer is None else 0)
            fetch = _fetcher(kind, stored.dtype.name, policy.mesh)
            coming.append(fetch(leaf[...], np.int32(link.layer or 0)))
        began = time.monotonic()
        value = np.asarray(jax.device_get(coming.popleft()))
        waited.append(time.monotonic() - began)
        yield value


@functools.lru_cache(maxsize=64)
def _fetcher(kind: Link, dtype: str, mesh: jax.sharding.Mesh) -> Callable[[jax.Array, np.int32], jax.Array]:
    def one(value: jax.Array, layer: jax.Array) -> jax.Array:
        part = value if kind.layer is None else jax.lax.dynamic_index_in_dim(value, layer, 0, keepdims=False)
        stored: jax.Array = kind.to_stored(part.astype(dtype))
        return stored

    # with several processes each must hold the whole tensor before it can be written
    whole = NamedSharding(mesh, partition(())) if jax.process_count() > 1 else None
    return jax.jit(one, out_shardings=whole)


def _portable(source: bytes, policy: Policy, dtype: str | None) -> bytes:
    """config.json with rope_theta (and rope_scaling) at top level too, where transformers 4 reads it. The source's own
    bytes when it needs no change."""
    config = json.loads(source)
    before = json.dumps(config)
    rope = config.get("rope_parameters")
    if rope:
        config["rope_theta"] = rope.get("rope_theta", policy.spec.rope_theta)
        if policy.spec.rope_scaling is not None:
            config["rope_scaling"] = {name: value for name, value in rope.items() if name != "rope_theta"}
    elif "rope_theta" not in config:
        config["rope_theta"] = policy.spec.rope_theta
    if dtype:
        for name in ("dtype", "torch_dtype"):
            if name in config:
                config[name] = dtype
        if "dtype" not in config and "torch_dtype" not in config:
            config["torch_dtype"] = dtype
    if json.dumps(config) == before:
        return source
    return (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()


def _index(policy: Policy, plan: dict[str, dict[str, Stored]]) -> bytes:
    sizes = [
        stored.dtype.itemsize * int(np.prod(stored.shape, dtype=np.int64))
        for tensors in plan.values()
        for stored in tensors.values()
    ]
    weight_map = {name: file for file, tensors in plan.items() for name in tensors}
    source = policy.source / INDEX
    metadata = dict(read_json(source).get("metadata") or {}) if source.exists() else {}
    metadata["total_size"] = sum(sizes)
    content = {"metadata": metadata, "weight_map": dict(sorted(weight_map.items()))}
    return (json.dumps(content, indent=2) + "\n").encode()


def _write_bytes(file: Path, content: bytes) -> None:
    with file.open("wb") as out:
        out.write(content)
        out.flush()
        sync(out.fileno())


def _publish(partial: Path, target: Path, overwrite: bool) -> None:
    _sync_folder(partial)
    if target.exists():
        if target.is_dir() and _same(partial, target):
            return
        if not overwrite and not (target.is_dir() and not any(target.iterdir())):
            raise CheckpointError(f"{target} exists and holds something else; remove it or choose another folder")
        old = target.parent / f".{target.name}.replaced-{os.getpid()}"
        target.rename(old)
        partial.rename(target)
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    else:
        partial.rename(target)
    _sync_folder(target.parent)


def _same(left: Path, right: Path) -> bool:
    names = sorted(item.name for item in left.iterdir())
    if names != sorted(item.name for item in right.iterdir()):
        return False
    return not any(filecmp.cmpfiles(left, right, names, shallow=False)[1:])


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
