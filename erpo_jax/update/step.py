"""The compiled update: one `jax.jit` from packed candidates to new weights, all of METHOD's update inside.

    update(state, batch) -> (state, metrics)            `state` is donated

1. Advantages, mask and each token's factor, from `reward_bg` and `present_bg`.
2. Micro-batches of kept candidates: forward and backward of the policy term, their entropies from the same pass.
   Micro-batches of the others: forward only, for their entropies. Now H of the whole step is known.
3. Only when H is above the ceiling: the entropy's gradient, a second forward and backward over all.
4. Clipping, optimizer, metrics. A step with nothing to learn, with a non-finite loss or gradient, or with candidates
   that another policy must have sampled, returns the state as it was.

The numbers of micro-batches are values: loops run as long as there is work, so that empty rows cost nothing and one
compilation serves every split. All denominators are global: no way of cutting the step changes its result.
Left out: the packing (`packing`), several updates per rollout (`rollout_update`), the plain reference (`reference`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec

from erpo_jax.config import LossConfig, MaskConfig, OptimizerConfig, UpdateConfig
from erpo_jax.policy import Policy
from erpo_jax.update.batch import Batch, BatchError
from erpo_jax.update.forward import Answers, make_forward
from erpo_jax.update.logprobs import Term
from erpo_jax.update.measures import TokenSums, entropy_and_gap, group_metrics, share, token_metrics
from erpo_jax.update.objective import (
    candidate_factors,
    entropy_penalty,
    importance_weight,
    policy_ratio,
    token_objective,
)
from erpo_jax.update.optimizer import init_optimizer, learning_rate, make_optimizer, optimizer_shardings

Metrics = dict[str, jax.Array]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """What an update changes. `step` (int32) counts the updates that were applied: it is METHOD's n of the next one."""

    params: Any
    opt_state: Any
    step: jax.Array


def init_state(policy: Policy, optimizer: OptimizerConfig) -> TrainState:
    """A fresh state around the policy's own weights, sharded like them.

    It takes the arrays over: the first update donates them, and `policy.params` must not be used after it.
    """
    step = jax.device_put(jnp.zeros((), jnp.int32), NamedSharding(policy.mesh, PartitionSpec()))
    return TrainState(params=policy.params, opt_state=init_optimizer(optimizer, policy.params), step=step)


