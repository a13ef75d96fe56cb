"""Every mask kind, denominator and sign, and the paper's baselines, against the plain reference."""

import jax
import numpy as np
import pytest

from erpo_jax.config import LossConfig, MaskConfig
from erpo_jax.update.objective import candidate_factors
from erpo_jax.update.reference import plan, reference_gradient

KINDS = MaskConfig.__dataclass_fields__["kind"].metadata["choices"]
REWARDS = [[1.0, 1.0, 1.0, 0.25], [0.5] * 4, [0.0, 0.25, 0.5, 0.75], [0.75, 0.0, 0.25, 0.25]]


def check(tiny, candidates, distance, mask, loss):
    policy = tiny.bigram()
    wanted, parts = reference_gradient(policy, policy.params, candidates, mask=mask, loss=loss, temperature=1.0)
    found, metrics, _ = tiny.run(candidates, mask=mask, loss=loss)
    assert distance(found, wanted) < 1e-5
    assert metrics["loss"] == pytest.approx(float(parts["loss"]), rel=1e-5, abs=1e-7)
    return metrics


@pytest.mark.parametrize("sign", ["keep", "negative"])
@pytest.mark.parametrize("kind", KINDS)
def test_factors_of_every_combination(sample, kind, sign):
    mask = MaskConfig(kind=kind, sign=sign)
    losses = [
        LossConfig(denominator=denominator, advantage=advantage)
        for denominator in ("all_tokens", "kept_tokens", "sequences")
        for advantage in ("group", "minus_one")
    ]
    weigh = jax.jit(lambda *arrays: [candidate_factors(*arrays, mask, loss) for loss in losses])
    for seed in range(10):
        candidates = sample(seed, [[float("nan")] * 4, *REWARDS[:3]] if seed == 9 else None)
        reward_bg, length_c = np.zeros((4, 4), np.float32), np.zeros(16, np.int32)
        for c in candidates:
            if c.present:
                reward_bg[c.group, c.index], length_c[4 * c.group + c.index] = c.reward, len(c.completion_ids)
        found = weigh(reward_bg, (length_c > 0).reshape(4, 4), length_c)
        for factors, loss in zip(found, losses, strict=True):
            made = plan(candidates, mask, loss)
            here = [4 * c.group + c.index for c in made.candidates]
            for values_c, wanted in zip(factors, (made.advantages, made.weights, made.scales), strict=True):
                np.testing.assert_allclose(np.asarray(values_c)[here], wanted, rtol=1e-5, atol=1e-7, err_msg=repr(loss))
                assert not np.delete(np.asarray(values_c), here).any()


@pytest.mark.parametrize(
    ("kind", "sign", "denominator"),
    [
        ("rank", "negative", "kept_tokens"),
        ("none", "keep", "sequences"),
        ("below", "negative", "all_tokens"),
        ("soft", "keep", "kept_tokens"),
        ("calibrated", "keep", "all_tokens"),
    ],
)
def test_gradient_of_some(tiny, sample, distance, kind, sign, denominator):
    loss = LossConfig(denominator=denominator, entropy_coefficient=0.0)
    check(tiny, sample(20, REWARDS), distance, MaskConfig(kind=kind, sign=sign), loss)


@pytest.mark.parametrize(
    ("mask", "loss"),
    [
        (MaskConfig(kind="below"), LossConfig(advantage="minus_one", entropy_coefficient=0.0)),  # NSR_PCR
        (MaskConfig(percent=25), LossConfig()),
    ],
)
def test_baselines(tiny, sample, distance, mask, loss):
    metrics = check(tiny, sample(21, REWARDS), distance, mask, loss)
    if loss.advantage == "minus_one":
        assert metrics["kept_positive_share"] == 0
        assert metrics["kept_fraction"] > 0.25
