"""JaxEngine against transformers and against the decoder's own full forward, and what a completion may depend on."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from transformers import Qwen3ForCausalLM

from erpo_jax.policy import Policy, load, make_mesh
from erpo_jax.rollout import Completion, EngineError, JaxEngine, RequestError, Sampling
from erpo_jax.rollout.jax_engine import bucket


def prompts(count: int, seed: int = 0, low: int = 1, high: int = 90) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(4, 96, rng.integers(low, high)).tolist() for _ in range(count)]


def flat(groups: list[list[Completion]]) -> list[Completion]:
    return [completion for group in groups for completion in group]


def full_logprobs(policy: Policy, prompt: list[int], answer: tuple[int, ...], temperature: float) -> np.ndarray:
    """Log-probs of the answer's tokens by one forward over prompt and answer."""
    decoder = nnx.merge(policy.graphdef, policy.params)
    ids = jnp.asarray([[*prompt, *answer]], jnp.int32)
    positions = jnp.arange(ids.shape[1], dtype=jnp.int32)[None]
    logits = decoder.logits(decoder(ids, positions, jnp.ones_like(ids)))[0]
    table = np.asarray(jax.nn.log_softmax(logits / jnp.float32(temperature), axis=-1))
    return table[np.arange(len(prompt) - 1, ids.shape[1] - 1), np.asarray(answer)]


def test_greedy_equals_transformers_over_prompts_of_many_lengths(
    engine: JaxEngine, policy: Policy, reference: Qwen3ForCausalLM, ladder: list[list[int]]
) -> None:
    answers = flat(engine.generate(ladder, 1, Sampling(0.0, 24), [0] * len(ladder)))
    for prompt, answer in zip(ladder, answers, strict=True):
        out = reference.generate(
            torch.tensor([prompt]),
            max_new_tokens=24,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
            eos_token_id=list(policy.end_ids),
            pad_token_id=0,
        )
        ids = out.sequences[0, len(prompt) :].tolist()
        logprobs = torch.stack(out.logits, 1)[0].log_softmax(-1)[torch.arange(len(ids)), ids]
        assert list(answer.token_ids) == ids
        np.testing.assert_allclose(answer.logprobs, logprobs.numpy(), atol=1e-4)
        assert answer.finish_reason == ("stop" if ids[-1] in policy.end_ids else "length")
    assert {answer.finish_reason for answer in answers} == {"stop", "length"}


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_logprobs_equal_a_full_forward(engine: JaxEngine, policy: Policy, temperature: float) -> None:
    asked = prompts(3, seed=1)
    for prompt, group in zip(asked, engine.generate(asked, 2, Sampling(temperature, 24), [1, 2, 3]), strict=True):
        for answer in group:
            np.testing.assert_allclose(
                answer.logprobs, full_logprobs(policy, prompt, answer.token_ids, temperature), atol=1e-4
            )


def test_an_answer_ends_with_its_first_end_token_or_at_the_limit(engine: JaxEngine, policy: Policy) -> None:
    long = flat(engine.generate(prompts(6), 8, Sampling(1.5, 40), range(6)))
    assert {answer.token_ids[-1] for answer in long if answer.finish_reason == "stop"} == set(policy.end_ids)
    for answer in long:
        assert len(answer.token_ids) == len(answer.logprobs)
        assert not set(answer.token_ids[:-1]) & set(policy.end_ids)
        if answer.finish_reason == "length":
            assert len(answer.token_ids) == 40
            assert answer.token_ids[-1] not in policy.end_ids
    assert {answer.finish_reason for answer in long} == {"stop", "length"}
    # a limit that falls on an end token: that answer still stopped
    limit = next(len(answer.token_ids) for answer in long if answer.finish_reason == "stop")
    short = flat(engine.generate(prompts(6), 8, Sampling(1.5, limit), range(6)))
    for before, after in zip(long, short, strict=True):
        assert after.token_ids == before.token_ids[:limit]
        assert (after.finish_reason == "stop") == (before.finish_reason == "stop" and len(before.token_ids) <= limit)


def test_a_completion_does_not_depend_on_neighbours_order_or_batch(engine: JaxEngine) -> None:
    asked, seeds = prompts(9, seed=2, low=40, high=64), [11 * i for i in range(9)]
    sampling = Sampling(1.2, 24)
    together = engine.generate(asked, 4, sampling, seeds)
    order = [4, 0, 8, 2, 6, 1, 7, 3, 5]
    shuffled = engine.generate([asked[i] for i in order], 4, sampling, [seeds[i] for i in order])
    assert [shuffled[order.index(i)] for i in range(9)] == together  # ids and log-probs, bit for bit
    assert engine.generate([asked[3]], 4, sampling, [seeds[3]]) == [together[3]]