class Update:
    """The compiled update of one policy and configuration. Call it, or `lower` it for inspection without running it."""

    def __init__(
        self,
        step: Callable[[TrainState, Batch], tuple[TrainState, Metrics]],
        shardings: TrainState,
        micro_batch_rows: int,
    ) -> None:
        self.compilations = 0
        """How often the step was compiled so far: at most once per row length."""
        self._micro_batch_rows = micro_batch_rows
        self._everywhere: NamedSharding = shardings.step  # type: ignore[assignment]
        self._step, self._out_shardings = step, (shardings, self._everywhere)

        def counted(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
            self.compilations += 1  # runs when jit traces, that is once per compilation
            return step(state, batch)

        self._jitted = jax.jit(counted, donate_argnums=0, out_shardings=self._out_shardings)

    def __call__(self, state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        """One update. `batch` holds host arrays (`pack`). Metrics are float32 scalars on the devices.

        Raises BatchError, with nothing learnt, when a candidate with a policy gradient lies outside the batch's kept
        rows (it was laid out for another mask or other rewards).
        """
        self._check(batch)
        state, metrics = self._jitted(state, jax.device_put(batch, self._everywhere))
        misplaced = int(metrics["misplaced_tokens"])
        if misplaced:
            raise BatchError(
                f"the batch's layout disagrees with the step: {misplaced} response tokens lie outside the rows they "
                "belong to; pack with the step's own mask and loss settings"
            )
        return state, metrics

    def lower(self, state: Any, batch: Any, *, fixed: bool = False) -> jax.stages.Lowered:
        """The step lowered for these arrays or shapes (jax.ShapeDtypeStruct with shardings).

        `fixed` compiles in how often each loop runs, so that the program's cost can be read off its text: for the
        batch's own numbers of micro-batches, which are then Python ints or host arrays, and its `answer_slots`.
        """
        self._check(batch)
        if not fixed:
            return self._jitted.lower(state, batch)
        kept, both = int(batch.kept_micro_batches), int(batch.micro_batches)

        def with_numbers(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
            return self._step(state, replace(batch, kept_micro_batches=kept, micro_batches=both))

        jitted = jax.jit(with_numbers, donate_argnums=0, out_shardings=self._out_shardings)
        return jitted.lower(state, batch)

    def _check(self, batch: Batch) -> None:
        rows = batch.tokens_rs.shape[0]
        if rows % self._micro_batch_rows:
            raise BatchError(f"{rows} rows are not a multiple of update.micro_batch_rows={self._micro_batch_rows}")


def make_update(
    policy: Policy,
    *,
    loss: LossConfig,
    mask: MaskConfig,
    update: UpdateConfig,
    optimizer: OptimizerConfig,
    temperature: float,
    max_gap: float = math.inf,
) -> Update:
    """Build the update. Nothing is compiled before the first call. An update whose candidates' mean log-prob gap
    between sampler and trainer is over `max_gap` nats changes nothing, and says `mismatched`."""
    param_shardings = jax.tree.map(lambda value: value.sharding, policy.params)
    shardings = TrainState(
        params=param_shardings,
        opt_state=optimizer_shardings(optimizer, policy.params),
        step=NamedSharding(policy.mesh, PartitionSpec()),  # type: ignore[arg-type]
    )
    step = make_step(
        policy,
        param_shardings,
        loss=loss,
        mask=mask,
        update=update,
        optimizer=optimizer,
        temperature=temperature,
        max_gap=max_gap,
    )
    return Update(step, shardings, update.micro_batch_rows)


def make_step(
    policy: Policy,
    param_shardings: Any,
    *,
    loss: LossConfig,
    mask: MaskConfig,
    update: UpdateConfig,
    optimizer: OptimizerConfig,
    temperature: float,
    max_gap: float = math.inf,
) -> Callable[[TrainState, Batch], tuple[TrainState, Metrics]]:
    """The step as a pure function, not yet jitted: for `Update`, and for whoever wants to compile it in another way."""
    forward = make_forward(policy, update, temperature)
    chain = make_optimizer(optimizer)
    rows = update.micro_batch_rows

    def policy_term(advantage_c: jax.Array, scale_c: jax.Array) -> Term:
        """The policy loss of some answer tokens, and their sums."""

        def term(logprob_rc: jax.Array, entropy_rc: jax.Array, answers: Answers) -> tuple[jax.Array, TokenSums]:
            mask_rc, candidate_rc = answers.candidate_rs >= 0, jnp.maximum(answers.candidate_rs, 0)
            scale_rc = jnp.where(mask_rc, scale_c[candidate_rc], 0.0)
            learning_rc = scale_rc != 0.0
            rollout_rc, old_rc = answers.rollout_logprobs_rs, answers.old_logprobs_rs
            ratio_rc = policy_ratio(
                logprob_rc, jax.lax.stop_gradient(logprob_rc) if old_rc is None else old_rc, learning_rc
            )
            objective_rc = token_objective(ratio_rc, advantage_c[candidate_rc], loss)
            if loss.importance_cap > 0.0:
                objective_rc *= importance_weight(logprob_rc, rollout_rc, learning_rc, loss.importance_cap)
            objective = jnp.sum(scale_rc * objective_rc)
            outside_rc = learning_rc & (jnp.abs(ratio_rc - 1.0) > loss.clip)
            sums = replace(
                entropy_and_gap(logprob_rc, entropy_rc, rollout_rc, mask_rc),
                objective=objective,
                ratio=jnp.sum(jnp.where(learning_rc, ratio_rc, 0.0)),
                ratio_max=jnp.max(jnp.where(learning_rc, ratio_rc, 0.0)),
                clipped=jnp.sum(outside_rc.astype(jnp.float32)),
            )
            return -objective, sums

        return term

    def entropy_term(factor: jax.Array) -> Term:
        """factor * the entropy of some answer tokens."""

        def term(_: jax.Array, entropy_rc: jax.Array, answers: Answers) -> tuple[jax.Array, TokenSums]:
            return factor * jnp.sum(jnp.where(answers.candidate_rs >= 0, entropy_rc, 0.0)), TokenSums.zero()

        return term

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        params = state.params
        length_c = _lengths(batch)
        advantage_c, weight_c, scale_c = candidate_factors(batch.reward_bg, batch.present_bg, length_c, mask, loss)
        kept_c = (weight_c != 0.0) & (advantage_c != 0.0)
        response_tokens, kept_tokens = jnp.sum(length_c), jnp.sum(jnp.where(kept_c, length_c, 0))

        def kept_pass(number: jax.Array, carry: tuple[Any, TokenSums]) -> tuple[Any, TokenSums]:
            grads, sums = carry
            micro = batch.micro_batch(number, rows)
            found, grad = forward.gradient(policy_term(advantage_c, scale_c), params, micro)
            return jax.tree.map(jnp.add, grads, grad), sums.add(found)

        def masked_pass(number: jax.Array, sums: TokenSums) -> TokenSums:
            logprob_rs, entropy_rs, answers = forward.logprobs(params, batch.micro_batch(number, rows))
            mask_rs = answers.candidate_rs >= 0
            return sums.add(entropy_and_gap(logprob_rs, entropy_rs, answers.rollout_logprobs_rs, mask_rs))

        with jax.named_scope("policy_loss"):
            zeros = jax.lax.with_sharding_constraint(jax.tree.map(jnp.zeros_like, params), param_shardings)
            grads, sums = jax.lax.fori_loop(0, batch.kept_micro_batches, kept_pass, (zeros, TokenSums.zero()))
        with jax.named_scope("entropy_ceiling"):
            sums = jax.lax.fori_loop(batch.kept_micro_batches, batch.micro_batches, masked_pass, sums)
            entropy = share(sums.entropy, response_tokens)
            penalty, slope = entropy_penalty(entropy, loss)
            if loss.entropy_coefficient > 0.0:
                penalty_term = entropy_term(share(slope, response_tokens))

                def entropy_pass(number: jax.Array, grads: Any) -> Any:
                    _, grad = forward.gradient(penalty_term, params, batch.micro_batch(number, rows))
                    return jax.tree.map(jnp.add, grads, grad)

                def over_all(grads: Any) -> Any:
                    return jax.lax.fori_loop(0, batch.micro_batches, entropy_pass, grads)

                grads = jax.lax.cond(slope > 0.0, over_all, lambda grads: grads, grads)
        with jax.named_scope("optimizer"):
            policy_loss = -sums.objective
            grad_norm = optax.tree.norm(grads)
            learns = jnp.any(kept_c) | (slope > 0.0)
            misplaced = _misplaced_tokens(batch, kept_c, rows)
            # Told from the gradient: the state that it changes was finite. A norm of all that comes out would have to
            # be there before any of the old state may go.
            finite = jnp.isfinite(policy_loss + penalty) & jnp.isfinite(grad_norm)
            mismatched = share(sums.gap, response_tokens) > max_gap
            changes, opt_state = chain.update(grads, state.opt_state, params)
            new = TrainState(optax.apply_updates(params, changes), opt_state, state.step + 1)
            state_after = _choose(finite & learns & ~mismatched & (misplaced == 0), new, state)
        metrics = {
            "loss": policy_loss + penalty,
            "policy_loss": policy_loss,
            "entropy_excess": jnp.maximum(entropy - loss.entropy_ceiling, 0.0),
            "grad_norm": grad_norm,
            "learning_rate": learning_rate(optimizer, state.step),
            "tokens": jnp.sum(batch.segments_rs > 0),
            "response_tokens": response_tokens,
            "kept_tokens": kept_tokens,
            "skipped_update": ~learns,
            "nonfinite": ~finite,
            "mismatched": mismatched,
            "misplaced_tokens": misplaced,
            "micro_batches": batch.micro_batches,
            "kept_micro_batches": batch.kept_micro_batches,
            **token_metrics(sums, response_tokens, kept_tokens),
            **group_metrics(batch, advantage_c, kept_c),
        }
        return state_after, {name: jnp.asarray(value).astype(jnp.float32) for name, value in metrics.items()}

    return step


def _lengths(batch: Batch) -> jax.Array:
    """int32 [C]: response tokens of every candidate."""
    slots_rs = jnp.where(batch.candidate_rs >= 0, batch.candidate_rs, batch.present_bg.size)
    return jnp.zeros(batch.present_bg.size + 1, jnp.int32).at[slots_rs].add(1)[:-1]


def _misplaced_tokens(batch: Batch, kept_c: jax.Array, rows: int) -> jax.Array:
    """int32: response tokens of kept candidates beyond the kept micro-batches, or of anyone beyond the last one."""
    micro_r = jnp.arange(batch.tokens_rs.shape[0], dtype=jnp.int32)[:, None] // rows
    learning_rs = batch.response_mask_rs & kept_c[jnp.maximum(batch.candidate_rs, 0)]
    beyond_rs = (learning_rs & (micro_r >= batch.kept_micro_batches)) | (
        batch.response_mask_rs & (micro_r >= batch.micro_batches)
    )
    return jnp.sum(beyond_rs.astype(jnp.int32))


def _choose(condition: jax.Array, new: TrainState, old: TrainState) -> TrainState:
    """`new` or, bit for bit, `old`: element by element, which fuses with the optimizer and needs no second copy."""
    chosen: TrainState = jax.tree.map(lambda after, before: jnp.where(condition, after, before), new, old)
    return chosen
