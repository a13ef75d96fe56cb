"""One table from logical axes to mesh axes, the mesh itself, and the shardings that follow from them.

The mesh is (data, fsdp, tensor). Parameters are split over fsdp (their model axis) and tensor (heads, feed-forward,
vocabulary); rows of a batch over data and fsdp. Everything is an explicit NamedSharding: no mesh is ever set globally.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from erpo_jax.errors import UserError
from erpo_jax.policy.parameters import Parameter, parameters
from erpo_jax.policy.spec import ModelSpec

MESH_AXES = ("data", "fsdp", "tensor")

AXES: dict[str, tuple[str, ...]] = {
    "rows": ("data", "fsdp"),
    "tokens": (),
    "layers": (),
    "model": ("fsdp",),
    "features": (),
    "feed_forward": ("tensor",),
    "heads": ("tensor",),
    "kv_heads": ("tensor",),
    "head_dim": (),
    "vocabulary": ("tensor",),
}


class ShardingError(UserError):
    """Sizes and mesh do not fit: names the array, its axis, the sizes, and what would fit."""


def make_mesh(data: int = 1, fsdp: int = 1, tensor: int = 1, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh of the first data * fsdp * tensor devices. Raises ShardingError when there are fewer."""
    shape = (data, fsdp, tensor)
    for name, size in zip(MESH_AXES, shape, strict=True):
        if size < 1:
            raise ShardingError(f"mesh.{name}={size} must be at least 1")
    found = list(jax.devices() if devices is None else devices)
    wanted = math.prod(shape)
    if wanted > len(found):
        raise ShardingError(
            f"mesh.data * mesh.fsdp * mesh.tensor = {data} * {fsdp} * {tensor} = {wanted} devices, "
            f"but there are {len(found)}"
        )
    return Mesh(np.asarray(found[:wanted]).reshape(shape), MESH_AXES)


def partition(axes: Sequence[str], *, gathered: bool = False) -> PartitionSpec:
    """The PartitionSpec of an array with these logical axes. `gathered` leaves the model axis whole: the form in which
    a parameter is used. Raises ShardingError when two axes want the same mesh axis."""
    taken: dict[str, str] = {}
    entries: list[Any] = []
    for axis in axes:
        if axis not in AXES:
            raise ShardingError(f"unknown logical axis {axis!r}; there are {', '.join(AXES)}")
        on = () if gathered and axis == "model" else AXES[axis]
        for mesh_axis in on:
            if mesh_axis in taken:
                raise ShardingError(
                    f"axes {taken[mesh_axis]} and {axis} of ({', '.join(axes)}) both want the mesh axis {mesh_axis}"
                )
            taken[mesh_axis] = axis
        entries.append(on if len(on) > 1 else on[0] if on else None)
    return PartitionSpec(*entries)  # type: ignore[no-untyped-call]


def parameter_sharding(mesh: Mesh, parameter: Parameter) -> NamedSharding:
    """Where a parameter rests between its uses."""
    return NamedSharding(mesh, partition(parameter.axes))


def check_fit(spec: ModelSpec, mesh: Mesh | AbstractMesh) -> None:
    """Raises ShardingError when a parameter's axis is not a multiple of the mesh axes that split it."""
    for parameter in parameters(spec).values():
        for axis in parameter.axes:
            _must_divide(f"parameter {parameter.name}", axis, spec.size(axis), mesh)


def constrain(array: jax.Array, mesh: Mesh | None, axes: Sequence[str], *, gathered: bool = False) -> jax.Array:
    """Fix the layout of an array inside a compiled function. Without a mesh: the array as it is."""
    if mesh is None:
        return array
    for axis, size in zip(axes, array.shape, strict=True):
        if axis == "rows":
            _must_divide("a batch", axis, size, mesh)
    fixed: jax.Array = jax.lax.with_sharding_constraint(  # type: ignore[no-untyped-call]
        array, NamedSharding(mesh, partition(axes, gathered=gathered))
    )
    return fixed


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def gather(array: jax.Array, mesh: Mesh | None, axes: tuple[str, ...]) -> jax.Array:
    """A parameter from where it rests to the form in which it is used. Its gradient goes back the same way: each device
    gets its part of the sum (a reduce-scatter), nobody the whole."""
    # Unless it is held where it rests first, the compiler may move the gather before a cast.
    return constrain(constrain(array, mesh, axes), mesh, axes, gathered=True)


gather.defvjp(
    lambda array, mesh, axes: (gather(array, mesh, axes), None),
    lambda mesh, axes, _, bar: (constrain(bar, mesh, axes),),
)


def row_sharding(mesh: Mesh, rank: int = 2) -> NamedSharding:
    """The sharding of a batch whose first axis is rows, such as tokens_rs: rows over data and fsdp, the rest whole."""
    return NamedSharding(mesh, partition(("rows", *["tokens"] * (rank - 1))))


def _must_divide(what: str, axis: str, size: int, mesh: Mesh | AbstractMesh) -> None:
    on = AXES[axis]
    parts = math.prod(mesh.shape[name] for name in on)
    if size % parts:
        below = size // parts * parts
        valid = [divisor for divisor in range(1, parts + 1) if size % divisor == 0 and parts % divisor == 0][-1]
        hint = f"use {below} or {below + parts}" if axis == "rows" else f"the largest split that fits is {valid}"
        raise ShardingError(
            f"{what}: axis {axis} has {size} entries, not a multiple of mesh.{' * mesh.'.join(on)} = {parts}; {hint}"
        )
