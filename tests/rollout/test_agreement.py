"""An engine's greedy answers against the trainer's own forward: agreement, and each fault it is there to find."""

import jax
import numpy as np
import pytest

from erpo_jax.rollout import Completion, EngineDisagrees, JaxEngine, check_agreement, check_prompts

PROMPTS = check_prompts([[5, 6, 7], [8, 9] * 20, [11]], longest=400)


@pytest.fixture(scope="module")
def roomy(policy):
    return JaxEngine(policy, batch_rows=4, max_prompt_tokens=400)


class Faulty:
    """The engine with one fault put into its answers."""

    embedded, weights_version = False, 3

    def __init__(self, engine, fault):
        self._engine, self._fault = engine, fault

    def generate(self, *given):
        return [[self._fault(completion)] for (completion,) in self._engine.generate(*given)]


def test_the_prompts_hold_one_longer_than_any_block_of_a_cache():
    assert [len(prompt) for prompt in PROMPTS] == [3, 40, 1, 300]
    assert [len(prompt) for prompt in check_prompts([[5, 6, 7]], longest=64)] == [3, 64]


def test_the_embedded_engine_agrees(roomy, policy):
    found = check_agreement(roomy, policy, PROMPTS, new_tokens=8)
    assert 8 < found.tokens <= 32
    assert found.gap_mean <= found.gap_max < 1e-5


def test_other_weights_are_found(roomy, policy):
    changed = policy.with_params(jax.tree.map(lambda leaf: leaf * np.float32(1.05), policy.params))
    with pytest.raises(
        EngineDisagrees, match=r"not sample from the trainer's weights of version 0: after prompt 0 .*id "
    ):
        check_agreement(roomy, changed, PROMPTS, new_tokens=8)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            lambda c: Completion(c.token_ids, tuple(x - 0.01 for x in c.logprobs), c.finish_reason, 3),
            "token 0, it chose",
        ),
        (lambda c: Completion((), (), "lost", 3), r"did not answer prompt 0 .*\(3 tokens\)"),
        (lambda c: Completion(c.token_ids, (*c.logprobs[:-1], float("nan")), c.finish_reason, 3), "log-prob nan"),
    ],
    ids=["another temperature or head", "no answer", "not a number"],
)
def test_faults_in_the_answers_are_found(roomy, policy, fault, said):
    with pytest.raises(EngineDisagrees, match=said):
        check_agreement(Faulty(roomy, fault), policy, PROMPTS, new_tokens=8)


def test_a_second_best_token_is_found_though_its_log_prob_is_right(roomy, policy):
    """A sampler that is not greedy where it should be."""

    sampled = Faulty(roomy, None)
    sampled.generate = lambda prompts, n, sampling, seeds: roomy.generate(prompts, n, type(sampling)(1.0, 8), seeds)
    with pytest.raises(EngineDisagrees, match="its own choice"):
        check_agreement(sampled, policy, PROMPTS, new_tokens=8)
