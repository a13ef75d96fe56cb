"""The signal as lines of text, as JSON and as an HTML page. All three say the same numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.estimates import Estimate, shown
from erpo_jax.evaluate.page import definitions, figure, page, table, write_whole
from erpo_jax.evaluate.signal.calibration import STEPS, Calibration, Share
from erpo_jax.evaluate.signal.crowds import probe_summaries, standings
from erpo_jax.evaluate.signal.measuring import Signal
from erpo_jax.evaluate.signal.plots import gains_plot, probes_plot, reliability_plot

FORMAT = "erpo_jax.signal/1"
LISTED = 12
"""Rows of the longest tables on the page; the JSON has all."""


@dataclass(frozen=True)
class Block:
    """A table with its heading, and what to say below it."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def blocks(signal: Signal) -> list[Block]:
    """Every table of the report, in order."""
    found = []
    if signal.calibration is not None:
        found += [_calibration(signal.calibration), _reliability(signal.calibration), _crowds(signal), _masks(signal)]
    if signal.course:
        found.append(_course(signal))
    return [*found, _probes(signal), _unlabelled(signal)]


def lines(signal: Signal) -> list[str]:
    """The whole report as plain text."""
    out = [_lead(signal)]
    for block in blocks(signal):
        rows = [block.heads, *block.rows]
        widths = [max(len(row[place]) for row in rows) + 2 for place in range(len(block.heads))]
        out += ["", block.title]
        out += ["".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        out += [block.note] if block.note else []
    return out


def write_signal(path: str | Path, signal: Signal, provenance: Mapping[str, Any]) -> Path:
    """Write `path` (HTML) and the same name with .json beside it; returns the HTML file."""
    file = Path(path)
    tree = {"format": FORMAT, "signal": asdict(signal), "provenance": provenance}
    write_whole(file.with_suffix(".json"), json.dumps(tree, indent=1, ensure_ascii=False) + "\n")
    write_whole(file, page("How far the consensus can be trusted", _lead(signal), _body(signal, provenance)))
    return file


def _lead(signal: Signal) -> str:
    return (
        f"{signal.problems} problems, {signal.groups} groups, {signal.programs} programs, {signal.probes} probes; "
        f"{signal.tied:.0%} of the groups have equal rewards; {signal.ungraded} programs without a verdict"
    )


def _calibration(found: Calibration) -> Block:
    rows = [
        ("AUC, all programs", _cell(found.auc), ""),
        ("AUC within groups", _cell(found.auc_within), ""),
        ("right programs (pass@1)", *_share(found.right)),
        ("wrong at PCR = 1", *_share(found.wrong_at_one)),
        ("right at PCR <= 0.5", *_share(found.right_at_half)),
    ]
    return Block("PCR against hidden tests", ("", "value", "programs"), tuple(rows), "95 % intervals over problems.")


def _reliability(found: Calibration) -> Block:
    rows = [
        (f"{step / STEPS:g}", *_share(share))
        for step, share in enumerate(found.reliability)
        if share.programs or step in (0, STEPS)
    ]
    steps = ", ".join(f"{wrong:.2f}" for wrong in found.wrong_by_step)
    return Block(
        "Right programs by PCR", ("PCR", "right", "programs"), tuple(rows), f"As a mask: mask.calibration=[{steps}]"
    )


def _crowds(signal: Signal) -> Block:
    found = standings(signal.crowds)
    meaning = {
        "right": "at least half of the crowd is right",
        "outvoted": "most of the crowd is wrong, and others are right",
        "hopeless": "most of the crowd is wrong, and nobody is right",
        "silent": "no program gives any output",
    }
    rows = [(name, _cell(share), meaning[name]) for name, share in found.items()]
    return Block(
        "The crowd of each group (its programs with the highest PCR)", ("", "share of groups", ""), tuple(rows)
    )


def _masks(signal: Signal) -> Block:
    rows = [
        (
            row.mask,
            _cell(row.kept),
            _cell(row.kept_wrong),
            _cell(row.dropped_right),
            _cell(row.down_on_right),
            _cell(row.up_on_wrong),
        )
        for row in signal.masks
    ]
    heads = ("mask", "kept", "wrong of kept", "right of dropped", "right of pushed down", "wrong of pushed up")
    return Block("What each mask would learn from", heads, tuple(rows), "Groups with equal rewards teach nothing.")


def _course(signal: Signal) -> Block:
    rows = [
        (
            f"{part.first}-{part.last}" if part.first < part.last else f"{part.first}",
            _cell(part.right.share),
            _cell(part.auc),
            _cell(part.right_at_half.share),
            _cell(part.kept_wrong),
            _cell(part.up_on_wrong),
        )
        for part in signal.course
    ]
    heads = ("steps", "right programs", "AUC", "right at PCR <= 0.5", "wrong of kept", "wrong of pushed up")
    note = f"Mask: {signal.masks[0].mask}. The tables above take all steps together, each another policy."
    return Block("Over the steps of the run", heads, tuple(rows), note)


def _probes(signal: Signal) -> Block:
    rows = [
        (
            row.source,
            str(row.probes),
            f"{row.discrimination:.3f}",
            f"{row.blind:.1%}",
            _number(row.separates),
            _number(row.gain, "+.3f"),
            _number(row.misleading, ".1%"),
        )
        for row in probe_summaries(signal.probe_rows)
    ]
    heads = ("probes from", "number", "pairs told apart", "blind", "right/wrong told apart", "gain", "misleading")
    return Block("Which probes discriminate", heads, tuple(rows))


def _unlabelled(signal: Signal) -> Block:
    found = signal.unlabelled
    rows = [
        ("pass@1 at most, by the largest crowd", _cell(found.crowd)),
        ("pass@1 at most, by pairs", _cell(found.pairs)),
        ("PCR's agreement with itself", _number(found.halves)),
        ("programs that behave like no other", f"{found.alone:.1%}"),
        ("programs without any output", f"{found.silent:.1%}"),
    ]
    note = "The bounds assume that right programs behave alike: one valid output a probe."
    return Block("Without labels", ("", "value"), tuple(rows), note)


def _share(found: Share) -> tuple[str, str]:
    return _cell(found.share), str(found.programs)


def _cell(estimate: Estimate | None) -> str:
    return shown(estimate) if estimate is not None else "-"


def _number(value: float | None, form: str = ".3f") -> str:
    return f"{value:{form}}" if value is not None else "-"


def _body(signal: Signal, provenance: Mapping[str, Any]) -> Iterable[str]:
    found = signal.calibration
    for block in blocks(signal):
        yield f"<h2>{escape(block.title)}</h2>" + table(block.heads, [("", row) for row in block.rows])
        if block.note:
            yield f"<p>{escape(block.note)}</p>"
        if found is not None and block.title.startswith("Right programs by PCR"):
            yield figure(
                reliability_plot(found.reliability),
                "Points: share of right programs, with 95 % intervals. Bars: how many programs are there.",
            )
        if found is not None and block.title.startswith("PCR against") and any(found.auc_by_probes):
            yield figure(probes_plot(found.auc_by_probes), "AUC when only the first probes of each problem count.")
        if block.title.startswith("The crowd"):
            yield from _spurious(signal)
        if block.title.startswith("Which probes"):
            yield from _single_probes(signal)
    yield "<h2>Where the numbers come from</h2>" + definitions(provenance)
    yield f"<h2>How to read this</h2><p>{_READING}</p>"


def _spurious(signal: Signal) -> Iterable[str]:
    rows = [row for row in signal.crowds if row.standing in ("outvoted", "hopeless")]
    if rows:
        yield f"<h3>Spurious consensus ({len(rows)} groups)</h3>" + table(
            ("problem", "", "programs", "right", "crowd", "right in it", "its PCR", "agreement"),
            [
                (
                    "",
                    (
                        row.problem,
                        row.standing,
                        str(row.programs),
                        str(row.right),
                        str(row.crowd),
                        str(row.crowd_right),
                        f"{row.pcr:.2f}",
                        f"{row.agreement:.2f}",
                    ),
                )
                for row in rows[:LISTED]
            ],
        )
        yield _more(rows)


def _single_probes(signal: Signal) -> Iterable[str]:
    if any(row.gain is not None for row in signal.probe_rows):
        yield figure(
            gains_plot(signal.probe_rows),
            "Gain: how much more often right programs than wrong ones are in a probe's largest cluster; below 0 the "
            "probe misleads.",
        )
    worst = sorted((row for row in signal.probe_rows if (row.gain or 0.0) < 0), key=lambda row: row.gain or 0.0)
    if worst:
        yield "<h3>Probes that mislead most</h3>" + table(
            ("problem", "probe", "from", "pairs told apart", "gain"),
            [
                ("", (row.problem, str(row.probe), row.source, f"{row.discrimination:.2f}", _number(row.gain, "+.2f")))
                for row in worst[:LISTED]
            ],
        )
        yield _more(worst)


def _more(rows: Sequence[Any]) -> str:
    return f"<p>and {len(rows) - LISTED} more, all in the JSON file beside this page</p>" if len(rows) > LISTED else ""


_READING = (
    "PCR is the share of probes on which a program&rsquo;s output lies in the largest cluster of equal outputs. A "
    "program is right when it passes every hidden test. AUC is the chance that a right program&rsquo;s PCR is above a "
    "wrong one&rsquo;s, ties counted half; within groups, for pairs of one group. Brackets: 95 % bootstrap intervals "
    "over problems. &ldquo;Pushed&rdquo; weighs a program by its mask weight times its advantage."
)
