"""The result as one HTML page that needs nothing beside it, and as JSON with the same numbers.

The page holds the verdict, the table, the plots (SVG, drawn here), how the answers looked, and where every number comes
from: policies, files with hashes, releases, date window, grader. Left out: anything a reader would have to run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.measurement import Evaluation, Point
from erpo_jax.evaluate.plots import Mark, curve_plot, problems_plot
from erpo_jax.evaluate.table import TITLES, Section, sections

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5d6778; --rule: #dde2ea; --page: #ffffff; --panel: #f6f8fb;
  --base: #4a6fa5; --adapted: #c2410c; --good: #15803d; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa4b5; --rule: #303846; --page: #12161d;
  --panel: #1a202a; --base: #8fb1e3; --adapted: #fb923c; --good: #4ade80; --bad: #f87171; } }
body { margin: 0 auto; max-width: 60rem; padding: 2.5rem 1.5rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; } p.lead { color: var(--soft); margin: 0 0 1.5rem; }
.verdict { background: var(--panel); border-left: 4px solid var(--base); padding: .9rem 1.2rem;
  border-radius: 0 8px 8px 0; }
.verdict.above { border-color: var(--good); } .verdict.below { border-color: var(--bad); }
.verdict p { margin: .2rem 0; } .verdict p:first-child { font-weight: 600; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .38rem .9rem .38rem 0; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; font-size: .85rem; } td.who { font-weight: 500; }
tr.adapted td { color: var(--adapted); } tr.difference td { color: var(--soft); }
tr.difference td.who { padding-left: 1.2rem; font-weight: 400; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; font-size: .9rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .85rem; }
svg { width: 100%; height: auto; max-width: 44rem; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg .label { font-size: 13px; } svg .grid { stroke: var(--rule); }
svg .base { stroke: var(--base); } svg .adapted { stroke: var(--adapted); } svg .line { fill: none; stroke-width: 2; }
svg .bar { opacity: .38; stroke-width: 1.5; }
svg .base.dot { fill: var(--base); } svg .adapted.dot { fill: var(--adapted); }
svg text.name { stroke: none; font-weight: 600; }
svg text.base { fill: var(--base); } svg text.adapted { fill: var(--adapted); }
svg .diagonal { stroke: var(--soft); stroke-dasharray: 4 4; } svg .bubble { opacity: .6; }
svg .gain { fill: var(--good); } svg .loss { fill: var(--bad); } svg .same { fill: var(--soft); }
"""


def write_report(
    path: str | Path, base: Evaluation, adapted: Evaluation | None = None, title: str = "Evaluation"
) -> Path:
    """Write `path` (HTML) and the same name with .json beside it; returns the HTML file.

    Raises EvaluationError when the two evaluations cannot be compared (see `erpo_jax.evaluate.curve`).
    """
    file = Path(path)
    found = sections(base, adapted)
    file.parent.mkdir(parents=True, exist_ok=True)
    tree = {
        "title": title,
        "sections": [asdict(section) for section in found],
        "base": base.provenance,
        "adapted": adapted.provenance if adapted else None,
    }
    _replace(file.with_suffix(".json"), json.dumps(tree, indent=1, ensure_ascii=False) + "\n")
    _replace(file, _page(title, found, base, adapted))
    return file


def _replace(file: Path, content: str) -> None:
    part = file.with_name(file.name + ".part")
    part.write_text(content, encoding="utf-8")
    part.replace(file)


def _page(title: str, found: list[Section], base: Evaluation, adapted: Evaluation | None) -> str:
    body = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(_lead(base, adapted))}</p>']
    for section in found:
        body += _section(section, base, adapted, headed=len(found) > 1)
    body += ["<h2>Answers</h2>", _answers(base, adapted)]
    body += ["<h2>Where the numbers come from</h2>", _provenance(base, adapted)]
    body.append(f"<h2>How to read this</h2><p>{_READING}</p>")
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    content = "\n".join(body)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{content}\n</body></html>\n'


