"""Make the quickstart policy from nothing, or measure one: `python launch/make_quickstart_policy.py OUT` / `--measure
FOLDER`.

Seeded. On two idle cores the making takes about 20 minutes; `--steps 200` gives a poor policy in two.
"""

from __future__ import annotations

import time
from pathlib import Path

from erpo_jax import command


def main(words: list[str]) -> None:
    parser = command.parser(__doc__ or "", keys=False)
    parser.add_argument(
        "out", nargs="?", type=Path, metavar="OUT", help="folder to make; it must not hold another policy"
    )
    parser.add_argument(
        "--measure", type=Path, metavar="FOLDER", help="measure the policy in FOLDER instead, and its temperature curve"
    )
    parser.add_argument(
        "--problems", choices=("problems", "transfer"), default="problems", help="which held-out set to measure on"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of corpus, weights and order")
    parser.add_argument(
        "--steps", type=int, default=None, help="pretraining steps; the default makes the policy that ships"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it is there")
    given = parser.parse_args(words)
    if (given.out is None) == (given.measure is None):
        parser.error("give either a folder OUT to make or --measure FOLDER")
    if given.measure is not None:
        _measure(given.measure, given.problems)
    else:
        _make(given.out, given.seed, given.steps, given.overwrite)


def _make(out: Path, seed: int, steps: int | None, overwrite: bool) -> None:
    from erpo_jax.quickstart import Recipe, Schedule, make

    begun = time.monotonic()
    schedule = Schedule() if steps is None else Schedule(steps=steps)
    make(out, Recipe(seed=seed, schedule=schedule), overwrite=overwrite, say=lambda line: print(line, flush=True))
    print(
        f"{out} made in {time.monotonic() - begun:.0f} s; measure it with: "
        f"python launch/make_quickstart_policy.py --measure {out}"
    )


def _measure(folder: Path, which: str) -> None:
    from erpo_jax.evaluate import load_hidden
    from erpo_jax.policy import load, make_mesh
    from erpo_jax.problems import Prompts, load_problems
    from erpo_jax.quickstart.corpus import prompt_config
    from erpo_jax.quickstart.measure import measure, write_probes
    from erpo_jax.rollout import JaxEngine
    from erpo_jax.sandbox import Sandbox

    prefix = "" if which == "problems" else "transfer_"
    policy = load(folder, make_mesh(), remat=False)
    problems = load_problems(policy.source / "problems" / f"{prefix}problems.jsonl")
    hidden = load_hidden(policy.source / "problems" / f"{prefix}hidden.jsonl", [problem.id for problem in problems])
    prompts = Prompts(prompt_config(), policy.tokenizer())
    engine = JaxEngine(policy, batch_rows=256, max_prompt_tokens=64)
    with Sandbox() as sandbox:
        probes = write_probes(engine, prompts, problems, 10, seed=1)
        print("\n".join(measure(engine, prompts, problems, hidden, probes, sandbox).lines()))
        print("\ntemperature   pass@1  pass@16")
        for temperature in (0.3, 0.5, 0.7, 1.0, 1.3):
            point = measure(engine, prompts, problems, hidden, probes, sandbox, temperature=temperature, seed=2)
            print(f"{temperature:11g}   {point.pass_at_1:6.3f}  {point.pass_at_n:7.3f}", flush=True)


if __name__ == "__main__":
    command.run(main)
