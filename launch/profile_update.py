"""Profile the update on the devices there are: a trace, the program, memory, and the slowest operations.

    python launch/profile_update.py                                  the quickstart's policy, synthetic candidates
    python launch/profile_update.py CONFIG.yaml --rollouts runs/NAME/rollouts/step-000010.jsonl.zst
    python launch/profile_update.py CONFIG.yaml --devices 8 mesh.fsdp=8          8 virtual devices of one CPU

Weights are random, of the model's own shape (model.path or model.shape): none are read. docs/profiling.md shows how to
read what it leaves.
"""

from __future__ import annotations

import os
from pathlib import Path

from erpo_jax import command
from erpo_jax.errors import UserError


def main(argv: list[str]) -> int:
    parser = command.parser(__doc__ or "")
    parser.add_argument("--steps", type=int, default=3, help="updates under the profiler, after one that warms up")
    parser.add_argument("--above-ceiling", action="store_true", help="take the branch above the entropy ceiling")
    parser.add_argument("--rollouts", type=Path, metavar="FILE", help="a step's file in a run folder; else synthetic")
    parser.add_argument("--devices", type=int, default=0, help="virtual devices of one CPU; 0 takes the real devices")
    parser.add_argument("--out", type=Path, help="folder for what it leaves; default runs/profiles/NAME")
    arguments = parser.parse_args(argv)
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")
    config = command.load_config(arguments.words)
    if arguments.devices:
        os.environ["JAX_PLATFORMS"] = "cpu"
        flag = f"--xla_force_host_platform_device_count={arguments.devices}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}"
    command.prepare_jax(config)

    from erpo_jax import preflight
    from erpo_jax.planning import profile_lines, profile_update, recorded_candidates, synthetic_candidates
    from erpo_jax.policy import init, make_mesh

    spec = preflight.model_spec(config)
    if spec is None:
        raise UserError(f"{config.model.path} is not on this machine; set model.shape to its config.json")
    model, mesh = config.model, config.mesh
    policy = init(
        spec,
        make_mesh(mesh.data, mesh.fsdp, mesh.tensor),
        config.train.seed,
        ".",
        compute_dtype=model.compute_dtype,
        remat=model.remat,
        attention=model.attention,
    )
    if arguments.rollouts:
        candidates = recorded_candidates(arguments.rollouts, config)
    else:
        candidates = synthetic_candidates(config, spec.vocabulary, shortest=0.25)
    folder = arguments.out or Path(config.run.folder) / "profiles" / config.run.name
    print(f"compiling and running {arguments.steps + 1} updates of {len(candidates)} candidates ...", flush=True)
    profile = profile_update(
        policy, config, candidates, folder, steps=arguments.steps, above_ceiling=arguments.above_ceiling
    )
    print("\n".join(profile_lines(profile)))
    print(f"\ntrace, program and memory profile: {folder}   (docs/profiling.md)")
    return 0


if __name__ == "__main__":
    command.run(main)
