"""The safetensors files of a Hugging Face folder: which tensor lies where, checked; and a writer that streams.

Left out: pickled checkpoints (.bin, .pt), which run code when they are read.
"""

from __future__ import annotations

import difflib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from erpo_jax.policy.policy import read_json
from erpo_jax.policy.spec import CheckpointError

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
CHECKSUMS = "checksums.json"
"""Tensor name to CRC-32 of its bytes: what an engine in another process checks before it loads an export."""

# safetensors' name of each dtype that weights are stored in
DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}


@dataclass(frozen=True)
class Stored:
    """One tensor of a checkpoint: the file that holds it, its dtype and shape."""

    file: str
    dtype: np.dtype
    shape: tuple[int, ...]


class CheckpointFiles:
    """The open files of one folder. `tensors` keeps the order in which each file stores them."""

    def __init__(self, folder: Path, handles: Mapping[str, Any], tensors: Mapping[str, Stored], sharded: bool) -> None:
        self.folder = folder
        self.tensors = tensors
        self.sharded = sharded
        self._handles = handles

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self._handles)

    def read(self, name: str, slices: Sequence[slice]) -> np.ndarray:
        """A part of one tensor, read from disk now, in the dtype of the file."""
        part: np.ndarray = self._handles[self.tensors[name].file].get_slice(name)[tuple(slices)]
        return part


def has_weights(folder: Path) -> bool:
    """Whether the folder holds safetensors weights at all."""
    return (folder / SINGLE).exists() or (folder / INDEX).exists()


@contextmanager
def open_checkpoint(folder: Path) -> Iterator[CheckpointFiles]:
    """Open a folder's safetensors files after checking each against the index. Reads headers only.

    Raises CheckpointError naming the file or the tensor: no weights, a shard that is missing or cut short, a tensor
    listed in one shard that lies in another, stands in two, or is in no list.
    """
    sharded = (folder / INDEX).exists()
    if sharded and (folder / SINGLE).exists():
        raise CheckpointError(f"{folder} holds both {SINGLE} and {INDEX}; remove the one that is stale")
    if not has_weights(folder):
        raise CheckpointError(f"{folder} has neither {SINGLE} nor {INDEX}")
    listed = _weight_map(folder / INDEX) if sharded else None
    names = sorted(set(listed.values())) if listed is not None else [SINGLE]
    if listed is not None:
        stray = sorted(file.name for file in folder.glob("model-*.safetensors") if file.name not in names)
        if stray:
            raise CheckpointError(f"{folder}: {stray[0]} is not named in {INDEX}")
    with ExitStack() as stack:
        handles = {name: stack.enter_context(_open(folder / name)) for name in names}
        tensors: dict[str, Stored] = {}
        for file, handle in handles.items():
            for name in handle.offset_keys():
                if name in tensors:
                    raise CheckpointError(f"{folder}: tensor {name} is in {tensors[name].file} and again in {file}")
                tensors[name] = _stored(folder / file, name, handle)
        if listed is not None:
            _check_listed(folder, listed, tensors)
        yield CheckpointFiles(folder, handles, tensors, sharded)


def _weight_map(index: Path) -> dict[str, str]:
    found = read_json(index).get("weight_map")
    if not isinstance(found, dict) or not found:
        raise CheckpointError(f"{index} has no weight_map")
    for name, file in found.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise CheckpointError(f"{index}: tensor {name} is listed in {file!r}, which is no file name")
    return found


def _open(file: Path) -> Any:
    if not file.exists():
        raise CheckpointError(f"{file.parent}: the file {file.name} is missing, although {INDEX} lists tensors in it")
    try:
        return safe_open(file, framework="numpy")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file} is not a whole safetensors file: {error}") from error


def _stored(file: Path, name: str, handle: Any) -> Stored:
    header = handle.get_slice(name)
    dtype = DTYPES.get(header.get_dtype())
    if dtype is None:
        raise CheckpointError(
            f"{file}: tensor {name} has dtype {header.get_dtype()}, not one of {', '.join(DTYPES)} (quantised?)"
        )
    return Stored(file.name, dtype, tuple(header.get_shape()))


def _check_listed(folder: Path, listed: Mapping[str, str], tensors: Mapping[str, Stored]) -> None:
    for name, file in listed.items():
        if name not in tensors:
            raise CheckpointError(f"{folder}: {INDEX} lists tensor {name} in {file}, but no file holds it")
        if tensors[name].file != file:
            raise CheckpointError(
                f"{folder}: {INDEX} lists tensor {name} in {file}, but it lies in {tensors[name].file}"
            )
    for name, stored in tensors.items():
        if name not in listed:
            near = difflib.get_close_matches(name, listed, n=1, cutoff=0.9)
            hint = f" (the nearest name there is {near[0]})" if near else ""
            raise CheckpointError(f"{folder}: tensor {name} of {stored.file} is not listed in {INDEX}{hint}")


def write_safetensors(file: Path, tensors: Mapping[str, Stored], values: Iterator[np.ndarray]) -> dict[str, int]:
    """Write one file, a tensor at a time, and sync it. `values` yields the tensors in the order of `tensors`.

    Returns the CRC-32 of each tensor's bytes.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    names = {dtype: name for name, dtype in DTYPES.items()}
    for name, stored in tensors.items():
        size = stored.dtype.itemsize * int(np.prod(stored.shape, dtype=np.int64))
        header[name] = {
            "dtype": names[stored.dtype],
            "shape": list(stored.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    checksums = {}
    with file.open("wb") as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for (name, stored), value in zip(tensors.items(), values, strict=True):
            if value.shape != stored.shape or value.dtype != stored.dtype:
                raise AssertionError(f"{name}: {value.dtype}{value.shape} where the header says {stored}")
            content = np.ascontiguousarray(value).view(np.uint8).data
            checksums[name] = zlib.crc32(content)
            out.write(content)
        sync(out.fileno())
    return checksums


def sync(descriptor: int) -> None:
    """Make what was written survive a power cut."""
    os.fsync(descriptor)
