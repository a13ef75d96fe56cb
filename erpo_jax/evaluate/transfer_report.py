"""The transfer matrix as one HTML page, and the same numbers as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path

from erpo_jax.evaluate.measurement import Evaluation
from erpo_jax.evaluate.page import definitions, figure, page, table, write_whole
from erpo_jax.evaluate.plots import Mark, curve_plot
from erpo_jax.evaluate.table import in_words
from erpo_jax.evaluate.transfer import BASE
from erpo_jax.evaluate.transfer_table import LEGEND, Column, Table, details, grid, mean_details

_READING = (
    "pass@k is unbiased and averaged over problems; brackets are 95 % bootstrap intervals over problems. Differences "
    "are from the base at the same temperature, paired by problem. A base trades pass@1 against pass@k by its "
    "temperature alone, so a policy counts as better only above the base&rsquo;s whole curve: against every point on "
    "it, pass@1 or pass@k must be higher, with the interval of the difference above 0. The more policies a matrix has, "
    "the more likely one of them stands out by chance."
)


def write_transfer_report(
    path: str | Path,
    found: Table,
    base: Mapping[str, Evaluation],
    adapted: Mapping[str, Mapping[str, Evaluation]],
    title: str = "Transfer matrix",
) -> Path:
    """Write `path` (HTML) and the same name with .json beside it; returns the HTML file."""
    file = Path(path)
    provenance = {name: dict(one.provenance) for name, one in base.items()}
    weights = {policy: _policy(next(iter(row.values()))) for policy, row in adapted.items()}
    tree = {"title": title, **asdict(found), "policies": weights, "sets": provenance}
    write_whole(file.with_suffix(".json"), json.dumps(tree, indent=1, ensure_ascii=False) + "\n")

    body = [_table(grid(found)), f"<p>{escape(LEGEND)}</p>"]
    if found.means:
        body += ["<h2>Sets not adapted on, each counting alike</h2>", _table(mean_details(found))]
    for column in found.columns:
        body += [f"<h2>{escape(column.name)} ({column.problems} problems)</h2>"]
        body += [_table(details(found, column)), *_plot(found, column)]
        for cell in column.cells:
            body.append(f"<p><strong>{escape(cell.who)}.</strong> {escape(' '.join(in_words(cell.comparison)))}</p>")
    body.append("<h2>Where the numbers come from</h2>")
    for name, tree in (*provenance.items(), *weights.items()):
        body.append(f"<h3>{escape(name)}</h3>{definitions(tree)}")
    body.append(f"<h2>How to read this</h2><p>{_READING}</p>")
    lead = f"a base and {len(found.policies)} adapted from it on {len(found.columns)} sets of problems, "
    lead += f"{found.samples} program(s) for each"
    write_whole(file, page(title, lead, body))
    return file


def _policy(evaluation: Evaluation) -> dict[str, str]:
    return {"policy": evaluation.policy, "weights_hash": str(evaluation.provenance["weights_hash"])}


def _table(rows: Sequence[Sequence[str]]) -> str:
    return table(rows[0], [("base" if row[0].startswith(f"{BASE}, ") else "adapted", row) for row in rows[1:]])


def _plot(found: Table, column: Column) -> list[str]:
    if len(found.ks) < 2:
        return []
    low, high = found.ks
    curve = [Mark(f"T={temperature:g}", one[low], one[high]) for temperature, one in column.base.items()]
    marks = [Mark(cell.policy, cell.values[low], cell.values[high]) for cell in column.cells if cell.group == "all"]
    return [figure(curve_plot(curve, marks, high), "Bars are 95 % intervals; up and right is better.")]
