"""Benchmarks. `python launch/bench.py rollout --help` lists the options of one.

rollout: the embedded engine against transformers.generate (needs the `bench` extra), and vLLM where it is installed.
refresh: new weights to the engine, phase by phase, against a plain copy of the same bytes.
engines: whether the embedded engine and vLLM sample alike: PCR and pass@1 of both on the same problems.
update: the compiled step against its plain reference, a GRPO step as verl does it, and Tunix's (docs/update.md).
sandbox: an execution against a plain interpreter, and a training step of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from erpo_jax.errors import UserError

_SAMPLING = """The embedded engine, transformers.generate and, with --vllm-python, vLLM on the same prompts, in turns.
Needs the `bench` extra. A line each: CPU and wall seconds, and tokens a second."""
_REFRESH = """New weights on their way to the engine: cast, write, verify, load, each with its seconds, beside a plain
copy of the same bytes."""
_ENGINES = """PCR and pass@1 of the embedded engine and of vLLM on the same problems, probes and seeds, and whether they
differ by more than sampling does."""
_UPDATE = """One update of every contestant in turns, from the same weights on the same candidates. Needs the `bench`
extra and, without --no-tunix, google-tunix (docs/update.md has the command). A block each: CPU and wall seconds (least
and median of --repeats), GFLOP counted from the compiled program, temporaries in memory, and ours over it."""
_SANDBOX = """A step of programs in the sandbox, the same with an endless program per group, and a sample of its
executions in plain interpreters (--plain of them; `step s` is what all of them would take). `CPU x` and `wall x` are
ratios to the plain interpreter."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    defaults = argparse.ArgumentDefaultsHelpFormatter
    rollout(commands.add_parser("rollout", help="sampling speed", description=_SAMPLING, formatter_class=defaults))
    refresh(
        commands.add_parser("refresh", help="new weights to the engine", description=_REFRESH, formatter_class=defaults)
    )
    engines(
        commands.add_parser(
            "engines", help="whether two engines sample alike", description=_ENGINES, formatter_class=defaults
        )
    )
    update(commands.add_parser("update", help="the compiled step", description=_UPDATE, formatter_class=defaults))
    sandbox(commands.add_parser("sandbox", help="running programs", description=_SANDBOX, formatter_class=defaults))
    options = parser.parse_args(arguments)
    try:
        for line in options.run(options):
            print(line, flush=True)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def rollout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="quickstart", help="checkpoint folder, hub id, or 'quickstart'")
    parser.add_argument("--batch", type=int, default=32, help="prompts sampled side by side")
    parser.add_argument("--new-tokens", type=int, default=128, help="tokens sampled per prompt")
    parser.add_argument("--prompts", type=Path, help="JSONL with 'prompt' or 'statement'; without it random tokens")
    parser.add_argument("--prompt-tokens", type=int, default=64, help="length of the random prompts")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="compute dtype of both")
    parser.add_argument("--repeats", type=int, default=3, help="measured runs of each, alternating")
    parser.add_argument("--threads", type=int, default=2, help="processors that both may use")
    parser.add_argument("--vllm-python", default="", help="Python that has vLLM, for a third contestant")

    def run(options: argparse.Namespace) -> list[str]:
        from erpo_jax.benchmarks.rollout import compare
        from erpo_jax.benchmarks.timing import machine

        result = compare(
            options.model,
            batch=options.batch,
            new_tokens=options.new_tokens,
            prompts=options.prompts,
            prompt_tokens=options.prompt_tokens,
            dtype=options.dtype,
            repeats=options.repeats,
            threads=options.threads,
            vllm_python=options.vllm_python,
        )
        return [machine(), *result.lines()]

    parser.set_defaults(run=run)


def refresh(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="quickstart", help="checkpoint folder, hub id, or 'quickstart'")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="file system of exports and copies")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16", help="dtype of the export")
    parser.add_argument("--repeats", type=int, default=3, help="measured refreshes")
    parser.add_argument("--vllm-python", default="", help="Python that has vLLM; without it the export alone")

    def run(options: argparse.Namespace) -> list[str]:
        from erpo_jax.benchmarks.refresh import measure
        from erpo_jax.benchmarks.timing import machine

        result = measure(
            options.model,
            folder=options.folder,
            dtype=options.dtype,
            repeats=options.repeats,
            vllm_python=options.vllm_python,
        )
        return [machine(), *result.lines()]

    parser.set_defaults(run=run)


