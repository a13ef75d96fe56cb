"""Checkpoints in: a Hugging Face folder, a hub id or the policy that ships, streamed straight into shards.

Of each tensor a device's part alone is read, cast to float32 and put on that device: host memory stays near one layer's
part of one tensor, and no device ever holds more than its shard.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding

from erpo_jax.policy.checkpoint_files import CheckpointFiles, open_checkpoint
from erpo_jax.policy.hf import EMBEDDING, HEAD, Link, links
from erpo_jax.policy.model import Decoder
from erpo_jax.policy.parameters import DTYPE, Parameter, parameters
from erpo_jax.policy.policy import Policy, read_json
from erpo_jax.policy.sharding import check_fit, parameter_sharding, partition
from erpo_jax.policy.spec import CheckpointError, ModelSpec

HUB_ID = r"[\w-][\w.-]*/[\w.-]+"
QUICKSTART = Path(__file__).parent.parent / "assets" / "quickstart"
_HUB_FILES = ("*.safetensors", "*.json", "tokenizer*", "*.txt", "*.jinja", "*.model")


def load(
    path: str | Path,
    mesh: Mesh,
    *,
    compute_dtype: str = "float32",
    remat: bool = True,
    attention: str = "auto",
    revision: str | None = None,
) -> Policy:
    """A policy from "quickstart", a folder, or a hub id. Parameters are float32 whatever the files hold.

    Raises CheckpointError naming the file, the tensor or the config field; ShardingError when the mesh does not fit.
    """
    folder = resolve(path, revision)
    spec = ModelSpec.from_hf(read_json(folder / "config.json"))
    check_fit(spec, mesh)
    graphdef, shapes = _skeleton(spec, mesh, compute_dtype, remat, attention)
    with open_checkpoint(folder) as files:
        by_parameter = match(files, spec)
        values = {
            path: _assemble(parameter, by_parameter[path], files, spec, mesh)
            for path, parameter in parameters(spec).items()
        }
    return Policy(spec, mesh, graphdef, _fill(shapes, values), folder)


def init(
    spec: ModelSpec,
    mesh: Mesh,
    seed: int,
    source: str | Path,
    *,
    compute_dtype: str = "float32",
    remat: bool = True,
    attention: str = "auto",
) -> Policy:
    """Random weights (see parameters.py), sharded at birth and the same on every mesh. `source` is a folder with
    config.json and the tokenizer's files; it needs no weights."""
    check_fit(spec, mesh)
    graphdef, shapes = _skeleton(spec, mesh, compute_dtype, remat, attention)
    values = _birth(spec, mesh)(jax.random.key(seed))
    return Policy(spec, mesh, graphdef, _fill(shapes, values), Path(source))


@functools.lru_cache(maxsize=8)
def _birth(spec: ModelSpec, mesh: Mesh) -> Callable[[jax.Array], dict[tuple[str, ...], jax.Array]]:
    """Initial values by path, compiled once for all seeds."""
    table = parameters(spec)

    def born(key: jax.Array) -> dict[tuple[str, ...], jax.Array]:
        keys = jax.random.split(key, len(table))
        return {path: row.initial(spec, keys[i]) for i, (path, row) in enumerate(table.items())}

    return jax.jit(born, out_shardings={path: parameter_sharding(mesh, row) for path, row in table.items()})


def abstract(
    spec: ModelSpec,
    mesh: Mesh,
    source: str | Path,
    *,
    compute_dtype: str = "float32",
    remat: bool = True,
    attention: str = "auto",
) -> Policy:
    """A policy whose parameters are jax.ShapeDtypeStruct with their shardings: to plan, to compile for devices that are
    not there, to restore a checkpoint into."""
    check_fit(spec, mesh)
    graphdef, shapes = _skeleton(spec, mesh, compute_dtype, remat, attention)
    leaves = {
        path: jax.ShapeDtypeStruct(row.shape(spec), DTYPE, sharding=parameter_sharding(mesh, row))  # type: ignore[no-untyped-call]
        for path, row in parameters(spec).items()
    }
    return Policy(spec, mesh, graphdef, _fill(shapes, leaves), Path(source))


def resolve(path: str | Path, revision: str | None = None) -> Path:
    """The local folder of a checkpoint; a hub id is downloaded (weights, configuration and tokenizer files only)."""
    if str(path) == "quickstart":
        if not (QUICKSTART / "config.json").is_file():
            raise CheckpointError(f"{QUICKSTART} holds no policy; launch/make_quickstart_policy.py makes it")
        return QUICKSTART
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise CheckpointError(f"{folder} is a file; a checkpoint is a folder with config.json and safetensors files")
    if not re.fullmatch(HUB_ID, str(path)):
        parent = folder.parent if folder.parent.is_dir() else Path()
        near = difflib.get_close_matches(folder.name, [item.name for item in parent.iterdir() if item.is_dir()], n=1)
        hint = f"; did you mean {parent / near[0]}?" if near else ""
        raise CheckpointError(f"there is no folder {path}, and it is not a hub id of the form owner/name{hint}")
    return _download(str(path), revision)


def _download(repository: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(_HUB_FILES)))
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, OSError) as error:
        at = f" at revision {revision}" if revision else ""
        raise CheckpointError(
            f"{repository}{at} is neither a folder here nor in the local hub cache, and the hub did not give it: "
            f"{str(error).splitlines()[0]}"
        ) from error


