"""Adapt a policy to problems without tests.

    python launch/train.py                                     the quickstart (configs/quickstart.yaml)
    python launch/train.py configs/qwen3_4b_livecodebench.yaml train.steps=50 mask.percent=40
    python launch/train.py CONFIG.yaml --check                 validate and stop

The same command goes on with the same run: after Ctrl-C, after a crash, or to show the result of a finished one. Where
`evaluate.before_and_after` is set, hidden tests are run before the first and after the last step, by another process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

from erpo_jax import command
from erpo_jax.config import Config
from erpo_jax.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
EVALUATE = [sys.executable, str(ROOT / "launch" / "evaluate.py")]


def main(argv: list[str]) -> int:
    parser = command.parser(__doc__ or "", list_keys=True)
    parser.add_argument(
        "--check", action="store_true", help="check configuration, data and sizes, then stop; loads no weights"
    )
    arguments = parser.parse_args(argv)
    config = command.load_config(arguments.words)
    command.place_jax(config)

    from erpo_jax import preflight

    if arguments.check:
        print("\n".join(preflight.check(config)))
        return 0
    preflight.check(config, needs_data=True)
    return _run(config)


def _run(config: Config) -> int:
    from erpo_jax.run_folder import RunFolder

    run = RunFolder.open(config)
    run.lock()
    print(f"run folder: {run.path}", flush=True)
    before, after = (run.measurement(name, config) for name in ("before", f"after-{config.train.steps}"))
    if config.evaluate.before_and_after and not before.exists():
        print("measuring the untrained policy over its temperatures", flush=True)
        code = _measure_untrained(run.path / "config.yaml", before)
        if code:
            return code

    if before.exists():
        _refuse_damaged(before)
    if not after.exists():
        code = _train(config, run)
        if code:
            return code
    print(f"run folder: {run.path}", flush=True)
    if not config.evaluate.before_and_after:
        return 0
    # Another program in this one's place: that gives back every device, and keeps hidden tests out of this process.
    export = str(run.exports / str(config.train.steps))
    measure = [str(run.path / "config.yaml"), "--policy", export, "--out", str(after)]
    compare = ["--compare", str(before), str(after)]
    words = compare if after.exists() else [*measure, "--against", str(before)]
    sys.stdout.flush()
    os.execv(EVALUATE[0], [*EVALUATE, *words, "--report", str(run.report)])


def _refuse_damaged(measurement: Path) -> None:
    """A torn measurement is better found before training than after."""
    try:
        json.loads(measurement.read_text())
    except ValueError as error:
        raise UserError(f"{measurement} is damaged ({error}); delete it to measure again") from error


def _measure_untrained(settings: Path, out: Path) -> int:
    measure = subprocess.Popen([*EVALUATE, str(settings), "--curve", "--out", str(out)])
    before = signal.signal(signal.SIGTERM, lambda *_: measure.terminate())
    try:
        while True:
            try:
                code = measure.wait()
                break
            except KeyboardInterrupt:
                continue  # the terminal has told it too; wait for its end
    finally:
        signal.signal(signal.SIGTERM, before)
    if code in (130, -signal.SIGINT, -signal.SIGTERM):
        print("the measurement was stopped; the same command begins it again", file=sys.stderr)
        return 128 + signal.SIGTERM if code == -signal.SIGTERM else 130
    return code


def _train(config: Config, run: object) -> int:
    command.prepare_jax(config)

    from erpo_jax.display import Display
    from erpo_jax.interrupt import Interrupt, Stopped
    from erpo_jax.trainer import train

    try:
        with Interrupt() as interrupt, Display(config.train.steps) as display:
            warnings.showwarning = lambda message, *_: display.say(f"warning: {message}")
            train(config, run, display, interrupt)  # type: ignore[arg-type]
    except Stopped as stopped:
        print(f"{stopped}; every finished step is saved; the same command goes on", file=sys.stderr)
        return 128 + stopped.signum
    except OSError as error:
        raise UserError(f"the run stopped ({error}); the same command goes on from its newest checkpoint") from error
    return 0


if __name__ == "__main__":
    command.run(main)
