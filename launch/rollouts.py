"""Look at what a run sampled: the candidates of a step, what they printed on the probes, and what was learnt from them.

    python launch/rollouts.py runs/quickstart                               the newest step, a line for each problem
    python launch/rollouts.py runs/quickstart --step 3 --problem NAME       the programs of one problem

The files it reads, rollouts/step-*.jsonl.zst, hold one JSON object per candidate (`zstdcat FILE | jq`).
"""

from __future__ import annotations

from pathlib import Path

from erpo_jax import command


def main(argv: list[str]) -> int:
    parser = command.parser(__doc__ or "", keys=False)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--step", type=int, help="the step; default the newest")
    parser.add_argument("--problem", help="show this problem's programs and outputs")
    arguments = parser.parse_args(argv)

    from rich.console import Console

    from erpo_jax.showing import recorded_step, show_problem, show_step

    records, console = recorded_step(arguments.run, arguments.step), Console()
    if arguments.problem:
        show_problem(records, arguments.problem, console)
    else:
        show_step(records, console)
    return 0


if __name__ == "__main__":
    command.run(main)
