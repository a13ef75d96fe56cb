"""The contestants that are ours: the compiled step, its plain reference, and a GRPO step as verl does it.

Each starts from the same weights, learns from the same candidates with the same optimizer, and rematerialises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from erpo_jax.benchmarks.update.candidates import tokens
from erpo_jax.config import LossConfig, MaskConfig, OptimizerConfig, UpdateConfig
from erpo_jax.policy import Policy
from erpo_jax.update import BatchShape, Candidate, init_state, make_optimizer, make_scorer, make_update, pack, unpack
from erpo_jax.update.objective import policy_ratio, token_objective
from erpo_jax.update.reference import dense, plan, reference_logprobs, reference_loss

OPTIMIZER = OptimizerConfig()


@dataclass(frozen=True)
class Contestant:
    """One way to do the step."""

    name: str
    does: str
    """What it does, in a line."""
    run: Callable[[], None]
    """One step, finished when it returns."""
    lower: Callable[[], list[jax.stages.Lowered]]
    """Its programs, with every number of loops compiled in; together they are one step."""
    logprobs: Callable[[], list[np.ndarray]]
    """Of every candidate's answer tokens, at the first weights: proof that all see the same."""
    branch: int = 0
    """Which branch its conditional takes, if it has one."""


def copied(policy: Policy) -> Policy:
    """The policy with arrays of its own, to be donated."""
    return policy.with_params(
        jax.tree.map(lambda value: jax.device_put(jnp.array(value), value.sharding), policy.params)
    )


def erpo(
    name: str,
    policy: Policy,
    candidates: Sequence[Candidate],
    loss: LossConfig,
    update: UpdateConfig,
    rows: tuple[int, ...],
) -> Contestant:
    """The compiled step with the rank mask."""
    mask = MaskConfig()
    groups, size = (1 + max(getattr(c, name) for c in candidates) for name in ("group", "index"))
    batch = pack(candidates, BatchShape(groups, size, update.micro_batch_rows, rows), mask, loss)
    step = make_update(policy, loss=loss, mask=mask, update=update, optimizer=OPTIMIZER, temperature=1.0)
    state = init_state(copied(policy), OPTIMIZER)
    kept, both = int(batch.kept_micro_batches), int(batch.micro_batches)
    answers = int(np.max(np.sum(batch.response_mask_rs, axis=1)))

    def run() -> None:
        nonlocal state
        state, metrics = step(state, batch)
        jax.block_until_ready(metrics)

    def lower() -> list[jax.stages.Lowered]:
        return [step.lower(state, replace(batch, answer_slots=answers), fixed=True)]

    def logprobs() -> list[np.ndarray]:
        found = unpack(batch, make_scorer(policy, update, 1.0)(policy.params, batch))
        return [found[c.group * size + c.index] for c in candidates]

    rows_of = f"{batch.tokens_rs.shape[1]} slots, {update.micro_batch_rows} a micro-batch"
    does = f"{kept} + {both - kept} micro-batches of rows of {rows_of}"
    return Contestant(name, does, run, lower, logprobs, branch=int(loss.entropy_ceiling == 0))


def plain_reference(policy: Policy, candidates: Sequence[Candidate], loss: LossConfig) -> Contestant:
    """The loss as METHOD writes it, over all candidates side by side."""
    made = plan(candidates, MaskConfig(), loss)
    rows = dense(made.candidates)
    advantage_n, scale_n = np.asarray(made.advantages, np.float32), np.asarray(made.scales, np.float32)
    numbers = {name: np.float32(value) for name, value in vars(loss).items() if isinstance(value, float)}

    def gradient(params: Any) -> Any:
        return jax.grad(reference_loss, argnums=1, has_aux=True)(
            policy.graphdef, params, rows, advantage_n, scale_n, numbers, np.float32(1.0)
        )[0]

    does = f"forward and backward over all, {rows.tokens_nt.shape[0]} rows of {rows.tokens_nt.shape[1]}, all logits"
    run, lower = _trained(policy, gradient)
    return Contestant(
        "plain reference",
        does,
        run,
        lower,
        lambda: reference_logprobs(policy, policy.params, candidates, 1.0),
    )


