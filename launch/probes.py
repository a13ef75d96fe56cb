"""Make the probes that are still missing, and show them.

    python launch/probes.py                                    those of the quickstart (configs/quickstart.yaml)
    python launch/probes.py configs/qwen3_4b_livecodebench.yaml problems.limit=20
    python launch/probes.py CONFIG.yaml --show                 what is stored already; loads no weights

Probes are made once per problem and generator settings; training takes them from the same store (probes.store).
"""

from __future__ import annotations

import warnings

from erpo_jax import command
from erpo_jax.config import Config
from erpo_jax.errors import UserError


def main(argv: list[str]) -> int:
    parser = command.parser(__doc__ or "")
    parser.add_argument("--show", action="store_true", help="show what is stored and stop")
    arguments = parser.parse_args(argv)
    config = command.load_config(arguments.words)

    from erpo_jax.probes import ProbeStore, settings_of, show_probes
    from erpo_jax.problems import load_problems

    problems = load_problems(config.problems.path)[: config.problems.limit or None]
    store = ProbeStore(config.probes.store, settings_of(config, config.train.seed))
    stored = store.load()
    if not arguments.show and any(problem.digest() not in stored for problem in problems):
        _make(config)
        stored = store.load()
    found = [(problem, stored[problem.digest()]) for problem in problems if problem.digest() in stored]
    if not found:
        raise UserError(f"{store.path} has no probes for these problems and settings; without --show they are made")
    show_probes(found, config.probes.count)
    print(f"{len(found)} of {len(problems)} problems have probes in {store.path}")
    return 0


def _make(config: Config) -> None:
    command.prepare_jax(config)

    from erpo_jax.display import Display
    from erpo_jax.execution import open_sandbox
    from erpo_jax.probes import make_probes
    from erpo_jax.problems import Prompts, load_problems
    from erpo_jax.rollout import open_engine
    from erpo_jax.trainer import load_policy

    problems = load_problems(config.problems.path)[: config.problems.limit or None]
    policy = load_policy(config)
    prompts = Prompts(config.prompt, policy.tokenizer())
    with (
        open_sandbox(config.sandbox) as sandbox,
        open_engine(config, policy) as engine,
        Display(0) as display,
        display.phase("probes") as progress,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # the table says which sets are short, and why
        make_probes(
            problems,
            engine=engine,
            prompts=prompts,
            sandbox=sandbox,
            config=config,
            seed=config.train.seed,
            progress=progress,
        )


if __name__ == "__main__":
    command.run(main)
