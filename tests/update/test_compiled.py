"""What is in the compiled step: how much memory, and the paper's parts by name."""

import re
from dataclasses import replace

import jax
import numpy as np

from erpo_jax.config import LossConfig, MaskConfig, OptimizerConfig, UpdateConfig
from erpo_jax.policy import init, make_mesh
from erpo_jax.update import BatchShape, Candidate, init_state, make_update, pack

NO_TERM = LossConfig(entropy_coefficient=0.0)


def test_u10_no_array_of_all_logits(tiny, as_shipped):
    vocabulary, slots = 151_936, 2048
    spec = replace(tiny.policy().spec, vocabulary=vocabulary, max_positions=slots)
    policy = init(spec, make_mesh(), 0, ".")
    update = UpdateConfig(micro_batch_rows=1, chunk_tokens=256)
    compiled = make_update(
        policy, loss=LossConfig(), mask=MaskConfig(), update=update, optimizer=OptimizerConfig(), temperature=1.0
    )
    ids = np.ones(slots - 1, int).tolist()
    candidates = [Candidate([1], ids, [0.0] * len(ids), 0, index, float(index)) for index in range(4)]
    batch = pack(candidates, BatchShape(1, 4, 1, (slots,)), MaskConfig(), LossConfig())
    lowered = compiled.lower(init_state(policy, OptimizerConfig()), batch)
    full_logits = 4 * slots * vocabulary * 4
    assert lowered.compile().memory_analysis().temp_size_in_bytes < 0.25 * full_logits


def test_parts_have_the_papers_names(tiny, sample):
    update = UpdateConfig(micro_batch_rows=2, chunk_tokens=16)
    compiled = tiny.update(tiny.bigram(), loss=LossConfig(), mask=MaskConfig(), update=update)
    batch = pack(sample(0), BatchShape(4, 4, 2, (24,)), MaskConfig(), LossConfig())
    text = compiled.lower(tiny.state(tiny.bigram()), batch).as_text(debug_info=True)
    for name in ("advantages", "rank_mask", "policy_loss", "entropy_ceiling", "optimizer"):
        assert f"/{name}/" in text
    assert "stablehlo.case" in text  # the entropy's gradient is computed only above the ceiling
    without = make_update(
        tiny.bigram(),
        loss=NO_TERM,
        mask=MaskConfig(),
        update=update,
        optimizer=OptimizerConfig(),
        temperature=1.0,
    )
    assert "stablehlo.case" not in without.lower(tiny.state(tiny.bigram(), OptimizerConfig()), batch).as_text()
    assert jax.tree.leaves(tiny.bigram().params)[0].is_deleted() is False


def test_numbers_of_loops_can_be_compiled_in(tiny, sample):
    update = UpdateConfig(micro_batch_rows=2, chunk_tokens=16)
    compiled = tiny.update(tiny.bigram(), loss=NO_TERM, mask=MaskConfig(), update=update)
    batch = pack(sample(0), BatchShape(4, 4, 2, (24,)), MaskConfig(), NO_TERM)
    batch = replace(batch, kept_micro_batches=3, micro_batches=5, answer_slots=17)
    text = compiled.lower(tiny.state(tiny.bigram()), batch, fixed=True).compile().as_text()
    # the loop over the kept ones and the one over the others; 3 chunks of 8 slots hold 17 tokens
    trips = re.findall(r'"known_trip_count":\{"n":"(\d+)"\}', text)
    assert {"3", "2"} <= set(trips)
    assert trips.count("3") == 3
