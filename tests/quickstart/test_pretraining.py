"""Tokenizer, packing and the pretraining step."""

import itertools
from random import Random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from transformers import AutoTokenizer

from erpo_jax.policy import Decoder, init, load, make_mesh
from erpo_jax.problems import Prompts, extract_program, load_problems
from erpo_jax.quickstart import CorpusSize, Recipe, Schedule, make, write
from erpo_jax.quickstart.corpus import (
    Pair,
    batches,
    corpus_tasks,
    make_pairs,
    program_answer,
    prompt_config,
    tokenizer_texts,
)
from erpo_jax.quickstart.pretrain import answer_nll, loss_and_gradient, sharpen, spec, train
from erpo_jax.quickstart.tokenizer import END, save_tokenizer, train_tokenizer

SIZE = CorpusSize(problems=60, programs=6, inputs=1)


@pytest.fixture(scope="module")
def corpus():
    return corpus_tasks(SIZE, seed=0)


@pytest.fixture(scope="module")
def tokenizer(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(train_tokenizer(tokenizer_texts(corpus, 0)), folder)
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


@pytest.fixture(scope="module")
def pairs(corpus, tokenizer):
    return make_pairs(corpus, SIZE, tokenizer, 0)


def test_every_program_survives_the_tokenizer(corpus, tokenizer):
    rng = Random(0)
    prompts = Prompts(prompt_config(), tokenizer)
    for task in corpus:
        program = write(task, rng).text
        ids = tokenizer(program_answer(program) + END, add_special_tokens=False)["input_ids"]
        assert ids[-1] == tokenizer.eos_token_id == 0
        assert prompts.text(ids) == program_answer(program)
        assert extract_program(prompts.text(ids)) == program


def test_any_text_can_be_encoded(tokenizer):
    text = "naïve \N{SNOWMAN}\ttab\r\n  1234"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer("1234")["input_ids"]) == 4


def test_pairs_are_requests_of_the_prompt_module_and_answers(corpus, tokenizer, pairs):
    assert len(pairs) == 60 * (6 + 1)
    prompts = Prompts(prompt_config(), tokenizer)
    request = tokenizer.decode(pairs[0].prompt)
    assert request == f"<|user|>{corpus[0].statement()}<|end|><|assistant|>"
    assert (
        tokenizer.decode(pairs[6].prompt)
        == f"<|user|>{corpus[0].statement()} Write one more input.<|end|><|assistant|>"
    )
    assert prompts.text(pairs[0].answer).startswith("```python\n")
    assert prompts.text(pairs[6].answer).startswith("```\n")


def test_packing_by_hand():
    given = [Pair((5, 6), (7, 0)), Pair((8,), (9, 0)), Pair((5,), (0,))]
    rows = next(batches(given, rows=1, row_tokens=10, seed=0))
    assert rows.tokens_rs.tolist() == [[5, 6, 7, 0, 8, 9, 0, 5, 0, 0]]
    assert rows.positions_rs.tolist() == [[0, 1, 2, 3, 0, 1, 2, 0, 1, 0]]
    assert rows.segments_rs.tolist() == [[1, 1, 1, 1, 2, 2, 2, 3, 3, 0]]
    assert rows.answer_rs.tolist() == [[0, 0, 1, 1, 0, 1, 1, 0, 1, 0]]
    with pytest.raises(ValueError, match="longest pair has 4 tokens, a row holds 3"):
        next(batches(given, rows=1, row_tokens=3, seed=0))


def test_a_pass_holds_every_pair_once_and_passes_are_seeded(pairs):
    def first(seed):
        stream = batches(pairs, rows=2, row_tokens=128, seed=seed)
        return np.concatenate([rows.tokens_rs for rows in itertools.islice(stream, 10)])

    assert np.array_equal(first(1), first(1))
    assert not np.array_equal(first(1), first(2))
    small = [Pair((index,), (0,)) for index in range(5, 25)]
    rows = next(batches(small, rows=10, row_tokens=4, seed=0))
    assert sorted(rows.tokens_rs[rows.positions_rs == 0].tolist()) == list(range(5, 25))


@pytest.fixture(scope="module")
def model():
    return nnx.split(Decoder(spec(), rngs=nnx.Rngs(0), remat=False))


def test_micro_batches_do_not_change_loss_or_gradient(model, pairs):
    graphdef, params = model
    rows = next(batches(pairs, rows=4, row_tokens=128, seed=0))
    whole, gradient = loss_and_gradient(graphdef, params, rows, 4)
    split, other = loss_and_gradient(graphdef, params, rows, 1)
    expected = answer_nll(nnx.merge(graphdef, params), rows) / jnp.float32(rows.answer_rs.sum())
    assert float(whole) == pytest.approx(float(expected), rel=1e-5)
    assert float(split) == pytest.approx(float(whole), rel=1e-5)
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(other), strict=True):
        assert float(jnp.linalg.norm(a - b)) <= 1e-4 * float(jnp.linalg.norm(a)) + 1e-7


def test_a_fresh_policy_knows_nothing_and_twenty_steps_teach_it(pairs, tmp_path):
    policy = init(spec(), make_mesh(), 0, tmp_path, remat=False)
    seen = []
    schedule = Schedule(steps=20, rows=4, row_tokens=128)
    train(policy.graphdef, policy.params, batches(pairs, 4, 128, 0), schedule, lambda at: seen.append(at.loss), every=5)
    assert seen[0] > 3
    assert seen[-1] < 0.7 * seen[0]


def test_sharpening_divides_the_logits(model):
    graphdef, params = model
    tokens_rs = jnp.arange(8, dtype=jnp.int32)[None]
    ones_rs = jnp.ones((1, 8), jnp.int32)

    def logits(state):
        decoder = nnx.merge(graphdef, state)
        return decoder.logits(decoder(tokens_rs, tokens_rs, ones_rs))

    np.testing.assert_allclose(logits(sharpen(params, 0.5)), 2 * logits(params), rtol=1e-5, atol=1e-5)


def test_the_maker_makes_a_folder_that_loads(tmp_path):
    lines = []
    recipe = Recipe(size=SIZE, schedule=Schedule(steps=2, rows=4), held_out=3)
    folder = make(tmp_path / "out", recipe, say=lines.append)
    policy = load(folder, make_mesh())
    assert policy.spec == spec()
    assert policy.end_ids == (0,)
    assert len(load_problems(folder / "problems" / "problems.jsonl")) == 3
    assert any(line.startswith("step 2/2") for line in lines)
    with pytest.raises(ValueError, match="exists"):
        make(tmp_path / "out", recipe)
