"""Will the update fit on those GPUs, and how fast can it be at best? Needs no GPU and no weights.

    make plan ARGS="configs/qwen3_8b_livecodebench.yaml --gpu a100-80g"
    python launch/plan.py configs/qwen3_8b_livecodebench.yaml --gpu h100 --gpus 4 mesh.fsdp=4 update.micro_batch_rows=4

Compiles the configured update for the cards with XLA's own compiler and reads the program that comes out: memory of one
device, collectives, operations, the least time. Exit code 1 when it does not fit, with the nearest settings that do.
"""

from __future__ import annotations

import time
from pathlib import Path

from erpo_jax import command
from erpo_jax.config import Config
from erpo_jax.errors import UserError


def main(argv: list[str]) -> int:
    parser = command.parser(__doc__ or "")
    parser.add_argument("--gpu", default="a100-80g", help="the kind of GPU: a100-40g, a100-80g, h100, h200 or b200")
    parser.add_argument("--gpus", type=int, help="GPUs of the node; the mesh must use all of them")
    parser.add_argument("--out", type=Path, help="folder for the program (HLO) and these lines; default runs/plans/...")
    arguments = parser.parse_args(argv)
    config = command.load_config(arguments.words)
    others = config.mesh.data * config.mesh.tensor
    devices = others * config.mesh.fsdp
    if arguments.gpus not in (None, devices):
        fitting = arguments.gpus > 0 and arguments.gpus % others == 0
        raise UserError(
            f"--gpus {arguments.gpus}, but mesh.data * mesh.fsdp * mesh.tensor = {devices} devices; "
            + (f"set mesh.fsdp={arguments.gpus // others}" if fitting else f"give --gpus a multiple of {others}")
        )
    command.prepare_gpu_compiler()

    from erpo_jax import preflight
    from erpo_jax.planning import Program, compile_update, find_gpu, gpu_devices, make_plan, plan_lines
    from erpo_jax.planning.gpus import GIB

    gpu = find_gpu(arguments.gpu)
    spec = preflight.model_spec(config)
    if spec is None:
        raise UserError(f"{config.model.path} is not on this machine; set model.shape to its config.json")
    preflight.check_model(config)
    # what was asked for is in the name: plans of an objective, or of another mesh, lie beside the first
    words = [word.replace("/", "_") if "=" in word else Path(word).stem for word in arguments.words]
    folder = arguments.out or Path(config.run.folder) / "plans" / "-".join([*words, arguments.gpu])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}; --out names another") from error

    def compile_(config: Config, why: str) -> Program:
        began, mesh = time.monotonic(), config.mesh
        cards = gpu_devices(gpu, mesh.data * mesh.fsdp * mesh.tensor)
        print(f"compiling for {len(cards)} x {gpu.name}: {why} ...", end=" ", flush=True)
        program = compile_update(config, spec, cards)
        print(f"{program.total_bytes / GIB:.1f} GiB ({time.monotonic() - began:.0f} s)", flush=True)
        return program

    plan = make_plan(config, spec, gpu, compile_)
    found = "\n".join(plan_lines(plan))
    print(f"\n{found}")
    (folder / "plan.txt").write_text(f"{found}\n")
    (folder / "update.hlo.txt").write_text(plan.program.text)
    print(f"the compiled program, and these lines: {folder}")
    return 0 if plan.fits else 1


if __name__ == "__main__":
    command.run(main)
