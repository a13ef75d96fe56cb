"""What a compiled program costs on one device: floating-point operations, bytes, collectives, from its own text.

XLA's `cost_analysis()` counts a loop's body once, and is absent for programs compiled for devices that are not there.
Here bodies are multiplied by their trip counts, a conditional counts one branch, and library calls (cuBLAS, cuDNN,
oneDNN) are counted from their shapes. A masked attention counts in full, as its products would without a library.
Left out: time. `roofline` bounds it from below.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from erpo_jax.planning.hlo import Computation, HloError, Instruction, Module, parse

# One operation an element, floating point or not, as XLA counts them; transcendental functions are not among them.
# fmt: off
_ELEMENTWISE = {
    "abs", "add", "and", "ceil", "clamp", "compare", "convert", "divide", "floor", "maximum", "minimum", "multiply",
    "negate", "not", "or", "remainder", "round-nearest-afz", "round-nearest-even", "select", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "sign", "subtract", "xor",
}
# Moves nothing by itself: names for what is there, or a call whose computation is counted.
_FREE = {
    "add-dependency", "after-all", "async-done", "async-start", "async-update", "bitcast", "call", "conditional",
    "constant", "get-tuple-element", "opt-barrier", "parameter", "partition-id", "replica-id", "tuple", "while",
}
COLLECTIVES = {
    "all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute", "ragged-all-to-all",
    "reduce-scatter",
}
# fmt: on


@dataclass(frozen=True)
class Traffic:
    """Collectives of one kind. All figures are those of one device."""

    count: float = 0.0
    bytes: float = 0.0
    """Sum of the larger of operand and result: the whole array that a gather makes or a reduction reads."""
    wire_bytes: float = 0.0
    """What a ring sends from each device: (n-1)/n of `bytes`, twice that for an all-reduce."""

    def plus(self, other: Traffic, times: float = 1.0) -> Traffic:
        return Traffic(
            self.count + times * other.count,
            self.bytes + times * other.bytes,
            self.wire_bytes + times * other.wire_bytes,
        )


@dataclass
class Cost:
    """One execution of a program on one device. Multiply by the devices for the whole step."""

    products: Counter[str] = field(default_factory=Counter)
    """Floating-point operations of matrix products, convolutions and fused attention (a multiply-add is two), by the
    jax.named_scope path (`op_name`) that they come from."""
    elementwise: float = 0.0
    """Other arithmetic, one an element, integers too, transcendental functions not: what XLA adds to it as "flops"."""
    bytes: float = 0.0
    """Bytes read and written by the kernels, caches aside."""
    collectives: dict[str, Traffic] = field(default_factory=dict)

    @property
    def flops(self) -> float:
        """Floating-point operations of all products."""
        return float(sum(self.products.values()))

    @property
    def wire_bytes(self) -> float:
        return sum(traffic.wire_bytes for traffic in self.collectives.values())

    def flops_in(self, scope: str) -> float:
        """`flops` of the products whose path holds the word `scope`, such as "attention" (also "transpose(attention)",
        its backward pass)."""
        word = re.compile(rf"\b{re.escape(scope)}\b")
        return float(sum(flops for path, flops in self.products.items() if word.search(path)))

    def add(self, other: Cost, times: float = 1.0) -> None:
        for path, flops in other.products.items():
            self.products[path] += flops * times  # type: ignore[assignment]
        self.elementwise += times * other.elementwise
        self.bytes += times * other.bytes
        for kind, traffic in other.collectives.items():
            self.collectives[kind] = self.collectives.get(kind, Traffic()).plus(traffic, times)


def count(text: str, *, branch: int | None = None, trips: Mapping[str, float] | None = None) -> Cost:
    """The cost of one execution of a compiled program, `compiled.as_text()`, on one device.

    `branch`: which branch every conditional takes; 0 is False, so that 0 is the update at or below the entropy ceiling
    and 1 the one above it. None: the one with more floating-point operations.
    `trips`: how often loops run whose number is a value at run time; the key is a part of the loop's op_name, such as
    "policy_loss", and the first key that fits counts. Loops with a number that the compiler knows need none.
    Raises HloError for a loop of unknown number that `trips` does not name, and for a text that is no program.
    """
    module = parse(text)
    return _Counter(module, branch, trips or {}).computation(module.entry)


def products(instruction: Instruction, here: Computation, module: Module) -> float:
    """Floating-point operations of the products in one instruction, a fusion's included; `here` holds it."""
    if instruction.opcode == "fusion":
        inside = module[instruction.called["calls"][0]]
        return sum(products(item, inside, module) for item in inside)
    return _product(instruction, here)


