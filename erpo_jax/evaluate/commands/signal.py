"""How far the consensus can be trusted: the probe consensus reward (PCR) of programs against hidden tests.

    python launch/evaluate.py signal --rollouts runs/quickstart/rollouts --report signal.html
    python launch/evaluate.py signal CONFIG.yaml --generations GENERATIONS.jsonl.zst --probes-from hidden --probes 10
    python launch/evaluate.py signal CONFIG.yaml --solutions solutions.jsonl --probes-from hidden --group-size 16

Prints AUC, the reliability curve, spurious consensus, what single probes tell, what each mask would learn from, and
what can be said without labels. evaluate.problems and evaluate.hidden name the problems; reward.*, mask.* and
loss.advantage are those of the run in question. The report (--report) has the plots, and a JSON file with every number
beside it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from erpo_jax import command
from erpo_jax.evaluate import signal
from erpo_jax.evaluate.commands import programs
from erpo_jax.evaluate.progress import ProgressDisplay
from erpo_jax.evaluate.session import Session
from erpo_jax.execution import open_sandbox


def main(argv: list[str]) -> int:
    arguments = _arguments(argv)
    session = Session.of(command.load_config(arguments.words))
    groups, provenance = programs.read(arguments, session)
    with open_sandbox(session.config.sandbox) as sandbox, ProgressDisplay() as display:
        judged = signal.judge(groups, session, sandbox, display.progress, graded=not arguments.unlabelled)
        provenance = session.provenance(sandbox.tier) | provenance
    found = signal.measure_signal(judged, session.config)
    print("\n".join(signal.lines(found)))
    if arguments.report:
        print(f"report: {signal.write_signal(arguments.report, found, provenance)}")
    return 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = command.parser(__doc__ or "")
    programs.add_flags(parser, needs_probes=True)
    add = parser.add_argument
    add(
        "--group-size",
        type=int,
        metavar="G",
        help="deal each problem's programs into groups of at most G; default: one group",
    )
    add("--unlabelled", action="store_true", help="do not run hidden tests: only what needs no labels")
    add("--report", type=Path, metavar="FILE.html", help="write the report, and FILE.json beside it")
    found = parser.parse_args(argv)
    programs.check_flags(found, needs_probes=True)
    command.check_writable("--report", found.report)
    return found
