"""Write a checkpoint of a run as a Hugging Face folder that transformers and vLLM load.

python launch/export.py runs/quickstart 20 OUT        the weights after 20 updates
python launch/export.py runs/quickstart last OUT
"""

from __future__ import annotations

import argparse
from pathlib import Path

from erpo_jax import command, config
from erpo_jax.errors import UserError


def main(argv: list[str]) -> int:
    parser = command.parser(__doc__ or "", keys=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("step", metavar="STEP", help="a step that has a checkpoint, or 'last'")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write; must not exist yet")
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16"), help="dtype of the weights; default: that of the source"
    )
    found = parser.parse_args(argv)
    file = found.run / "config.yaml"
    if not file.is_file():
        raise UserError(f"{found.run} is not a run folder: it has no config.yaml")
    settings = config.load([file])
    command.prepare_jax(settings)

    from erpo_jax.checkpoint import Checkpoints
    from erpo_jax.policy import export
    from erpo_jax.trainer import load_policy

    with Checkpoints(found.run / "checkpoints", keep=settings.train.keep_checkpoints) as checkpoints:
        steps = checkpoints.steps()
        if found.step != "last" and not found.step.isdecimal():
            raise UserError(f"STEP is {found.step}; it must be 'last' or one of {steps}")
        if not steps:
            raise UserError(f"{found.run} has no checkpoint yet")
        step = steps[-1] if found.step == "last" else int(found.step)
        policy = load_policy(settings)
        policy = policy.with_params(checkpoints.restore_params(step, policy.params))
    print(f"weights after {step} updates: {export(policy, found.out, dtype=found.dtype)}")
    return 0


if __name__ == "__main__":
    command.run(main)
