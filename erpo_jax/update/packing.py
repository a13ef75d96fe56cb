"""Candidates into packed rows, on the host: few shapes, kept candidates first, the same result for the same candidates.

A segment of a row is a prompt and the answers to it that the row has room for: a prompt is computed once per row, not
once per candidate. Candidates that can have a policy gradient (`masks.may_learn`) fill rows of their own, first; those
that only count for the entropy follow. Both parts are whole micro-batches, and their numbers are values, not shapes: a
compilation is needed per row length alone.
Left out: splitting a candidate over rows, and rows of different lengths in one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erpo_jax.config import Config, LossConfig, MaskConfig
from erpo_jax.update.batch import Batch, BatchError, Candidate
from erpo_jax.update.masks import may_learn

_ROW_MULTIPLE = 64

Row = dict[tuple[int, ...], list[Candidate]]
"""Prompt -> the candidates of this row that answer it."""


@dataclass(frozen=True)
class BatchShape:
    """The shapes a run's batches may have. `len(row_tokens)` bounds the compilations of the step."""

    groups: int
    """B, groups per update."""
    group_size: int
    """G."""
    micro_batch_rows: int
    """Rows a micro-batch, over all devices."""
    row_tokens: tuple[int, ...]
    """S: the row lengths to choose from, ascending. The last one must hold the longest candidate."""
    old_logprobs: bool = False
    """Whether batches carry old log-probs: several updates per rollout, or rollouts that are a step old."""

    @property
    def rows(self) -> int:
        """R: room for one candidate a row, in two parts of whole micro-batches. Empty rows are not computed."""
        return (-(-self.groups * self.group_size // self.micro_batch_rows) + 1) * self.micro_batch_rows


def row_lengths(most: int) -> tuple[int, ...]:
    """Row lengths to choose from: `most` tokens down to a quarter of it in steps of an eighth, in multiples of 64."""
    return tuple(sorted({-(-most * eighths // (8 * _ROW_MULTIPLE)) * _ROW_MULTIPLE for eighths in range(2, 9)}))


def batch_shape(config: Config) -> BatchShape:
    """The shapes of a configuration's mini-batches: rows of update.row_tokens and shorter ones (`row_lengths`)."""
    longest = config.update.row_tokens or config.rollout.max_prompt_tokens + config.rollout.max_new_tokens
    return BatchShape(
        groups=config.train.problems_per_step // config.update.minibatches,
        group_size=config.rollout.group_size,
        micro_batch_rows=config.update.micro_batch_rows,
        row_tokens=row_lengths(longest),
        old_logprobs=config.update.epochs * config.update.minibatches > 1 or config.rollout.async_steps > 0,
    )


def pack(candidates: Sequence[Candidate], shape: BatchShape, mask: MaskConfig, loss: LossConfig) -> Batch:
    """A batch of numpy arrays. Slots (group, index) without a candidate are absent.

    The row length is the one of `shape.row_tokens` that leaves the fewest slots to compute. Raises BatchError.
    """
    reward_bg, present_bg = _rewards(candidates, shape)
    learns_bg = may_learn(mask, loss, reward_bg, present_bg)
    here = sorted((item for item in candidates if item.present), key=lambda item: (item.group, item.index))
    _check_tokens(here, shape)
    parts = ([c for c in here if learns_bg[c.group, c.index]], [c for c in here if not learns_bg[c.group, c.index]])
    longest = max((_tokens(item) for item in here), default=1)
    plans = [(slots, [_first_fit(part, slots) for part in parts]) for slots in shape.row_tokens if slots >= longest]
    slots, (kept, others) = min(plans, key=lambda plan: plan[0] * sum(_micro_batches(rows, shape) for rows in plan[1]))
    kept_micro_batches, other_micro_batches = _micro_batches(kept, shape), _micro_batches(others, shape)
    placed = dict(enumerate(kept)) | dict(enumerate(others, start=kept_micro_batches * shape.micro_batch_rows))
    return Batch(
        **_fill(placed, slots, shape),
        reward_bg=reward_bg,
        present_bg=present_bg,
        kept_micro_batches=np.int32(kept_micro_batches),
        micro_batches=np.int32(kept_micro_batches + other_micro_batches),
    )


def unpack(batch: Batch, value_rs: np.ndarray) -> dict[int, np.ndarray]:
    """Flat candidate index -> the values at its completion's tokens, in order."""
    value_rs = np.asarray(value_rs)
    return {int(c): value_rs[batch.candidate_rs == c] for c in np.unique(batch.candidate_rs) if c >= 0}


def _rewards(candidates: Sequence[Candidate], shape: BatchShape) -> tuple[np.ndarray, np.ndarray]:
    reward_bg = np.zeros((shape.groups, shape.group_size), np.float32)
    present_bg = np.zeros((shape.groups, shape.group_size), bool)
    seen: set[tuple[int, int]] = set()
    for item in candidates:
        place = (item.group, item.index)
        if not (0 <= item.group < shape.groups and 0 <= item.index < shape.group_size):
            raise BatchError(
                f"candidate {place} (group, index) lies outside {shape.groups} groups of {shape.group_size} candidates"
            )
        if place in seen:
            raise BatchError(f"candidate {place} (group, index) is there twice")
        seen.add(place)
        if item.present:
            reward_bg[place] = item.reward
            present_bg[place] = True
    return reward_bg, present_bg


def _check_tokens(here: Sequence[Candidate], shape: BatchShape) -> None:
    for item in here:
        name = f"candidate {(item.group, item.index)} (group, index)"
        if not len(item.prompt_ids) or not len(item.completion_ids):
            empty = "completion" if len(item.prompt_ids) else "prompt"
            raise BatchError(f"{name} has no {empty}; mark it absent instead")
        for what, values in (("rollout_logprobs", item.rollout_logprobs), ("old_logprobs", item.old_logprobs)):
            if values is not None and len(values) != len(item.completion_ids):
                raise BatchError(f"{name} has {len(values)} {what} for {len(item.completion_ids)} completion tokens")
        if shape.old_logprobs and item.old_logprobs is None:
            raise BatchError(f"{name} has no old_logprobs, which several updates per rollout need")
        if _tokens(item) > shape.row_tokens[-1]:
            raise BatchError(
                f"{name} has {_tokens(item)} tokens, a row holds {shape.row_tokens[-1]}; "
                f"set update.row_tokens to at least {_tokens(item)}"
            )


def _tokens(item: Candidate) -> int:
    return len(item.prompt_ids) + len(item.completion_ids)


def _micro_batches(rows: Sequence[Row], shape: BatchShape) -> int:
    return -(-len(rows) // shape.micro_batch_rows)


def _first_fit(part: Sequence[Candidate], slots: int) -> list[Row]:
    """Groups in order, longest answers first: each into the first row that has its prompt and room, else the first
    with room for both."""
    rows: list[Row] = []
    room: list[int] = []
    for item in sorted(part, key=lambda item: (item.group, -_tokens(item), item.index)):
        prompt = tuple(item.prompt_ids)
        needs = [len(item.completion_ids) + (0 if prompt in row else len(prompt)) for row in rows]
        fitting = [number for number in range(len(rows)) if room[number] >= needs[number]]
        row = min(fitting, key=lambda number: (prompt not in rows[number], number), default=len(rows))
        if row == len(rows):
            rows.append({})
            room.append(slots)
            needs.append(_tokens(item))
        rows[row].setdefault(prompt, []).append(item)
        room[row] -= needs[row]
    return rows


def _fill(placed: dict[int, Row], slots: int, shape: BatchShape) -> dict[str, Any]:
    rows = shape.rows
    tokens_rs = np.zeros((rows, slots), np.int32)
    positions_rs = np.zeros((rows, slots), np.int32)
    segments_rs = np.zeros((rows, slots), np.int32)
    candidate_rs = np.full((rows, slots), -1, np.int32)
    sources_rs = np.zeros((rows, slots), np.int32)
    rollout_logprobs_rs = np.zeros((rows, slots), np.float32)
    old_logprobs_rs = np.zeros((rows, slots), np.float32) if shape.old_logprobs else None
    for row, segments in placed.items():
        start = 0
        for segment, (prompt, items) in enumerate(segments.items(), start=1):
            first, end = start, start + len(prompt)
            tokens_rs[row, start:end] = prompt
            positions_rs[row, start:end] = np.arange(len(prompt))
            for item in items:
                start, end = end, end + len(item.completion_ids)
                tokens_rs[row, start:end] = item.completion_ids
                positions_rs[row, start:end] = len(prompt) + np.arange(end - start)
                candidate_rs[row, start:end] = item.group * shape.group_size + item.index
                sources_rs[row, start:end] = np.arange(start - 1, end - 1)
                sources_rs[row, start] = first + len(prompt) - 1
                rollout_logprobs_rs[row, start:end] = item.rollout_logprobs
                if old_logprobs_rs is not None:
                    old_logprobs_rs[row, start:end] = item.old_logprobs
            segments_rs[row, first:end] = segment
            start = end
    return {
        "tokens_rs": tokens_rs,
        "positions_rs": positions_rs,
        "segments_rs": segments_rs,
        "candidate_rs": candidate_rs,
        "sources_rs": sources_rs,
        "rollout_logprobs_rs": rollout_logprobs_rs,
        "old_logprobs_rs": old_logprobs_rs,
    }
