"""How our verdicts agree with those that a publisher gives, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NAMED = 50
"""Disagreements that are named; all are counted."""


def agreement(
    labels: Mapping[str, Sequence[bool | None]], verdicts: Mapping[str, Sequence[bool | None]]
) -> dict[str, Any]:
    """Counts over the samples that have both a label and a verdict, and the disagreements by problem and place:
    [problem, index of the sample, label, verdict]."""
    both = [
        (name, index, label, verdict)
        for name, row in labels.items()
        for index, (label, verdict) in enumerate(zip(row, verdicts[name], strict=True))
        if label is not None and verdict is not None
    ]
    wrong = [list(one) for one in both if one[2] is not one[3]]
    return {"labelled": len(both), "agree": len(both) - len(wrong), "disagreements": wrong[:NAMED]}
