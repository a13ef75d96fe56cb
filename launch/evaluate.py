"""Measure a policy on hidden tests, or compare two measurements.

    python launch/evaluate.py CONFIG.yaml --curve --out before.json            the base at evaluate.temperatures
    python launch/evaluate.py CONFIG.yaml --policy FOLDER --out after.json     a policy at rollout.temperature
    ... --against before.json --report report.html                             and at once compare it with the base
    python launch/evaluate.py --compare before.json after.json --report report.html
    python launch/evaluate.py CONFIG.yaml --greedy --every 4                   greedy pass@1 on every 4th problem
    python launch/evaluate.py CONFIG.yaml --regrade GENERATIONS.jsonl.zst      grade saved programs again, or
                                                                               samples from elsewhere (.jsonl)

Another job may stand first; each has a --help of its own:

    python launch/evaluate.py agreement ...   our grader's verdicts against those that a data set carries
    python launch/evaluate.py signal ...      how far the consensus can be trusted: PCR against hidden tests
    python launch/evaluate.py select ...      training-free selectors by the number of samples
    python launch/evaluate.py tests ...       a policy writes tests, for the selector CodeT
    python launch/evaluate.py transfer ...    adapted policies on many sets

Runs as a process of its own: it alone reads hidden tests.
"""

from __future__ import annotations

import argparse
import difflib
from importlib import import_module
from pathlib import Path

from erpo_jax import command, evaluate
from erpo_jax.config import Config
from erpo_jax.errors import UserError
from erpo_jax.evaluate import Evaluation
from erpo_jax.evaluate.progress import ProgressDisplay
from erpo_jax.evaluate.session import Session, opened, regraded

COMMANDS = ("agreement", "select", "signal", "tests", "transfer")
"""First words with a module of their own in `erpo_jax.evaluate.commands`, whose `main` gets the other words."""


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = command.parser(__doc__ or "")
    add = parser.add_argument
    add("--policy", help="a Hugging Face folder or hub id in place of model.path (an export of a run, say)")
    add("--curve", action="store_true", help="measure at evaluate.temperatures and rollout.temperature")
    add(
        "--temperatures",
        type=float,
        nargs="+",
        metavar="T",
        help="measure at these; default: rollout.temperature alone",
    )
    add("--greedy", action="store_true", help="one greedy answer a problem: pass@1 at temperature 0")
    add("--every", type=int, default=1, metavar="N", help="use problems 0, N, 2N, ... of the file")
    add("--out", type=Path, metavar="FILE.json", help="where the measurement is written")
    add("--generations", type=Path, metavar="FOLDER", help="keep the sampled programs there, one file a temperature")
    add("--regrade", type=Path, metavar="FILE", help="grade the programs of a generations file, sample nothing")
    add(
        "--compare",
        type=Path,
        nargs=2,
        metavar=("BEFORE.json", "AFTER.json"),
        help="print the table of two measurements",
    )
    add("--against", type=Path, metavar="BASE.json", help="compare what is measured with this measurement of the base")
    add(
        "--report",
        type=Path,
        metavar="FILE.html",
        help="write the report (and FILE.json) of what was measured or compared",
    )
    found = parser.parse_args(argv)
    if found.greedy + found.curve + (found.temperatures is not None) + (found.regrade is not None) > 1:
        raise UserError("--greedy, --curve, --temperatures and --regrade exclude one another")
    if found.every < 1:
        raise UserError(f"--every {found.every}: must be at least 1")
    command.check_writable("--out", found.out)
    command.check_writable("--report", found.report)
    command.check_writable("--generations", found.generations / "generations.part" if found.generations else None)
    if found.report:
        _check_report(found.report, [found.out, found.against, *(found.compare or ())])
    return found


def _check_report(report: Path, measurements: list[Path | None]) -> None:
    beside = report.with_suffix(".json").resolve()
    for file in measurements:
        if file is not None and file.resolve() in (beside, report.resolve()):
            raise UserError(f"--report {report} would write over {file}, a measurement; give it another name")


def _temperatures(arguments: argparse.Namespace, config: Config) -> list[float]:
    if arguments.greedy:
        return [0.0]
    if arguments.curve:
        return sorted({*config.evaluate.temperatures, config.rollout.temperature})
    return sorted(set(arguments.temperatures or [config.rollout.temperature]))


def main(argv: list[str]) -> int:
    if argv and argv[0] in COMMANDS:
        return int(import_module(f"erpo_jax.evaluate.commands.{argv[0]}").main(argv[1:]))
    near = difflib.get_close_matches(argv[0], COMMANDS, n=1) if argv and "=" not in argv[0] else []
    if near and not Path(argv[0]).exists():
        raise UserError(f"there is no command {argv[0]!r}; did you mean {near[0]}?")
    arguments = _arguments(argv)
    if arguments.compare:
        before, after = map(evaluate.load_evaluation, arguments.compare)
        print("\n".join(evaluate.lines(before, after)))
        _report(arguments, before, after)
        return 0
    base = evaluate.load_evaluation(arguments.against) if arguments.against else None
    measured = _measure(arguments)
    first, second = (base, measured) if base else (measured, None)
    print("\n".join(evaluate.lines(first, second)))
    if arguments.out:
        evaluate.save_evaluation(arguments.out, measured)
        print(f"measurement: {arguments.out}")
    _report(arguments, first, second)
    return 0


def _measure(arguments: argparse.Namespace) -> Evaluation:
    config = command.load_config(arguments.words)
    if arguments.policy:
        config.model.path, config.model.revision = arguments.policy, None
    session = Session.of(config, every=arguments.every)
    with ProgressDisplay() as display:
        if arguments.regrade:
            return regraded(session, arguments.regrade, display.progress)
        temperatures = _temperatures(arguments, config)
        samples = 1 if arguments.greedy else config.evaluate.samples
        evaluate.check_plan(temperatures, session.problems)
        command.prepare_jax(config)
        with opened(session) as ready:
            return ready.measure(temperatures, samples, display.progress, arguments.generations)


def _report(arguments: argparse.Namespace, first: Evaluation, second: Evaluation | None) -> None:
    if arguments.report:
        print(f"report: {evaluate.write_report(arguments.report, first, second)}")


if __name__ == "__main__":
    command.run(main)
