"""A plan in words, for the terminal."""

from __future__ import annotations

from erpo_jax.planning.cost import Cost
from erpo_jax.planning.gpus import GIB
from erpo_jax.planning.plan import USABLE, Plan, roofline


def plan_lines(plan: Plan) -> list[str]:
    """Everything that a plan found, a line each."""
    program, gpu = plan.program, plan.gpu
    lines = [
        f"memory of one of {plan.devices} x {gpu.name}, GiB",
        f"  {'state':<28}{_gib(program.state_bytes)}    parameters, optimizer, batch",
        f"  {'temporaries':<28}{_gib(program.temporary_bytes)}    activations, gradients, gathered layers, at the peak",
        f"  {'in all':<28}{_gib(program.total_bytes)}",
        f"  {'usable':<28}{_gib(int(USABLE * gpu.memory_bytes))}    {USABLE:.0%} of {gpu.memory_bytes / GIB:.1f}",
    ]
    if plan.fits:
        share = program.total_bytes / gpu.memory_bytes + 0.01
        lines += [
            f"  {'left for a rollout engine':<28}{_gib(plan.left_bytes)}    "
            f"XLA_PYTHON_CLIENT_MEM_FRACTION={share:.2f}, vLLM --gpu-memory-utilization {USABLE - share:.2f}"
        ]
    micro_batches = program.micro_batches
    lines += [
        "",
        f"one update: {micro_batches} micro-batches of {plan.config.update.micro_batch_rows} rows, "
        f"{program.kept_micro_batches} of them learnt from; every answer as long as allowed",
    ]
    ceiling = (("at or below the entropy ceiling", False), ("above it", True))
    for name, above in ceiling if plan.config.loss.entropy_coefficient else (("no entropy term", False),):
        lines += [f"  {name}", *_cost_lines(program.cost(above_ceiling=above), plan)]
    lines += ["", *_verdict(plan)]
    return lines


def _gib(size: float) -> str:
    return f"{size / GIB:8.2f}"


def _cost_lines(cost: Cost, plan: Plan) -> list[str]:
    least = roofline(cost, plan.gpu, plan.config.model.compute_dtype)
    lines = [
        f"    {'products':<26}{cost.flops / 1e12:10.1f} TFLOP a device   {least.compute:8.2f} s at the peak"
        f"   (attention {cost.flops_in('attend') / max(cost.flops, 1.0):.0%})",
        f"    {'memory':<26}{cost.bytes / 1e9:10.1f} GB    a device   {least.memory:8.2f} s",
        f"    {'network':<26}{cost.wire_bytes / 1e9:10.1f} GB    a device   {least.network:8.2f} s",
        f"    {'roofline':<26}{'':10} at least           {least.seconds:8.2f} s, bound by {least.bound}",
    ]
    for kind, traffic in sorted(cost.collectives.items()):
        lines.append(
            f"      {kind:<24}{traffic.count:10.0f} times          {traffic.bytes / 1e9:10.2f} GB whole arrays"
        )
    return lines


def _verdict(plan: Plan) -> list[str]:
    if plan.fits:
        rows = plan.config.update.micro_batch_rows
        larger = "" if plan.largest_rows == rows else f"; update.micro_batch_rows up to {plan.largest_rows} fits"
        return [f"fits{larger}"]
    if plan.fitting:
        return [f"does not fit; this does: {' '.join(plan.fitting)}"]
    return ["does not fit, and nothing that was tried does; use more devices"]
