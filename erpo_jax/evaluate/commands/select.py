"""Training-free selectors: how often the one program that each would hand in is right, by the number of samples.

    python launch/evaluate.py select CONFIG.yaml --generations GENERATIONS.jsonl.zst --report select.html
    ... --tests tests.jsonl                      adds CodeT; `launch/evaluate.py tests` lets a policy write such a file
    ... --reward-model FOLDER_OR_HUB_ID          adds best-of-n by a reward model (needs torch)
    ... --probes-from hidden --sizes 1 4 16      other probes; these numbers of samples

All selectors choose among the same programs of the same problems: random and oracle are the bounds; majority, mbr
(MBR-exec) and pcr need probes; codet needs written tests. Problems with fewer programs than the
largest number of samples are left out and named.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from erpo_jax import command
from erpo_jax.evaluate import selection
from erpo_jax.evaluate.commands import programs
from erpo_jax.evaluate.groups import ProgramGroup, merged
from erpo_jax.evaluate.probing import Keys, executed
from erpo_jax.evaluate.progress import ProgressDisplay
from erpo_jax.evaluate.provenance import file_hash
from erpo_jax.evaluate.selection import Ballot, RewardModel
from erpo_jax.evaluate.session import Session
from erpo_jax.execution import limits_for, open_sandbox
from erpo_jax.sandbox import Sandbox


def main(argv: list[str]) -> int:
    arguments = _arguments(argv)
    session = Session.of(command.load_config(arguments.words))
    groups, provenance = programs.read(arguments, session)
    written = selection.load_written(arguments.tests) if arguments.tests else None
    model = RewardModel(arguments.reward_model) if arguments.reward_model else None
    with open_sandbox(session.config.sandbox) as sandbox, ProgressDisplay() as display:
        ballots = _ballots(merged(groups), session, sandbox, written, model, display)
        provenance = session.provenance(sandbox.tier) | provenance
    found = selection.measure_selectors(ballots, arguments.sizes or (), draws=arguments.draws, seed=arguments.seed)
    print("\n".join(selection.lines(found)))
    if arguments.report:
        if arguments.tests:
            provenance |= {"tests": str(arguments.tests), "tests_hash": file_hash(arguments.tests)}
        if model:
            provenance |= {"reward_model": arguments.reward_model, "texts_cut": model.cut}
        print(f"report: {selection.write_selection(arguments.report, found, provenance)}")
    return 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = command.parser(__doc__ or "")
    programs.add_flags(parser, needs_probes=False)
    add = parser.add_argument
    add("--tests", type=Path, metavar="FILE", help="tests that a model wrote, for codet")
    add("--reward-model", metavar="MODEL", help="folder or hub id of a sequence-classification model with one output")
    add("--sizes", type=int, nargs="+", metavar="M", help="numbers of samples; default: 1, 2, 4, ... and all")
    add("--draws", type=int, default=selection.DRAWS, metavar="D", help="subsets drawn a size and problem; default 100")
    add("--report", type=Path, metavar="FILE.html", help="write the report, and FILE.json beside it")
    found = parser.parse_args(argv)
    programs.check_flags(found, needs_probes=False)
    command.check_writable("--report", found.report)
    return found


def _ballots(
    groups: Sequence[ProgramGroup],
    session: Session,
    sandbox: Sandbox,
    written: dict[str, tuple[selection.WrittenTest, ...]] | None,
    model: RewardModel | None,
    display: ProgressDisplay,
) -> list[Ballot]:
    """Run everything that the selectors need. Programs without a verdict leave their problem."""
    problems = {problem.id: problem for problem in session.problems}
    texts = {group.problem: group.programs for group in groups}
    limits = partial(limits_for, config=session.config.sandbox)
    right = session.grader(sandbox).grade(texts, partial(display.progress, "hidden tests"))
    keys = list(executed(groups, problems, sandbox, limits, partial(display.progress, "probes")))
    passes = (
        selection.passes(texts, written, problems, sandbox, limits, partial(display.progress, "written tests"))
        if written is not None
        else None
    )
    ballots = []
    for done, (group, keys_n) in enumerate(zip(groups, keys, strict=True), 1):
        name = group.problem
        kept = [i for i, verdict in enumerate(right[name]) if verdict is not None and keys_n[i] is not None]
        rewards_n = model.scores(problems[name], group.programs) if model else None
        ballots.append(
            Ballot(
                name,
                np.asarray([right[name][i] for i in kept], bool),
                _clusters([keys_n[i] for i in kept]) if group.probes else None,
                np.asarray([passes[name][i] for i in kept], bool) if passes is not None else None,
                rewards_n[kept] if rewards_n is not None else None,
            )
        )
        if model:
            display.progress("reward model", done, len(groups))
    return ballots


def _clusters(keys_nk: Sequence[Keys | None]) -> NDArray[np.intp]:
    """A number for each different key, -1 for none."""
    numbers: dict[object, int] = {}
    rows = [[-1 if key is None else numbers.setdefault(key, len(numbers)) for key in row or ()] for row in keys_nk]
    return np.asarray(rows, np.intp)