def engines(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="CONFIG.yaml | key=value", help="as in training")
    parser.add_argument("--seeds", type=int, default=5, help="times that each problem is asked, with other seeds")
    parser.add_argument("--vllm-python", default=".venv-vllm/bin/python", help="Python that has vLLM")

    def run(options: argparse.Namespace) -> Iterator[str]:
        from erpo_jax.benchmarks.engines import compare

        yield from compare(options.words, options.seeds, options.vllm_python)

    parser.set_defaults(run=run)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} must be at least 1")
    return number


def update(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=_positive, default=2, help="of the policy")
    parser.add_argument("--width", type=_positive, default=256, help="of the policy")
    parser.add_argument("--vocabulary", type=_positive, default=8192, help="of the policy")
    parser.add_argument(
        "--candidates", type=_positive, default=16, help="at most, with --rollouts: whole groups are taken"
    )
    parser.add_argument("--groups", type=_positive, default=2, help="prompts, without --rollouts")
    parser.add_argument("--tokens", type=_positive, default=256, help="tokens of every candidate, without --rollouts")
    parser.add_argument("--prompt-tokens", type=_positive, default=64, help="of them in its prompt, without --rollouts")
    parser.add_argument(
        "--rollouts", type=Path, help="take lengths and rewards from rollouts/step-*.jsonl.zst of a run"
    )
    parser.add_argument("--micro-batch-rows", type=_positive, default=1, help="update.micro_batch_rows of our step")
    parser.add_argument("--chunk-tokens", type=_positive, default=128, help="update.chunk_tokens of our step")
    parser.add_argument("--no-tunix", action="store_true", help="leave Tunix out")
    parser.add_argument("--repeats", type=_positive, default=5, help="measured steps of each, in turn")

    def run(options: argparse.Namespace) -> list[str]:
        from erpo_jax.benchmarks.timing import machine
        from erpo_jax.benchmarks.update.compare import Sizes, compare

        sizes = Sizes(
            layers=options.layers,
            width=options.width,
            vocabulary=options.vocabulary,
            candidates=options.candidates,
            groups=options.groups,
            tokens=options.tokens,
            prompt_tokens=options.prompt_tokens,
            micro_batch_rows=options.micro_batch_rows,
            chunk_tokens=options.chunk_tokens,
        )
        result = compare(
            sizes,
            rollouts=options.rollouts,
            with_tunix=not options.no_tunix,
            repeats=options.repeats,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )
        return [machine(), *result.lines()]

    parser.set_defaults(run=run)


def sandbox(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    parser.add_argument("--groups", type=int, default=16, help="problems of the step")
    parser.add_argument("--candidates", type=int, default=16, help="programs per problem")
    parser.add_argument("--probes", type=int, default=10, help="inputs per program")
    parser.add_argument("--cpu-limit", type=float, default=0.5, help="CPU seconds an endless program may burn")
    parser.add_argument("--rounds", type=int, default=3, help="turns in which what is compared alternates")
    parser.add_argument("--plain", type=int, default=64, help="executions in plain interpreters")
    parser.add_argument(
        "--real", type=Path, metavar="FOLDER", help="as many executions of the right programs in this data set, instead"
    )
    parser.add_argument(
        "--in-a-row", type=int, default=0, help="so many executions in one sandbox instead: what grows?"
    )

    def run(options: argparse.Namespace) -> Iterator[str]:
        from erpo_jax.benchmarks.sandbox import compare, in_a_row, made_step, real_step
        from erpo_jax.evaluate.estimates import EvaluationError
        from erpo_jax.sandbox import SandboxError

        programs, probes = options.groups * options.candidates, options.probes
        try:
            if options.in_a_row:
                yield from in_a_row(options.in_a_row, options.workers)
                return
            if options.real:
                step = real_step(options.real, programs * probes, probes)
                steps = [(f"right programs of {options.real.name}", step, False)]
            else:
                small, larger = made_step(programs, probes), made_step(programs, probes, numpy=True)
                steps = [("small programs", small, False), ("programs that import numpy", larger, True)]
            for title, step, numpy in steps:
                result = compare(
                    step,
                    workers=options.workers,
                    candidates=options.candidates,
                    rounds=options.rounds,
                    plain=options.plain,
                    numpy=numpy,
                    cpu_limit_s=options.cpu_limit,
                )
                yield from result.lines(title)
        except (SandboxError, EvaluationError) as error:
            raise UserError(str(error)) from error

    parser.set_defaults(run=run)


if __name__ == "__main__":
    sys.exit(main())