class _Counter:
    def __init__(self, module: Module, branch: int | None, trips: Mapping[str, float]) -> None:
        self._module, self._branch, self._trips = module, branch, trips
        self._known: dict[str, Cost] = {}

    def computation(self, name: str) -> Cost:
        if name not in self._known:
            total = Cost()
            here = self._module[name]
            for instruction in here:
                total.add(self._instruction(instruction, here))
            self._known[name] = total
        return self._known[name]

    def _instruction(self, instruction: Instruction, here: Computation) -> Cost:
        opcode, called = instruction.opcode, instruction.called
        cost = Cost(bytes=float(_bytes(instruction, here, self._module)))
        kind = opcode.removesuffix("-start")
        if opcode == "while":
            (body,), (condition,) = called["body"], called["condition"]
            times = self._loop(instruction)
            cost.add(self.computation(body), times)
            cost.add(self.computation(condition), times + 1)
        elif opcode == "conditional":
            cost.add(self._chosen(called))
        elif opcode == "fusion":
            inside = self.computation(called["calls"][0])
            cost.add(Cost(inside.products, inside.elementwise))  # its bytes stay in registers
        elif opcode in ("call", "async-start"):
            cost.add(self.computation(next(iter(called.values()))[0]))
        elif kind in COLLECTIVES:
            cost.collectives[kind] = _traffic(kind, instruction, here)
        elif flops := _product(instruction, here):
            cost.products[instruction.scope] += flops
        elif opcode in ("reduce", "reduce-window", "scatter", "select-and-scatter"):
            cost.elementwise += _combined(instruction, here)
        elif opcode in _ELEMENTWISE:
            cost.elementwise += instruction.size
        return cost

    def _loop(self, loop: Instruction) -> float:
        known = loop.backend_config.get("known_trip_count", {}).get("n")
        if known is not None:
            return int(known)
        for part, times in self._trips.items():
            if part in loop.scope:
                return times
        raise HloError(
            f"the loop {loop.scope or loop.name} runs a number of times that only its inputs say; name it in `trips`"
        )

    def _chosen(self, called: Mapping[str, tuple[str, ...]]) -> Cost:
        branches = called.get("branch_computations") or called["false_computation"] + called["true_computation"]
        if self._branch is not None:
            return self.computation(branches[self._branch])
        return max(map(self.computation, branches), key=lambda cost: cost.flops)


def _product(instruction: Instruction, here: Computation) -> int:
    counters = {"dot": _dot, "convolution": _convolution, "custom-call": _library_call}
    counter = counters.get(instruction.opcode)
    return counter(instruction, here) if counter else 0


def _dot(dot: Instruction, here: Computation) -> int:
    left = here.instructions[dot.operands[0]].shapes[0]
    return 2 * dot.shapes[0].size * math.prod(left.dims[axis] for axis in dot.dimensions("lhs_contracting_dims"))


def _convolution(convolution: Instruction, here: Computation) -> int:
    """2 * outputs * the kernel's elements that each of them reads, padding included."""
    kernel = here.instructions[convolution.operands[1]].shapes[0]
    labels = re.search(r"dim_labels=\w+_(\w+)->", convolution.text)
    outputs = kernel.dims[labels.group(1).index("o")] if labels else 1
    return 2 * convolution.shapes[0].size * kernel.size // max(outputs, 1)


