"""Let a policy write tests for the problems, for the selector CodeT: `launch/evaluate.py select --tests FILE`.

    python launch/evaluate.py tests CONFIG.yaml --out tests.jsonl
    ... --policy FOLDER --answers 100 --most 30

Sampled at rollout.temperature with evaluate.seed and at most evaluate.max_new_tokens tokens an answer. The tests may be
wrong; no hidden test is used.
"""

from __future__ import annotations

from pathlib import Path

from erpo_jax import command
from erpo_jax.errors import UserError
from erpo_jax.evaluate.progress import ProgressDisplay
from erpo_jax.evaluate.selection import save_written
from erpo_jax.evaluate.selection.writing import write_tests
from erpo_jax.evaluate.session import Session, opened
from erpo_jax.rollout import Sampling


def main(argv: list[str]) -> int:
    parser = command.parser(__doc__ or "")
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FILE.jsonl", help="where the tests are written")
    add("--policy", help="a Hugging Face folder or hub id in place of model.path")
    add("--answers", type=int, default=10, metavar="N", help="answers asked for a problem; default 10")
    add("--most", type=int, default=30, metavar="N", help="keep the N tests written most often; default 30")
    arguments = parser.parse_args(argv)
    for name in ("answers", "most"):
        if getattr(arguments, name) < 1:
            raise UserError(f"--{name} {getattr(arguments, name)}: must be at least 1")
    command.check_writable("--out", arguments.out)
    config = command.load_config(arguments.words)
    if arguments.policy:
        config.model.path, config.model.revision = arguments.policy, None
    session = Session.of(config)
    command.prepare_jax(config)
    sampling = Sampling(config.rollout.temperature, config.evaluate.max_new_tokens or config.rollout.max_new_tokens)
    with ProgressDisplay() as display, opened(session) as ready:
        written = write_tests(
            ready.engine,
            ready.prompts,
            session.problems,
            arguments.answers,
            sampling,
            config.evaluate.seed,
            arguments.most,
            config.rollout.max_prompt_tokens,
            lambda done, total: display.progress("tests", done, total),
        )
    save_written(arguments.out, written)
    count, bare = sum(map(len, written.values())), [name for name, row in written.items() if not row]
    print(f"{count} tests for {len(written) - len(bare)} problems: {arguments.out}")
    if bare:
        print(f"{len(bare)} problem(s) without a test: {', '.join(bare[:5])}{' ...' if bare[5:] else ''}")
    return 0
