"""Where every token goes, which shapes there are, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE

from erpo_jax.config import LossConfig, MaskConfig, load
from erpo_jax.update import BatchError, BatchShape, Candidate, batch_shape, pack, unpack

MASK, LOSS = MaskConfig(), LossConfig()


def candidate(group, index, prompt, completion, reward=0.0, **more):
    return Candidate(prompt, completion, [-0.5] * len(completion), group, index, reward, **more)


def test_layout_by_hand():
    candidates = [
        candidate(0, 0, [1, 2], [3, 4, 5], reward=1.0),
        candidate(0, 1, [1, 2], [6], reward=0.0),
        candidate(1, 0, [7], [8, 9], reward=0.0),
        candidate(1, 1, [7], [10, 11], reward=1.0),
    ]
    batch = pack(candidates, BatchShape(2, 2, 1, (8,)), MASK, LOSS)
    # the lower half of each group comes first; then the rest
    assert batch.tokens_rs[:2].tolist() == [[1, 2, 6, 7, 8, 9, 0, 0], [1, 2, 3, 4, 5, 7, 10, 11]]
    assert batch.positions_rs[0].tolist() == [0, 1, 2, 0, 1, 2, 0, 0]
    assert batch.segments_rs[0].tolist() == [1, 1, 1, 2, 2, 2, 0, 0]
    assert batch.candidate_rs[:2].tolist() == [[-1, -1, 1, -1, 2, 2, -1, -1], [-1, -1, 0, 0, 0, -1, 3, 3]]
    assert batch.sources_rs[:2].tolist() == [[0, 0, 1, 0, 3, 4, 0, 0], [0, 0, 1, 2, 3, 0, 5, 6]]
    assert batch.rollout_logprobs_rs[0].tolist() == [0, 0, -0.5, 0, -0.5, -0.5, 0, 0]
    assert (batch.kept_micro_batches, batch.micro_batches) == (1, 2)
    assert batch.tokens_rs.shape == (5, 8)
    assert not batch.tokens_rs[2:].any()
    assert batch.old_logprobs_rs is None
    assert {c: v.tolist() for c, v in unpack(batch, batch.tokens_rs).items()} == {
        0: [3, 4, 5],
        1: [6],
        2: [8, 9],
        3: [10, 11],
    }


def test_answers_share_their_prompt():
    candidates = [candidate(0, g, [1, 2, 3], completion) for g, completion in enumerate(([4, 5], [6, 7, 8], [9]))]
    batch = pack(candidates, BatchShape(1, 3, 1, (16,)), MASK, LOSS)
    # all tied, one part; the longest answer first; each goes on from position 3 and from slot 2
    assert batch.tokens_rs[0, :10].tolist() == [1, 2, 3, 6, 7, 8, 4, 5, 9, 0]
    assert batch.positions_rs[0, :9].tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 3]
    assert batch.segments_rs[0, :10].tolist() == [1] * 9 + [0]
    assert batch.candidate_rs[0, :10].tolist() == [-1, -1, -1, 1, 1, 1, 0, 0, 2, -1]
    assert batch.sources_rs[0, :10].tolist() == [0, 0, 0, 2, 3, 4, 2, 6, 2, 0]


def test_a_row_that_has_the_prompt_comes_before_an_earlier_one_with_room():
    # all tied: (0, 0) leaves 4 slots, (1, 0) opens a row of its own, and (1, 1) would fit into either
    made = [candidate(0, 0, [1], [2] * 3), candidate(1, 0, [5, 6], [7] * 3), candidate(1, 1, [5, 6], [8] * 2)]
    batch = pack(made, BatchShape(2, 2, 1, (8,)), MASK, LOSS)
    assert np.unique(batch.candidate_rs[0]).tolist() == [-1, 0]
    assert np.unique(batch.candidate_rs[1]).tolist() == [-1, 2, 3]


def test_parts_are_whole_micro_batches(sample):
    batch = pack(sample(40), BatchShape(4, 4, 4, (18,)), MASK, LOSS)
    middle, end = 4 * batch.kept_micro_batches, 4 * batch.micro_batches
    parts = (batch.candidate_rs[:middle], batch.candidate_rs[middle:])
    kept, others = (set(part[part >= 0].tolist()) for part in parts)
    # groups of 4, 4, 4 and 2
    assert len(kept) == len(others) == 7
    assert not kept & others
    assert not batch.segments_rs[end:].any()


def test_every_token_is_there_once(sample):
    candidates = sample(41)
    batch = pack(candidates, BatchShape(4, 4, 2, (24, 48)), MASK, LOSS)
    found = unpack(batch, batch.tokens_rs)
    assert {c: v.tolist() for c, v in found.items()} == {
        4 * c.group + c.index: c.completion_ids for c in candidates if c.present
    }
    gaps = unpack(batch, batch.rollout_logprobs_rs)
    for c in candidates:
        if c.present:
            np.testing.assert_allclose(gaps[4 * c.group + c.index], c.rollout_logprobs, rtol=1e-6)


def test_absent_candidates_have_no_tokens():
    absent = candidate(0, 1, [], [], reward=float("nan"), present=False)
    batch = pack([candidate(0, 0, [1], [2], reward=0.5), absent], BatchShape(1, 3, 1, (8,)), MASK, LOSS)
    assert batch.present_bg.tolist() == [[True, False, False]]
    assert batch.reward_bg.tolist() == [[0.5, 0.0, 0.0]]
    assert np.unique(batch.candidate_rs).tolist() == [-1, 0]
    empty = pack([absent], BatchShape(1, 3, 1, (8,)), MASK, LOSS)
    assert (empty.kept_micro_batches, empty.micro_batches, empty.tokens_rs.any()) == (0, 0, False)


def test_groups_without_signal_are_not_kept():
    candidates = [candidate(b, g, [1], [2], reward=[0.3, g / 2][b]) for b in range(2) for g in range(2)]
    batch = pack(candidates, BatchShape(2, 2, 1, (4,)), MASK, LOSS)
    assert batch.kept_micro_batches == 1
    assert np.unique(batch.candidate_rs[0]).tolist() == [-1, 2]


def test_row_length_with_the_fewest_slots():
    shape = BatchShape(1, 4, 1, (8, 16, 32))
    # all tied; prompts differ: four candidates of 8 fill four rows of 8; three of 10 need less room in a row of 32
    assert pack([candidate(0, g, [g] * 4, [2] * 4) for g in range(4)], shape, MASK, LOSS).tokens_rs.shape[1] == 8
    assert pack([candidate(0, g, [g] * 5, [2] * 5) for g in range(3)], shape, MASK, LOSS).tokens_rs.shape[1] == 32
    assert pack([candidate(0, 0, [1] * 5, [2] * 5)], shape, MASK, LOSS).tokens_rs.shape[1] == 16
    # one prompt: 4 + 3 * 4 slots in one row of 16, where rows of 8 would be three
    assert pack([candidate(0, g, [1] * 4, [2] * 4) for g in range(3)], shape, MASK, LOSS).tokens_rs.shape[1] == 16


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([candidate(2, 0, [1], [2])], "outside 2 groups of 2"),
        ([candidate(0, 0, [1], [2]), candidate(0, 0, [1], [2])], "there twice"),
        ([candidate(0, 0, [1], [])], "no completion"),
        ([candidate(0, 0, [], [2])], "no prompt"),
        ([replace(candidate(0, 0, [1], [2, 3]), rollout_logprobs=[0.0])], "1 rollout_logprobs for 2 completion tokens"),
        ([candidate(0, 0, [1] * 5, [2] * 4)], "9 tokens, a row holds 8; set update.row_tokens to at least 9"),
    ],
)
def test_refused(bad, message):
    with pytest.raises(BatchError, match=message):
        pack(bad, BatchShape(2, 2, 1, (8,)), MASK, LOSS)


def test_old_logprobs_are_required_when_asked_for():
    with pytest.raises(BatchError, match="no old_logprobs"):
        pack([candidate(0, 0, [1], [2])], BatchShape(1, 1, 1, (8,), old_logprobs=True), MASK, LOSS)
    given = candidate(0, 0, [1], [2], old_logprobs=[-0.25])
    assert pack([given], BatchShape(1, 1, 1, (8,), old_logprobs=True), MASK, LOSS).old_logprobs_rs[0, 1] == -0.25


def test_shapes_of_a_configuration():
    shape = batch_shape(load([]))
    # 1024 + 4096 tokens, down to a quarter of it by eighths; 16 problems of 16, 8 rows a micro-batch
    assert shape.row_tokens == (1280, 1920, 2560, 3200, 3840, 4480, 5120)
    assert (shape.groups, shape.group_size, shape.rows, shape.old_logprobs) == (16, 16, 264, False)
    split = batch_shape(load([], ["update.minibatches=4", "rollout.max_prompt_tokens=96", "rollout.max_new_tokens=96"]))
    assert (split.groups, split.row_tokens, split.old_logprobs) == (4, (64, 128, 192), True)


def test_u12_the_end_token_is_in_the_loss():
    # answers ended by either end id of Qwen3, and a cut one: masks come from lengths, every sampled id counts
    endings = [[5, 151645], [5, 151643], [5, 6]]
    made = [candidate(0, g, [1], ids) for g, ids in enumerate(endings)]
    batch = pack(made, BatchShape(1, 3, 1, (16,)), MASK, LOSS)
    assert {c: v.tolist() for c, v in unpack(batch, batch.tokens_rs).items()} == dict(enumerate(endings))


def test_u13_ids_are_scored_as_sampled():
    merges = [("p", "r"), ("pr", "i")]
    tokenizer = Tokenizer(BPE({token: i for i, token in enumerate(["?", "p", "r", "i", "pr", "pri"])}, merges))
    sampled = [1, 2, 3]
    text = "".join(tokenizer.id_to_token(i) for i in sampled)
    assert tokenizer.encode(text).ids == [5]
    batch = pack([candidate(0, 0, [1], sampled)], BatchShape(1, 1, 1, (16,)), MASK, LOSS)
    assert batch.tokens_rs[batch.response_mask_rs].tolist() == sampled
