"""From groups of programs to the signal: execute, grade, count. `Signal` holds every number of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from erpo_jax.config import Config
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.groups import ProgramGroup
from erpo_jax.evaluate.measurement import Progress
from erpo_jax.evaluate.probing import executed
from erpo_jax.evaluate.session import Session
from erpo_jax.evaluate.signal.calibration import Calibration, calibration
from erpo_jax.evaluate.signal.course import Stretch, course
from erpo_jax.evaluate.signal.crowds import Crowd, ProbeRow, crowds, probe_rows
from erpo_jax.evaluate.signal.judged import JudgedGroup, judged
from erpo_jax.evaluate.signal.masking import MaskRow, mask_rows, tied_share
from erpo_jax.evaluate.signal.unlabelled import Unlabelled, unlabelled
from erpo_jax.execution import limits_for
from erpo_jax.sandbox import Sandbox


@dataclass(frozen=True)
class Signal:
    """How far the consensus of these groups can be trusted. `ungraded`: programs without a verdict, in no number that
    needs one. `calibration`, `crowds`, `masks` and `course` are empty where nobody looked at hidden tests;
    `course` also where the groups are not those of several steps."""

    problems: int
    groups: int
    programs: int
    probes: int
    ungraded: int
    tied: float
    calibration: Calibration | None
    crowds: tuple[Crowd, ...]
    probe_rows: tuple[ProbeRow, ...]
    masks: tuple[MaskRow, ...]
    course: tuple[Stretch, ...]
    unlabelled: Unlabelled


def judge(
    groups: Sequence[ProgramGroup], session: Session, sandbox: Sandbox, progress: Progress, *, graded: bool = True
) -> list[JudgedGroup]:
    """Run every program on its group's probes and, unless `graded` is False, on its problem's hidden tests.

    Groups without a probe are left out. Raises EvaluationError when none is left, or for a problem that is not the
    session's.
    """
    chosen = [group for group in groups if group.probes and group.programs]
    if not chosen:
        raise EvaluationError("no group of programs has a probe to run on")
    problems = {problem.id: problem for problem in session.problems}
    unknown = [group.problem for group in chosen if group.problem not in problems]
    if unknown:
        raise EvaluationError(f"there are programs for {unknown[0]!r}, which is not among the problems")
    grader = session.grader(sandbox) if graded else None
    if grader is not None:
        # All at once: equal programs of a problem's groups run once.
        programs: dict[str, list[str | None]] = {}
        for group in chosen:
            programs.setdefault(group.problem, []).extend(group.programs)
        grader.grade(programs, lambda done, total: progress("hidden tests", done, total))
    keys = executed(
        chosen,
        problems,
        sandbox,
        lambda problem: limits_for(problem, session.config.sandbox),
        lambda done, total: progress("probes", done, total),
    )
    found = []
    for group, keys_g in zip(chosen, keys, strict=True):
        right_g = grader.grade({group.problem: group.programs})[group.problem] if grader else [None] * len(keys_g)
        found.append(judged(group.problem, keys_g, right_g, group.sources, session.config.reward, group.step))
    return found


def measure_signal(groups: Sequence[JudgedGroup], config: Config) -> Signal:
    """Every number of the report; `config` gives reward, mask and advantage. Raises EvaluationError for no group."""
    if not groups:
        raise EvaluationError("no groups to measure the signal on")
    known = [group for group in groups if group.labelled]
    programs = sum(pcr is not None for group in groups for pcr in group.consensus.pcr_g)
    return Signal(
        problems=len({group.problem for group in groups}),
        groups=len(groups),
        programs=programs,
        probes=sum(len(group.sources_k) for group in groups),
        ungraded=programs - sum(len(group.labelled) for group in groups),
        tied=tied_share(groups),
        calibration=calibration(known, config.reward) if known else None,
        crowds=tuple(crowds(known)),
        probe_rows=tuple(probe_rows(groups)),
        masks=tuple(mask_rows(known, config.mask, config.loss)) if known else (),
        course=tuple(course(known, config.mask, config.loss)),
        unlabelled=unlabelled(groups, config.reward),
    )