def test_other_lane_counts_give_the_same_tokens(policy: Policy) -> None:
    asked, sampling = prompts(5, seed=3, low=40, high=64), Sampling(1.0, 32)
    ends = range(0, 134, 9)  # one token in nine ends an answer: lengths differ, lanes free up one by one
    answers = []
    for rows, compact in ((3, False), (32, True)):
        engine = JaxEngine(policy, batch_rows=rows, max_prompt_tokens=96, compact=compact, end_ids=ends)
        answers.append(flat(engine.generate(asked, 5, sampling, range(5))))
        assert any(name[0] == "take" for name in engine.programs.shapes()) == compact
    assert len({len(answer.token_ids) for answer in answers[0]}) > 8
    for a, b in zip(*answers, strict=True):
        assert a.token_ids == b.token_ids
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)


def test_seeds_and_samples_give_different_answers_and_the_same_seed_the_same(engine: JaxEngine) -> None:
    prompt = prompts(1, seed=4, low=40, high=50)[0]
    first, second, third = engine.generate([prompt] * 3, 4, Sampling(1.5, 24), [7, 8, 7])
    assert first == third
    assert len({answer.token_ids for answer in first + second}) == 8


@pytest.mark.parametrize("shape", [{"fsdp": 8}, {"data": 2, "fsdp": 2, "tensor": 2}])
def test_any_mesh_gives_the_same_tokens(folder: Path, engine: JaxEngine, shape: dict[str, int]) -> None:
    asked = prompts(6, seed=6, low=40, high=64)
    eight = JaxEngine(load(folder, make_mesh(**shape)), batch_rows=8, max_prompt_tokens=96, compact=False)
    for sampling in (Sampling(0.0, 24), Sampling(1.0, 24)):
        for a, b in zip(
            flat(engine.generate(asked, 2, sampling, range(6))),
            flat(eight.generate(asked, 2, sampling, range(6))),
            strict=True,
        ):
            assert a.token_ids == b.token_ids
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-4)


def test_compilations_are_one_per_shape(policy: Policy) -> None:
    engine = JaxEngine(policy, batch_rows=4, max_prompt_tokens=96, compact=False)
    engine.generate(prompts(3, low=40, high=64), 4, Sampling(1.0, 30), range(3))
    # weights, empty lanes, prefill, fill, decode
    assert engine.compilations == 5
    assert engine.compile_seconds > 0
    for seed in range(6):
        engine.generate(prompts(1 + seed, seed=seed, low=48, high=64), 4, Sampling(0.7 + seed, 28), [seed] * (1 + seed))
    assert engine.compilations == 5
    # prompts of a second bucket: one more prefill and filling, and a larger cache that is filled from both
    engine.generate(prompts(8, low=40, high=90), 4, Sampling(1.0, 30), range(8))
    assert [name[:-1] for name in engine.programs.shapes()[5:]] == [
        ("empty", 4),
        ("fill", 4, 128, 1),
        ("decode", 4, 128),
        ("prefill", 1),
        ("fill", 4, 128, 1),
    ]


def test_progress_ends_at_the_total(engine: JaxEngine) -> None:
    seen: list[tuple[int, int]] = []
    engine.generate(prompts(5), 3, Sampling(1.0, 24), range(5), lambda done, total: seen.append((done, total)))
    assert seen[-1] == (15, 15)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len(seen) > 2


def test_no_prompts_give_no_completions(engine: JaxEngine) -> None:
    assert engine.generate([], 3, Sampling(), []) == []


def test_refresh_samples_from_the_new_weights_and_donated_ones_are_named(policy: Policy) -> None:
    asked, greedily = prompts(2, seed=8, low=40, high=64), Sampling(0.0, 24)
    start = policy.with_params(jax.tree.map(jnp.copy, policy.params))
    engine = JaxEngine(start, batch_rows=4, max_prompt_tokens=96)
    before = engine.generate(asked, 1, greedily, [0, 0])
    update = jax.jit(lambda params: jax.tree.map(lambda leaf: leaf * jnp.float32(1.25), params), donate_argnums=0)
    moved = start.with_params(update(start.params))
    with pytest.raises(RuntimeError, match=r"version 0 were donated.*refresh"):
        engine.generate(asked, 1, greedily, [0, 0])
    compiled = engine.compilations
    engine.refresh(moved, 3)
    after = engine.generate(asked, 1, greedily, [0, 0])
    assert engine.compilations == compiled
    fresh = JaxEngine(moved, batch_rows=4, max_prompt_tokens=96, version=3)
    assert after == fresh.generate(asked, 1, greedily, [0, 0])
    assert [a.token_ids for a in flat(after)] != [a.token_ids for a in flat(before)]
    assert {a.weights_version for a in flat(before)} == {0}
    assert {a.weights_version for a in flat(after)} == {3}


