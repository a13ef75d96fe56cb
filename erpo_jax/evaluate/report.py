"""The result as one HTML page that needs nothing beside it, and as JSON with the same numbers.

The page holds the verdict, the table, the plots, how the answers looked, and where every number comes from: policies,
files with hashes, releases, date window, grader. Left out: anything a reader would have to run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.measurement import Evaluation, Point
from erpo_jax.evaluate.page import definitions, figure, page, table, write_whole
from erpo_jax.evaluate.plots import Mark, curve_plot, problems_plot
from erpo_jax.evaluate.table import TITLES, Section, sections
from erpo_jax.evaluate.training import training_section


def write_report(
    path: str | Path, base: Evaluation, adapted: Evaluation | None = None, title: str = "Evaluation"
) -> Path:
    """Write `path` (HTML) and the same name with .json beside it; returns the HTML file. In a run folder the page also
    shows the course of the training.

    Raises EvaluationError when the two evaluations cannot be compared (see `erpo_jax.evaluate.curve`).
    """
    file, found = Path(path), sections(base, adapted)
    tree = {
        "title": title,
        "sections": [asdict(section) for section in found],
        "base": base.provenance,
        "adapted": adapted.provenance if adapted else None,
    }
    write_whole(file.with_suffix(".json"), json.dumps(tree, indent=1, ensure_ascii=False) + "\n")
    body = _body(found, base, adapted, training_section(file.parent))
    write_whole(file, page(title, _lead(base, adapted), body))
    return file


def _body(found: Sequence[Section], base: Evaluation, adapted: Evaluation | None, training: Sequence[str]) -> list[str]:
    body = []
    for section in found:
        body += _section(section, base, adapted, headed=len(found) > 1)
    body += [*training, "<h2>Answers</h2>", _answers(base, adapted)]
    body += ["<h2>Where the numbers come from</h2>", *_provenance(base, adapted)]
    return [*body, f"<h2>How to read this</h2><p>{_READING}</p>"]


_READING = (
    "pass@k is the unbiased estimate 1 &minus; C(n&minus;c, k)/C(n, k), averaged over problems; brackets are 95 % "
    "bootstrap intervals over problems. Differences are paired by problem. A base policy trades pass@1 against pass@k "
    "by its sampling temperature alone, so an adapted policy counts as better only above the base&rsquo;s whole curve: "
    "against every point on it, pass@1 or pass@k must be higher, with the interval of the difference above 0."
)


def _lead(base: Evaluation, adapted: Evaluation | None) -> str:
    who = f"{base.policy} against {adapted.policy}" if adapted else base.policy
    return f"{who}, {base.problems} problems, {base.samples} program(s) for each and temperature"


def _section(section: Section, base: Evaluation, adapted: Evaluation | None, headed: bool) -> list[str]:
    parts = [f"<h2>{TITLES[section.group].capitalize()} ({section.problems})</h2>"] if headed else []
    if section.sentences:
        standing = section.comparisons[0].standing if section.comparisons else "on"
        parts.append(
            f'<div class="verdict {standing}">'
            + "".join(f"<p>{escape(line)}</p>" for line in section.sentences)
            + "</div>"
        )
    rows = [("difference" if row.difference else row.who.split(",")[0], (row.who, *row.cells)) for row in section.rows]
    parts += ["<h2>pass@k</h2>", table(["", *(f"pass@{k}" for k in section.ks)], rows)]
    if len(section.ks) > 1 and section.problems:
        k = section.ks[-1]
        plot = curve_plot(_marks(base, section.group, k, "T="), _marks(adapted, section.group, k, "adapted, T="), k)
        parts += [
            "<h2>Temperature curve</h2>",
            figure(plot, "Bars are 95 % intervals; up and right is better."),
        ]
    if adapted is not None:
        point = adapted.points[0]
        same = base.at(point.temperature)
        if same is not None:
            plot = problems_plot(base.group(same, section.group), adapted.group(point, section.group))
            parts += [
                f"<h2>Problem by problem, temperature {point.temperature:g}</h2>",
                figure(plot, "Above the diagonal: more right programs after than before."),
            ]
    return parts


def _marks(evaluation: Evaluation | None, group: str, k: int, prefix: str) -> list[Mark]:
    if evaluation is None:
        return []
    found = []
    for point in sorted(evaluation.points, key=lambda one: one.temperature):
        estimates = evaluation.estimates(point, group)
        if k in estimates:
            found.append(Mark(f"{prefix}{point.temperature:g}", estimates[1], estimates[k]))
    return found


_ANSWERS = (
    "",
    "cut at the limit",
    "without a program",
    "mean tokens",
    "distinct programs",
    "ungraded",
    "sampling s",
    "grading s",
)


def _answers(base: Evaluation, adapted: Evaluation | None) -> str:
    rows = [_answer_row("base", point) for point in base.points]
    rows += [_answer_row("adapted", point) for point in (adapted.points if adapted else ())]
    return table(_ANSWERS, rows)


def _answer_row(who: str, point: Point) -> tuple[str, tuple[str, ...]]:
    return who, (
        f"{who}, T={point.temperature:g}",
        f"{point.truncated:.1%}",
        f"{point.without_program:.1%}",
        f"{point.tokens:.0f}",
        str(point.distinct),
        str(point.ungraded),
        f"{point.seconds_sampling:.1f}",
        f"{point.seconds_grading:.1f}",
    )


def _provenance(base: Evaluation, adapted: Evaluation | None) -> list[str]:
    shared: Mapping[str, Any] = {
        name: value
        for name, value in base.provenance.items()
        if adapted is None or adapted.provenance.get(name) == value
    }
    parts = [definitions(shared)]
    for who, evaluation in (("Base", base), ("Adapted", adapted)):
        own = (
            {}
            if evaluation is None
            else {name: value for name, value in evaluation.provenance.items() if name not in shared}
        )
        if own:
            parts += [f"<h3>{who}</h3>", definitions(own)]
    return parts