_READING = (
    "pass@k is the unbiased estimate 1 &minus; C(n&minus;c, k)/C(n, k), averaged over problems; brackets are 95 % "
    "bootstrap intervals over problems. Differences are paired by problem. A base policy trades pass@1 against pass@k "
    "by its sampling temperature alone, so an adapted policy counts as better only above the base&rsquo;s whole curve: "
    "against every point on it, pass@1 or pass@k must be higher, with the interval of the difference above 0."
)


def _lead(base: Evaluation, adapted: Evaluation | None) -> str:
    problems = base.provenance.get("problems", len(base.points[0].counts))
    who = f"{base.policy} against {adapted.policy}" if adapted else base.policy
    return f"{who}, {problems} problems, {base.samples} program(s) for each and temperature"


def _section(section: Section, base: Evaluation, adapted: Evaluation | None, headed: bool) -> list[str]:
    parts = [f"<h2>{TITLES[section.group].capitalize()} ({section.problems})</h2>"] if headed else []
    if section.sentences:
        standing = section.comparisons[0].standing
        parts.append(
            f'<div class="verdict {standing}">'
            + "".join(f"<p>{escape(line)}</p>" for line in section.sentences)
            + "</div>"
        )
    head = "<th></th>" + "".join(f"<th>pass@{k}</th>" for k in section.ks)
    rows = [
        f'<tr class="{"difference" if row.difference else "adapted" if row.who.startswith("adapted") else "base"}">'
        f'<td class="who">{escape(row.who.strip())}</td>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row.cells)
        + "</tr>"
        for row in section.rows
    ]
    parts.append(f'<h2>pass@k</h2><div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>')
    if len(section.ks) > 1:
        k = section.ks[-1]
        plot = curve_plot(_marks(base, section.group, k, "T="), _marks(adapted, section.group, k, "adapted, T="), k)
        parts.append(
            f"<h2>Temperature curve</h2><figure>{plot}<figcaption>Bars are 95 % intervals; up and right is better."
            "</figcaption></figure>"
        )
    if adapted is not None:
        point = adapted.points[0]
        same = base.at(point.temperature)
        if same is not None:
            plot = problems_plot(base.group(same, section.group), adapted.group(point, section.group))
            parts.append(
                f"<h2>Problem by problem, temperature {point.temperature:g}</h2><figure>{plot}<figcaption>Above the "
                "diagonal: more right programs after than before.</figcaption></figure>"
            )
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


def _answers(base: Evaluation, adapted: Evaluation | None) -> str:
    head = "".join(
        f"<th>{name}</th>"
        for name in (
            "",
            "cut at the limit",
            "without a program",
            "mean tokens",
            "distinct programs",
            "ungraded",
            "sampling s",
            "grading s",
        )
    )
    rows = [_answer_row("base", point) for point in base.points]
    rows += [_answer_row("adapted", point) for point in (adapted.points if adapted else ())]
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _answer_row(who: str, point: Point) -> str:
    cells = (
        f"{point.truncated:.1%}",
        f"{point.without_program:.1%}",
        f"{point.tokens:.0f}",
        str(point.distinct),
        str(point.ungraded),
        f"{point.seconds_sampling:.1f}",
        f"{point.seconds_grading:.1f}",
    )
    return (
        f'<tr class="{who}"><td class="who">{who}, T={point.temperature:g}</td>'
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>"
    )


def _provenance(base: Evaluation, adapted: Evaluation | None) -> str:
    shared = {
        name: value
        for name, value in base.provenance.items()
        if adapted is None or adapted.provenance.get(name) == value
    }
    parts = [_definitions(_flat(shared))]
    for who, evaluation in (("Base", base), ("Adapted", adapted)):
        own = (
            {}
            if evaluation is None
            else {name: value for name, value in evaluation.provenance.items() if name not in shared}
        )
        if own:
            parts.append(f"<h3>{who}</h3>{_definitions(_flat(own))}")
    return "".join(parts)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name} ")
        elif value not in (None, {}, [], ""):
            shown = (
                " to ".join(map(str, value))
                if name == "dates"
                else ", ".join(map(str, value))
                if isinstance(value, list)
                else value
            )
            yield f"{prefix}{name}".replace("_", " "), str(shown)


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs) + "</dl>"