def test_refresh_refuses_other_weights(policy: Policy) -> None:
    engine = JaxEngine(policy, batch_rows=4, max_prompt_tokens=16)
    leaves = dict(nnx.to_flat_state(policy.params))
    path = ("layers", "q_dnh")
    assert path in leaves

    def with_leaf(value: jax.Array | None) -> Policy:
        changed = {p: (leaf.replace(value) if p == path and value is not None else leaf) for p, leaf in leaves.items()}
        if value is None:
            del changed[path]
        return policy.with_params(nnx.from_flat_state(changed))

    whole = leaves[path][...]
    for value, message in (
        (None, r"layers/q_dnh is missing"),
        (whole[:, :-1], r"layers/q_dnh has shape \(2, 31, 4, 16\).*not \(2, 32, 4, 16\)"),
        (whole.astype(jnp.bfloat16), r"layers/q_dnh has dtype bfloat16"),
    ):
        with pytest.raises(EngineError, match=message):
            engine.refresh(with_leaf(value), 1)
    assert engine.weights_version == 0


def test_broken_weights_are_reported(policy: Policy) -> None:
    broken = policy.with_params(jax.tree.map(lambda leaf: leaf * jnp.float32(jnp.nan), policy.params))
    engine = JaxEngine(broken, batch_rows=4, max_prompt_tokens=16)
    with pytest.raises(RuntimeError, match="prompt 0 is not finite"):
        engine.generate([[5, 6]], 1, Sampling(1.0, 4), [0])


def test_a_closed_engine_says_so(policy: Policy) -> None:
    engine = JaxEngine(policy, batch_rows=4, max_prompt_tokens=16)
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.generate([[5]], 1, Sampling(), [0])


@pytest.mark.parametrize(
    ("asked", "n", "sampling", "seeds", "message"),
    [
        ([[1], [4] * 17], 1, Sampling(), [0, 0], "prompt 1 has 17 tokens; max_prompt_tokens is 16"),
        ([[1], []], 1, Sampling(), [0, 0], "prompt 1 is empty"),
        ([[1, 134]], 1, Sampling(), [0], "prompt 0 holds the token id 134; the vocabulary of 134 goes from 0 to 133"),
        ([[1, -1]], 1, Sampling(), [0], "prompt 0 holds the token id -1"),
        ([[1]], 0, Sampling(), [0], "n=0"),
        ([[1]], 1, Sampling(-0.5), [0], "temperature=-0.5"),
        ([[1]], 1, Sampling(float("nan")), [0], "temperature=nan"),
        ([[1]], 1, Sampling(1.0, 0), [0], "max_new_tokens=0"),
        ([[1], [2]], 1, Sampling(), [0], "2 prompts came with 1 seeds"),
        ([[1]], 1, Sampling(), [2**64], "seed 0 is 18446744073709551616"),
        ([[1, 2]], 1, Sampling(1.0, 511), [0], "512 positions; max_new_tokens may be at most 510"),
    ],
)
def test_requests_that_cannot_be_answered(
    policy: Policy, asked: list[list[int]], n: int, sampling: Sampling, seeds: list[int], message: str
) -> None:
    engine = JaxEngine(policy, batch_rows=4, max_prompt_tokens=16)
    with pytest.raises(RequestError) as caught:
        engine.generate(asked, n, sampling, seeds)
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_rows_that_do_not_divide_name_the_nearest(folder: Path) -> None:
    policy = load(folder, make_mesh(fsdp=8))
    with pytest.raises(EngineError, match=r"batch_rows=12 must be a multiple .* = 8; the nearest .* are 8 or 16"):
        JaxEngine(policy, batch_rows=12, max_prompt_tokens=16)


def test_bfloat16_compute_stays_near_float32(folder: Path, policy: Policy) -> None:
    half = load(folder, make_mesh(), compute_dtype="bfloat16")
    prompt = prompts(1, seed=9, low=20, high=30)[0]
    answer = JaxEngine(half, batch_rows=4, max_prompt_tokens=64).generate([prompt], 1, Sampling(1.0, 16), [0])[0][0]
    gap = np.abs(np.asarray(answer.logprobs) - full_logprobs(policy, prompt, answer.token_ids, 1.0))
    assert 1e-5 < gap.max() < 0.5


@pytest.mark.parametrize(
    ("length", "steps", "expected"),
    [(1, 2, 64), (64, 2, 64), (65, 2, 96), (96, 2, 96), (97, 2, 128), (129, 4, 160), (160, 4, 160), (5120, 4, 5120)],
)
def test_buckets(length: int, steps: int, expected: int) -> None:
    assert bucket(length, steps) == expected


def test_a_step_writes_the_cache_in_place(policy: Policy) -> None:
    engine = JaxEngine(policy, batch_rows=8, max_prompt_tokens=96, end_ids=())
    engine.generate([[5] * 40] * 8, 1, Sampling(1.0, 440), range(8))
    # a copy of one layer's keys, float32 [8, 2, 512, 16], would alone take 524,288 bytes
    assert engine.programs.temporary_bytes(("decode", 8, 512, False)) < 400_000
