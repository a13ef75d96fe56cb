"""However a step is cut, ordered, packed or spread over devices, its gradient is the same (L2 per parameter)."""

from dataclasses import replace

import numpy as np
import pytest

from erpo_jax.config import LossConfig, MaskConfig
from erpo_jax.update import BatchShape, pack
from erpo_jax.update.reference import reference_gradient

# With an importance cap, a clipped ratio and H above the ceiling every part of the step is at work.
LOSS = LossConfig(importance_cap=1.1, entropy_ceiling=3.0)
SETTINGS = {
    "one micro-batch, short rows, one chunk": {"micro_batch_rows": 16, "row_tokens": (18,), "chunk_tokens": 1000},
    "micro-batches of 4 long rows, uneven chunks": {"micro_batch_rows": 4, "row_tokens": (64,), "chunk_tokens": 52},
    "micro-batches of 1 row, a slot a chunk, remat": {"micro_batch_rows": 1, "chunk_tokens": 1, "remat": True},
    "2 devices, tensor": {"mesh": (1, 1, 2)},
    "4 devices, data and fsdp": {"mesh": (2, 2, 1), "micro_batch_rows": 4},
    "8 devices, fsdp": {"mesh": (1, 8, 1), "micro_batch_rows": 8},
    "8 devices, all axes": {"mesh": (2, 2, 2), "micro_batch_rows": 4, "remat": True},
}


@pytest.fixture(scope="module")
def wanted(tiny, sample):
    policy = tiny.policy()
    return reference_gradient(
        policy, policy.params, sample(30, old=True), mask=MaskConfig(), loss=LOSS, temperature=1.0
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_u3_same_gradient(tiny, sample, distance, wanted, name):
    how = dict(SETTINGS[name])
    policy = tiny.policy(*how.pop("mesh", (1, 1, 1)), remat=how.pop("remat", False))
    found, metrics, _ = tiny.run(sample(30, old=True), policy=policy, loss=LOSS, **how)
    assert distance(found, wanted[0]) < 1e-5
    assert metrics["loss"] == pytest.approx(float(wanted[1]["loss"]), rel=1e-5)
    assert metrics["ratio_clipped_share"] > 0
    assert metrics["entropy_excess"] > 0


@pytest.mark.parametrize("order", ["as sampled", "by length", "shuffled"])
def test_u3_order_does_not_matter(tiny, sample, distance, wanted, order):
    candidates = sample(30, old=True)
    if order == "by length":
        candidates.sort(key=lambda c: len(c.completion_ids))
    elif order == "shuffled":
        np.random.default_rng(0).shuffle(candidates)
    found, _, _ = tiny.run(candidates, policy=tiny.policy(), loss=LOSS, row_tokens=(24,))
    assert distance(found, wanted[0]) < 1e-5


def test_the_same_candidates_give_the_same_batch(sample):
    candidates = sample(30)
    shape = BatchShape(4, 4, 2, (24, 48))
    one = pack(candidates, shape, MaskConfig(), LOSS)
    two = pack([replace(c) for c in reversed(candidates)], shape, MaskConfig(), LOSS)
    for name in ("tokens_rs", "positions_rs", "segments_rs", "candidate_rs", "response_mask_rs", "reward_bg"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