def verl_like(policy: Policy, candidates: Sequence[Candidate]) -> Contestant:
    """GRPO as verl does it: the old log-probs (and the entropy it logs) of all by a forward pass of their own, then
    forward and backward over all. Sequences are packed without padding between them, one prompt each
    (use_remove_padding); all logits at once; clip 0.2, dual clip 3, mean over all tokens. In one micro-batch."""
    loss = LossConfig(entropy_coefficient=0.0)
    made = plan(candidates, MaskConfig(kind="none"), loss)
    rows = _side_by_side(made.candidates)
    mask_rs, number_rs = rows.candidate_rs >= 0, np.maximum(rows.candidate_rs, 0)
    advantage_rs = np.asarray(made.advantages, np.float32)[number_rs]
    scale_rs = np.where(mask_rs, np.asarray(made.scales, np.float32)[number_rs], np.float32(0.0))

    def logprobs(params: Any) -> tuple[jax.Array, jax.Array]:
        decoder = nnx.merge(policy.graphdef, params)
        logits_rsv = decoder.logits(decoder(rows.tokens_rs, rows.positions_rs, rows.segments_rs))[:, :-1]
        log_sum_rs = jax.nn.logsumexp(logits_rsv, axis=-1)
        chosen_rs = jnp.take_along_axis(logits_rsv, rows.tokens_rs[:, 1:, None], axis=-1)[..., 0]
        p_rsv = jax.nn.softmax(logits_rsv, axis=-1)
        entropy_rs = log_sum_rs - jnp.einsum("rsv,rsv->rs", p_rsv, logits_rsv)
        return jnp.pad(chosen_rs - log_sum_rs, ((0, 0), (1, 0))), jnp.pad(entropy_rs, ((0, 0), (1, 0)))

    @jax.jit
    def old(params: Any) -> tuple[jax.Array, jax.Array]:
        logprob_rs, entropy_rs = logprobs(params)
        return logprob_rs, jnp.sum(jnp.where(mask_rs, entropy_rs, 0.0)) / np.float32(mask_rs.sum())

    def gradient(params: Any, old_rs: jax.Array) -> Any:
        def value(params: Any) -> jax.Array:
            ratio_rs = policy_ratio(logprobs(params)[0], old_rs, jnp.asarray(mask_rs))
            return -jnp.sum(scale_rs * token_objective(ratio_rs, jnp.asarray(advantage_rs), loss))

        return jax.grad(value)(params)

    update, lower_update = _trained(policy, gradient, old)
    shape = f"{len(rows.tokens_rs)} rows of {rows.tokens_rs.shape[1]}"
    does = f"forward over all for old log-probs, then forward and backward over all, {shape}, all logits"

    def by_candidate() -> list[np.ndarray]:
        logprob_rs = np.asarray(old(policy.params)[0])
        return [logprob_rs[rows.candidate_rs == number] for number in range(len(made.candidates))]

    def lower() -> list[jax.stages.Lowered]:
        return [old.lower(policy.params), *lower_update()]

    return Contestant("GRPO as verl", does, update, lower, by_candidate)


@dataclass(frozen=True)
class _Rows:
    tokens_rs: np.ndarray
    positions_rs: np.ndarray
    segments_rs: np.ndarray
    candidate_rs: np.ndarray


def _side_by_side(candidates: Sequence[Candidate]) -> _Rows:
    """Longest first, each whole and with its own prompt, into the first row with room; of the row lengths up to twice
    the longest candidate that which leaves the fewest slots empty."""
    order = sorted(range(len(candidates)), key=lambda number: -tokens(candidates[number]))
    longest = tokens(candidates[order[0]])

    def fill(slots: int) -> list[list[int]]:
        rows: list[list[int]] = []
        for number in order:
            size = tokens(candidates[number])
            row = next((r for r in rows if sum(tokens(candidates[n]) for n in r) + size <= slots), None)
            if row is None:
                rows.append(row := [])
            row.append(number)
        return rows

    slots = min(range(longest, 2 * longest + 1), key=lambda slots: slots * len(fill(slots)))
    placed = fill(slots)
    made = _Rows(*(np.full((len(placed), slots), fill, np.int32) for fill in (0, 0, 0, -1)))
    for row, numbers in enumerate(placed):
        start = 0
        for segment, number in enumerate(numbers, start=1):
            item = candidates[number]
            end = start + tokens(item)
            made.tokens_rs[row, start:end] = [*item.prompt_ids, *item.completion_ids]
            made.positions_rs[row, start:end] = np.arange(end - start)
            made.segments_rs[row, start:end] = segment
            made.candidate_rs[row, start + len(item.prompt_ids) : end] = number
            start = end
    return made


def _trained(
    policy: Policy, gradient: Callable[..., Any], first: Callable[[Any], tuple[jax.Array, Any]] | None = None
) -> tuple[Callable[[], None], Callable[[], list[jax.stages.Lowered]]]:
    """(one step, its program) of AdamW on gradient(params), or gradient(params, first(params)[0])."""
    chain = make_optimizer(OPTIMIZER)
    params = copied(policy).params
    opt_state = jax.jit(chain.init)(params)

    def step(params: Any, opt_state: Any, *given: jax.Array) -> tuple[Any, Any]:
        changes, opt_state = chain.update(gradient(params, *given), opt_state, params)
        return optax.apply_updates(params, changes), opt_state

    jitted = jax.jit(step, donate_argnums=(0, 1))

    def given() -> list[jax.Array]:
        return [] if first is None else [first(params)[0]]

    def run() -> None:
        nonlocal params, opt_state
        params, opt_state = jitted(params, opt_state, *given())
        jax.block_until_ready(params)

    def lower() -> list[jax.stages.Lowered]:
        shapes = [] if first is None else [jax.eval_shape(first, params)[0]]
        return [jitted.lower(params, opt_state, *shapes)]

    return run, lower