def _library_call(call: Instruction, here: Computation) -> int:
    """Floating-point operations of a call into a library of products; 0 for any other custom call."""
    target = call.target
    if "fmha" in target:
        return _attention(call, here)
    if not re.search("gemm|matmul", target):
        return 0
    left, right = (operand.shapes[0] for operand in here.operands(call)[:2])
    config = call.backend_config.get("gemm_backend_config", call.backend_config)
    numbers = config.get("dot_dimension_numbers")
    if numbers is not None:
        return (
            2
            * call.shapes[0].size
            * math.prod(left.dims[int(axis)] for axis in numbers.get("lhs_contracting_dimensions", ()))
        )
    # oneDNN says no axes: [.., M, K] x [.., K, N] -> [.., M, N], so that K^2 = left * right / (result * batch)
    result = call.shapes[0]
    batch = math.prod(result.dims[:-2]) if len(left.dims) == len(result.dims) else 1
    return 2 * result.size * math.isqrt(left.size * right.size // max(result.size * batch, 1))


def _attention(call: Instruction, here: Computation) -> int:
    """cuDNN's fused attention: 2 products forward, 5 backward (the scores once more, then by v, p, q and k)."""
    scores = call.backend_config["cudnn_fmha_backend_config"]["intermediate_tensor_shape"]["dimensions"]
    head_dim = here.instructions[call.operands[0]].shapes[0].dims[-1]
    products = 5 if call.target.endswith("Backward") else 2
    return products * 2 * head_dim * math.prod(map(int, scores))


def _combined(reduction: Instruction, here: Computation) -> int:
    """An operation for every element that is combined with another."""
    operands = here.operands(reduction)
    if reduction.opcode == "scatter":
        return operands[-1].size
    return max(operands[0].size - reduction.shapes[0].size, 0)


def _traffic(kind: str, collective: Instruction, here: Computation) -> Traffic:
    operands = sum(operand.bytes for operand in here.operands(collective))
    result = collective.bytes
    if collective.opcode.endswith("-start") and len(collective.shapes) > len(collective.operands):
        result -= operands  # an asynchronous one gives back its operands beside its result
    whole = max(operands, result)
    members = _members(collective.text)
    sent = 1.0 if kind == "collective-permute" else (members - 1) / members * (2.0 if kind == "all-reduce" else 1.0)
    return Traffic(1.0, float(whole), sent * whole)


def _members(text: str) -> int:
    """Devices in one group of a collective."""
    groups = re.search(r"replica_groups=(\S+)(?: \{([^}]*)\})?", text)
    if not groups:
        return 1
    listed, axes = groups.groups()
    if listed.startswith("mesh"):  # mesh['a'=4,'b'=2] {'a'}: the axes in braces; 'a':(1)2 is a part of one
        sizes = dict(re.findall(r"('\w+')=(\d+)", listed))
        named = re.findall(r"('\w+')(?::\(\d+\)(\d+))?", axes or "")
        return math.prod(int(part or sizes[axis]) for axis, part in named)
    if "<=" in listed:  # [groups, members]<=[devices]
        return int(re.findall(r"\d+", listed.partition("]<=")[0])[-1])
    return listed.partition("}")[0].count(",") + 1  # {{0,1},{2,3}}


def _bytes(instruction: Instruction, here: Computation, module: Module) -> int:
    """Read and written by one kernel. Of an array that is only sliced, or updated in place, the part alone."""
    opcode = instruction.opcode
    if opcode in _FREE or opcode.endswith("-done"):
        return 0
    operands = here.operands(instruction)
    if opcode in ("dynamic-slice", "slice", "gather"):
        return 2 * instruction.bytes
    if opcode == "dynamic-update-slice":
        return 2 * operands[1].bytes
    if opcode == "scatter":
        return 3 * operands[-1].bytes
    if opcode != "fusion":
        return instruction.bytes + sum(operand.bytes for operand in operands)
    inside = module[instruction.called["calls"][0]]
    read = sum(_read(item, inside) for item in inside if item.opcode == "parameter")
    return read + _written(inside.root, inside)


def _read(parameter: Instruction, inside: Computation) -> int:
    users = inside.users(parameter)
    total = 0
    for user in users:
        if user.opcode in ("dynamic-slice", "slice", "gather") and user.operands[0] == parameter.name:
            total += user.bytes
        elif user.opcode == "dynamic-update-slice" and user.operands[0] == parameter.name:
            continue
        else:
            return parameter.bytes
    return min(total, parameter.bytes)


def _written(root: Instruction, inside: Computation) -> int:
    if root.opcode == "tuple":
        return sum(_written(operand, inside) for operand in inside.operands(root))
    if root.opcode == "dynamic-update-slice":
        return inside.operands(root)[1].bytes
    return root.bytes
