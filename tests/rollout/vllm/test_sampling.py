"""What vLLM samples for us: n answers a prompt, from the policy's own distribution and no default of the checkpoint."""

import numpy as np
import pytest

from erpo_jax.rollout import RequestError, Sampling
from tests.rollout.vllm.conftest import random_prompts, trainer_distributions, trainer_logprobs


@pytest.fixture(scope="module")
def answers(tied_engine):
    prompts = random_prompts([5, 40, 129, 300])
    return prompts, tied_engine.generate(prompts, 16, Sampling(0.8, 48), [0, 100, 200, 300])


def test_log_probs_are_the_trainers_on_a_thousand_tokens(answers, tied):
    """Of logits / temperature, in float32, also in the second block of the cache."""
    prompts, groups = answers
    gaps = np.concatenate(
        [
            np.abs(trainer_logprobs(tied, prompt, answer.token_ids, 0.8) - np.asarray(answer.logprobs))
            for prompt, group in zip(prompts, groups, strict=True)
            for answer in group
        ]
    )
    assert len(gaps) >= 1000
    assert gaps.max() < 1e-4


def test_tokens_are_drawn_from_the_trainers_distribution(answers, tied):
    """A token's place in the cumulative distribution, even within the token, is uniform: with any other temperature,
    top-k or top-p it is not. Chi-square of ten bins, at one in a thousand."""
    prompts, groups = answers
    rng = np.random.default_rng(0)
    places = []
    for prompt, group in zip(prompts, groups, strict=True):
        for answer in group:
            probs_tv = np.exp(trainer_distributions(tied, prompt, answer.token_ids, 0.8))
            for probs_v, token in zip(probs_tv, answer.token_ids, strict=True):
                likelier = probs_v[probs_v > probs_v[token]].sum()
                places.append(likelier + rng.random() * probs_v[token])
    counts, _ = np.histogram(places, 10, (0.0, 1.0))
    assert ((counts - len(places) / 10) ** 2 / (len(places) / 10)).sum() < 27.9


def test_sixteen_answers_a_prompt_differ_though_the_checkpoints_defaults_would_make_them_equal(answers):
    """generation_config.json says top_k 1 and temperature 0.1."""
    for group in answers[1]:
        assert len(group) == 16
        assert len({answer.token_ids for answer in group}) > 12


def test_every_end_of_the_checkpoint_ends_an_answer_and_is_part_of_it(answers):
    """CASES U12."""
    everything = [answer for group in answers[1] for answer in group]
    ends = {answer.token_ids[-1] for answer in everything if answer.finish_reason == "stop"}
    assert ends == {3, 11}
    for answer in everything:
        assert not {3, 11} & set(answer.token_ids[:-1])
        assert (len(answer.token_ids) == 48) or answer.finish_reason == "stop"
    assert any(answer.finish_reason == "length" for answer in everything)


def test_sample_j_is_drawn_under_seed_plus_j(tied_engine):
    prompts = random_prompts([20])
    (group,) = tied_engine.generate(prompts, 4, Sampling(1.0, 12), [50])
    for j in range(4):
        ((alone,),) = tied_engine.generate(prompts, 1, Sampling(1.0, 12), [50 + j])
        assert alone.token_ids == group[j].token_ids


def test_progress_counts_to_the_total_and_may_end_the_call(tied_engine):
    seen = []
    tied_engine.generate(random_prompts([6, 7]), 3, Sampling(1.0, 8), [0, 10], lambda *done: seen.append(done))
    assert seen[-1] == (6, 6)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tied_engine.generate(random_prompts([6, 7]), 3, Sampling(1.0, 8), [0, 10], stop)
    (again,) = tied_engine.generate(random_prompts([6]), 2, Sampling(1.0, 8), [0])
    assert all(answer.token_ids for answer in again)


def test_what_cannot_be_answered_is_refused_with_its_index(tied_engine):
    with pytest.raises(RequestError, match=r"prompt 1 holds the token id 160"):
        tied_engine.generate([[5], [160]], 1, Sampling(1.0, 8), [0, 1])
    with pytest.raises(RequestError, match=r"prompt 0 has 321 tokens; max_prompt_tokens is 320"):
        tied_engine.generate([[5] * 321], 1, Sampling(1.0, 8), [0])