def match(files: CheckpointFiles, spec: ModelSpec) -> dict[tuple[str, ...], list[Link]]:
    """The stored tensors of each parameter, layers in order. Raises CheckpointError naming the first that is unknown,
    missing or of another shape than config.json says."""
    wanted = {link.name: link for link in links(spec)}
    for name in files.tensors:
        if name not in wanted and not (spec.tied and name == HEAD):
            _unknown(files, name, wanted)
    found: dict[tuple[str, ...], list[Link]] = {}
    for name, link in wanted.items():
        stored = files.tensors.get(name)
        if stored is None:
            hint = "; config.json has tie_word_embeddings false" if name == HEAD else ""
            raise CheckpointError(f"{files.folder}: tensor {name} is missing{hint}")
        if stored.shape != link.shape(spec):
            raise CheckpointError(
                f"{files.folder}: tensor {name} has shape {list(stored.shape)}, but config.json makes it "
                f"{list(link.shape(spec))}"
            )
        found.setdefault(link.parameter.path, []).append(link)
    if spec.tied and HEAD in files.tensors:
        _check_tied(files)
    return found


def _unknown(files: CheckpointFiles, name: str, wanted: Iterable[str]) -> None:
    near = difflib.get_close_matches(name, [known for known in wanted if known not in files.tensors], n=1)
    hint = f"; {near[0]} is missing" if near else ""
    raise CheckpointError(
        f"{files.folder}: tensor {name} of {files.tensors[name].file} is not one of this model's{hint}"
    )


def _check_tied(files: CheckpointFiles) -> None:
    head, embedding = files.tensors[HEAD], files.tensors[EMBEDDING]
    same = head.shape == embedding.shape and head.dtype == embedding.dtype
    rows, columns = embedding.shape
    block = max(1, (1 << 24) // columns)
    for start in range(0, rows if same else 0, block):
        part = (slice(start, min(start + block, rows)), slice(None))
        same = same and files.read(HEAD, part).tobytes() == files.read(EMBEDDING, part).tobytes()
    if not same:
        raise CheckpointError(
            f"{files.folder}: {HEAD} differs from {EMBEDDING}, although config.json has tie_word_embeddings true"
        )


def _assemble(
    parameter: Parameter, stored: list[Link], files: CheckpointFiles, spec: ModelSpec, mesh: Mesh
) -> jax.Array:
    sharding = parameter_sharding(mesh, parameter)
    if not parameter.stacked:
        return _one(stored[0], files, spec, sharding)
    layer_sharding = NamedSharding(mesh, partition(parameter.axes[1:]))
    stack, place = _stacker(parameter.shape(spec), sharding)
    value: jax.Array = stack()
    for layer, link in enumerate(stored):
        value = place(value, _one(link, files, spec, layer_sharding), jnp.int32(layer))
    return value


@functools.lru_cache(maxsize=64)
def _stacker(shape: tuple[int, ...], sharding: NamedSharding) -> tuple[Callable[[], Any], Callable[..., Any]]:
    def put(stack: jax.Array, one: jax.Array, layer: jax.Array) -> jax.Array:
        stacked: jax.Array = jax.lax.dynamic_update_index_in_dim(stack, one, layer, 0)
        return stacked

    return (
        jax.jit(lambda: jnp.zeros(shape, DTYPE), out_shardings=sharding),
        jax.jit(put, donate_argnums=0, out_shardings=sharding),
    )


def _one(link: Link, files: CheckpointFiles, spec: ModelSpec, sharding: NamedSharding) -> jax.Array:
    """One stored tensor as a sharded array of our axes."""
    shape = tuple(spec.size(axis) for axis in link.axes)
    parts = []
    for device, ours in sharding.addressable_devices_indices_map(shape).items():
        assert ours is not None
        part = files.read(link.name, link.stored_slices(ours, spec))
        parts.append(jax.device_put(link.to_ours(part, spec).astype(DTYPE, order="C"), device))
    return jax.make_array_from_single_device_arrays(shape, sharding, parts)


def _decoder(spec: ModelSpec, mesh: Mesh, compute_dtype: str, remat: bool, attention: str, rngs: nnx.Rngs) -> Decoder:
    if compute_dtype not in ("float32", "bfloat16"):
        raise CheckpointError(f"compute_dtype={compute_dtype!r} is not one of float32, bfloat16")
    return Decoder(spec, rngs=rngs, compute_dtype=jnp.dtype(compute_dtype), remat=remat, attention=attention, mesh=mesh)


def _skeleton(
    spec: ModelSpec, mesh: Mesh, compute_dtype: str, remat: bool, attention: str
) -> tuple[nnx.GraphDef, nnx.State]:
    return nnx.split(nnx.eval_shape(lambda: _decoder(spec, mesh, compute_dtype, remat, attention, nnx.Rngs(params=0))))


def _fill(state: nnx.State, values: dict[tuple[str, ...], Any]) -> nnx.State:
    """The state with these values in place of its own."""
    return nnx.from_flat_state(
        {path: leaf.replace(values[tuple(map(str, path))]) for path, leaf in nnx.to_flat_state(state)}
    )
