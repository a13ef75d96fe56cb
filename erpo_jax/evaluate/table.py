"""The result in plain lines: the base's curve, the adapted policy, the paired differences, and the verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from erpo_jax.evaluate.curve import Comparison, compare
from erpo_jax.evaluate.estimates import shown
from erpo_jax.evaluate.measurement import Evaluation, Point

TITLES = {"all": "all problems", "adapted": "problems adapted on", "held out": "held-out problems"}


@dataclass(frozen=True)
class Row:
    """One line of the table: who, and a cell for each k."""

    who: str
    cells: tuple[str, ...]
    difference: bool = False


@dataclass(frozen=True)
class Section:
    """The table of one group of problems, with what it says in words. `comparisons` has one entry an adapted point."""

    group: str
    problems: int
    ks: tuple[int, ...]
    rows: tuple[Row, ...]
    comparisons: tuple[Comparison, ...]
    sentences: tuple[str, ...]


def sections(base: Evaluation, adapted: Evaluation | None = None) -> list[Section]:
    """One section for all problems, and when there are both, one for adapted and one for held-out problems.

    Raises EvaluationError as `compare` does.
    """
    return [_section(base, adapted, group) for group in base.groups()]


def _section(base: Evaluation, adapted: Evaluation | None, group: str) -> Section:
    ks = base.shown_ks if adapted is None else sorted(set(base.shown_ks) & set(adapted.shown_ks))
    rows = [Row(f"base, T={point.temperature:g}", _cells(base, point, group, ks)) for point in base.points]
    comparisons = []
    for point in adapted.points if adapted else ():
        assert adapted is not None
        found = compare(base, adapted, point, group)
        comparisons.append(found)
        rows.append(Row(f"adapted, T={point.temperature:g}", _cells(adapted, point, group, ks)))
        wanted = [found.temperature, found.best]
        for one in found.against:
            if one.temperature in wanted:
                by_k = {found.low: one.low_k, found.high: one.high_k}
                cells = tuple(shown(by_k[k], sign=True) if k in by_k else "" for k in ks)
                rows.append(Row(f"  minus base, T={one.temperature:g}", cells, difference=True))
    problems = len(base.group(base.points[0], group))
    sentences = [sentence for one in comparisons for sentence in in_words(one)]
    if adapted is None and group == "all" and problems < base.problems:
        sentences.append(
            f"{base.problems - problems} of {base.problems} problems left out: fewer than {max(ks)} graded program(s)."
        )
    return Section(group, problems, tuple(ks), tuple(rows), tuple(comparisons), tuple(sentences))


def _cells(evaluation: Evaluation, point: Point, group: str, ks: Sequence[int]) -> tuple[str, ...]:
    estimates = evaluation.estimates(point, group)
    return tuple(shown(estimates[k]) if k in estimates else "" for k in ks)


def in_words(found: Comparison) -> list[str]:
    """What a comparison says, one sentence an entry."""
    verdict = {
        "above": "lies above the base's temperature curve",
        "below": "lies below the base's temperature curve",
        "on": "cannot be told apart from the base's temperature curve",
    }[found.standing]
    near = found.closest
    both = found.high != found.low
    closest = f"the nearest point of the curve, {near.name}: pass@{found.low} {shown(near.low_k, sign=True)}"
    closest += f", pass@{found.high} {shown(near.high_k, sign=True)}" if both else ""
    words = [f"At temperature {found.temperature:g} the adapted policy {verdict} (against {closest})."]
    if found.standing == "above" and both:
        worse = [one for one in found.against if one.high_k.negative]
        if worse:
            words.append(
                f"Its pass@{found.high} is lower than the base's at temperature "
                f"{', '.join(f'{one.temperature:g}' for one in worse)}."
            )
    words.append(
        f"Against the base at its best temperature for pass@1, {found.best:g}: {len(found.gained)} of {found.problems} "
        f"problems newly solved, {len(found.lost)} no longer; {len(found.beyond)} solved that the base solves at no "
        f"temperature."
    )
    if found.left_out:
        named = ", ".join(found.left_out[:5])
        words.append(f"{len(found.left_out)} problem(s) without enough graded programs left out: {named}.")
    return words


def lines(base: Evaluation, adapted: Evaluation | None = None) -> list[str]:
    """The whole result as plain text lines."""
    out = []
    for section in sections(base, adapted):
        width = max(len(row.who) for row in section.rows) + 2
        columns = [max(len(row.cells[index]) for row in section.rows) + 3 for index in range(len(section.ks))]
        samples = " and ".join(map(str, sorted({one.samples for one in (base, adapted) if one is not None})))
        out.append(
            f"{TITLES[section.group]}: {section.problems}, {samples} program(s) each; 95 % intervals over problems"
        )
        heads = [f"pass@{k}".ljust(column) for k, column in zip(section.ks, columns, strict=True)]
        out.append((" " * width + "".join(heads)).rstrip())
        for row in section.rows:
            cells = "".join(cell.ljust(column) for cell, column in zip(row.cells, columns, strict=True))
            out.append((row.who.ljust(width) + cells).rstrip())
        out += [*section.sentences, ""]
    return out[:-1]
