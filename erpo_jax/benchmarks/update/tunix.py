"""Tunix's own learner step on the same weights and candidates: its Qwen3, its trainer, its GRPO loss.

Padded as its learner pads: prompts on the left to the longest prompt, answers on the right to the longest answer, of
this very batch. KL is off, the loss a mean over tokens, and no old log-probs are computed, as with one iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from erpo_jax.benchmarks.timing import BenchmarkError
from erpo_jax.benchmarks.update.contestants import OPTIMIZER, Contestant
from erpo_jax.config import LossConfig, MaskConfig
from erpo_jax.policy import Policy
from erpo_jax.update import Candidate, make_optimizer
from erpo_jax.update.reference import plan

# ours -> its module and parameter, and which of ours are per layer
_NAMES = {
    "attention_norm_d": "input_layernorm.w",
    "q_dnh": "attn.q_proj.w",
    "k_djh": "attn.k_proj.w",
    "v_djh": "attn.v_proj.w",
    "o_nhd": "attn.o_proj.w",
    "q_norm_h": "attn.q_norm.w",
    "k_norm_h": "attn.k_norm.w",
    "feed_forward_norm_d": "post_attention_layernorm.w",
    "gate_df": "mlp.gate_proj.kernel",
    "up_df": "mlp.up_proj.kernel",
    "down_fd": "mlp.down_proj.kernel",
}


def tunix(policy: Policy, candidates: Sequence[Candidate]) -> Contestant:
    """Raises BenchmarkError when Tunix is not installed."""
    try:
        from tunix.rl import common
        from tunix.rl.algo_core import grpo_loss_fn
        from tunix.rl.common import TrainExample
        from tunix.rl.grpo.grpo_learner import GRPOConfig
        from tunix.rl.trainer import Trainer
        from tunix.sft.peft_trainer import TrainingConfig
    except ImportError as error:
        raise BenchmarkError(
            f"Tunix is not there ({error}): docs/update.md says how to install it; or --no-tunix"
        ) from error
    made = plan(candidates, MaskConfig(kind="none"), LossConfig())
    ids = [(list(c.prompt_ids), list(c.completion_ids)) for c in made.candidates]
    left, right = (max(len(both[side]) for both in ids) for side in (0, 1))
    prompts = np.asarray([[0] * (left - len(prompt)) + prompt for prompt, _ in ids], np.int32)
    answers = np.asarray([answer + [0] * (right - len(answer)) for _, answer in ids], np.int32)
    example = TrainExample(
        prompt_ids=jnp.asarray(prompts),
        prompt_mask=jnp.asarray(prompts != 0),
        completion_ids=jnp.asarray(answers),
        completion_mask=jnp.asarray(answers != 0),
        advantages=jnp.asarray(made.advantages, jnp.float32),
        ref_per_token_logps=None,
        old_per_token_logps=None,
    )
    algorithm = GRPOConfig(beta=0.0, loss_agg_mode="token-mean")
    algorithm.temperature = 1.0  # its learner sets it from the rollout's configuration
    trainer = Trainer(
        _model(policy),
        make_optimizer(OPTIMIZER),
        TrainingConfig(eval_every_n_steps=1),
        custom_checkpoint_metadata_fn=dict,
    )
    trainer.with_loss_fn(
        lambda model, train_example, algo_config: grpo_loss_fn(model, train_example, algo_config, pad_id=0, eos_id=-1),
        has_aux=True,
    )
    trainer.with_gen_model_input_fn(lambda given: {"train_example": given, "algo_config": algorithm})
    step, _ = trainer.jit_train_and_eval_step(False, True)

    def run() -> None:
        jax.block_until_ready(step(example)[0])

    def lower() -> list[Any]:
        plain = nnx.jit(trainer.create_train_step_fn(), donate_argnames=("optimizer",))
        return [plain.lower(trainer.model, trainer.optimizer, example)]

    def logprobs() -> list[np.ndarray]:
        graphdef, state = nnx.split(_model(policy))
        found_nt = common.compute_per_token_logps(graphdef, state, example.prompt_ids, example.completion_ids, 0, -1)
        return [np.asarray(found_nt)[n, : len(answer)] for n, (_, answer) in enumerate(ids)]

    does = f"forward and backward over all, {len(ids)} rows of {left} + {right}, all logits"
    return Contestant("Tunix 0.1.7", does, run, lower, logprobs)


def _model(policy: Policy) -> Any:
    from tunix.models.qwen3.model import ModelConfig, Qwen3

    spec = policy.spec
    shape = ModelConfig(
        num_layers=spec.layers,
        vocab_size=spec.vocabulary,
        embed_dim=spec.model,
        hidden_dim=spec.feed_forward,
        num_heads=spec.heads,
        head_dim=spec.head_dim,
        num_kv_heads=spec.kv_heads,
        rope_theta=int(spec.rope_theta),
        norm_eps=spec.norm_eps,
        use_tied_embedding=spec.tied,
    )
    model = Qwen3(shape, rngs=nnx.Rngs(0))
    ours = nnx.to_pure_dict(policy.params)
    weights: dict[Any, Any] = {
        ("embedder", "input_embedding"): ours["embed_vd"],
        ("final_norm", "w"): ours["final_norm_d"],
    }
    for name, path in _NAMES.items():
        for number in range(spec.layers):
            weights["layers", number, *path.split(".")] = ours["layers"][name][number]
    theirs: list[Any] = list(nnx.to_flat_state(nnx.state(model, nnx.Param)))
    if {path for path, _ in theirs} != set(weights):
        raise AssertionError("Tunix's Qwen3 has other parameters than ours")
    for path, value in theirs:
        value.set_value(jnp.array(weights[path]))
    nnx.update(model, nnx.from_flat_state(theirs))
    return model
