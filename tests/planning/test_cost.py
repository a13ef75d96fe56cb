"""The counter of operations against XLA's own counts of unrolled programs, against hand counts, and on GPU text."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from erpo_jax.config import Config, UpdateConfig
from erpo_jax.planning import HloError, abstract_state, count
from erpo_jax.policy import ModelSpec, abstract, make_mesh
from erpo_jax.update import BatchShape, Candidate, make_step, pack

SPEC = ModelSpec(
    family="qwen3",
    vocabulary=512,
    model=128,
    feed_forward=256,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=32,
    max_positions=128,
    rope_theta=1e4,
    norm_eps=1e-6,
    tied=True,
    qk_norm=True,
    initializer_range=0.1,
)


def compile_(function, *arguments):
    return jax.jit(function).lower(*arguments).compile()


def layers(x_xd, w_ldd, unroll):
    return jax.lax.scan(lambda x_xd, w_dd: (jnp.tanh(x_xd @ w_dd) + 1.0, None), x_xd, w_ldd, unroll=unroll)[0]


def test_loops_are_multiplied_where_xla_counts_one_turn():
    x_xd, w_ldd = jnp.ones((16, 64)), jnp.ones((5, 64, 64))
    one = 2 * 16 * 64 * 64
    rolled = compile_(lambda x, w: layers(x, w, 1), x_xd, w_ldd)
    unrolled = compile_(lambda x, w: layers(x, w, 5), x_xd, w_ldd)
    assert count(rolled.as_text()).flops == count(unrolled.as_text()).flops == 5 * one
    assert unrolled.cost_analysis()["flops"] == 5 * (one + 16 * 64)  # and an addition an element
    assert rolled.cost_analysis()["flops"] < 2 * one


def test_nested_loops_are_multiplied():
    def twice(x_xd, w_ldd):
        return jax.lax.fori_loop(0, 3, lambda _, x_xd: layers(x_xd, w_ldd, 1), x_xd)

    text = compile_(twice, jnp.ones((16, 64)), jnp.ones((5, 64, 64))).as_text()
    assert count(text).flops == 3 * 5 * 2 * 16 * 64 * 64


def test_a_conditional_counts_the_branch_that_is_asked_for():
    def either(flag, x_xd, w_dd):
        return jax.lax.cond(flag, lambda x: x @ w_dd @ w_dd, lambda x: x @ w_dd, x_xd)

    text = compile_(either, True, jnp.ones((16, 64)), jnp.ones((64, 64))).as_text()
    one = 2 * 16 * 64 * 64
    assert count(text, branch=0).flops == one
    assert count(text, branch=1).flops == count(text).flops == 2 * one


def test_a_loop_of_unknown_length_must_be_named():
    def several(times, x_xd, w_dd):
        with jax.named_scope("outer"):
            return jax.lax.fori_loop(0, times, lambda _, x_xd: x_xd @ w_dd, x_xd)

    text = compile_(several, 7, jnp.ones((16, 64)), jnp.ones((64, 64))).as_text()
    with pytest.raises(HloError, match="outer"):
        count(text)
    assert count(text, trips={"outer": 7}).flops == 7 * 2 * 16 * 64 * 64


@pytest.mark.parametrize(
    ("equation", "left", "right", "flops"),
    [
        ("mk,kn->mn", (4, 8), (8, 16), 2 * 4 * 8 * 16),
        ("bmk,bnk->bmn", (3, 4, 8), (3, 16, 8), 2 * 3 * 4 * 8 * 16),
        ("rsd,dnh->rsnh", (2, 4, 8), (8, 3, 16), 2 * 2 * 4 * 8 * 3 * 16),
        ("rsnh,nhd->rsd", (2, 4, 3, 16), (3, 16, 8), 2 * 2 * 4 * 3 * 16 * 8),
    ],
)
def test_products_of_any_axes(equation, left, right, flops):
    text = compile_(lambda x, y: jnp.einsum(equation, x, y), jnp.ones(left), jnp.ones(right)).as_text()
    assert count(text).flops == flops


def test_a_convolution():
    def convolve(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    text = compile_(convolve, jnp.ones((2, 8, 8, 4)), jnp.ones((3, 3, 4, 16))).as_text()
    assert count(text).flops == 2 * (2 * 8 * 8 * 16) * (3 * 3 * 4)


def test_scopes_say_where_products_come_from():
    def named(x_xd, w_dd):
        with jax.named_scope("first"):
            x_xd = x_xd @ w_dd
        with jax.named_scope("second"):
            return jnp.sum(jnp.tanh(x_xd) @ w_dd @ w_dd)

    cost = count(compile_(jax.grad(named), jnp.ones((16, 64)), jnp.ones((64, 64))).as_text())
    one = 2 * 16 * 64 * 64
    assert cost.flops_in("first") == 2 * one  # forward, and the gradient by x
    assert cost.flops_in("fir") == 0
    assert cost.flops_in("first") + cost.flops_in("second") == cost.flops


def test_collectives_by_kind():
    mesh = make_mesh(fsdp=4)
    rows, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("fsdp",), ()))

    def program(x_xd, w_df):
        w_df = jax.lax.with_sharding_constraint(w_df, whole)  # gathered: 64 x 32 floats
        return jnp.sum(x_xd @ w_df, axis=0)  # reduced: 32 floats

    x_xd, w_df = jax.device_put(jnp.ones((16, 64)), rows), jax.device_put(jnp.ones((64, 32)), rows)
    lowered = jax.jit(program, out_shardings=whole).lower(x_xd, w_df)
    found = count(lowered.compile().as_text()).collectives
    assert set(found) == {"all-gather", "all-reduce"}
    assert (found["all-gather"].count, found["all-gather"].bytes) == (1, 64 * 32 * 4)
    assert found["all-gather"].wire_bytes == 64 * 32 * 4 * 3 / 4
    assert (found["all-reduce"].count, found["all-reduce"].bytes) == (1, 32 * 4)
    assert found["all-reduce"].wire_bytes == 2 * 32 * 4 * 3 / 4


def test_a_loop_reads_the_slice_of_a_stack_and_not_the_stack():
    w_ldd = jnp.ones((50, 64, 64))
    cost = count(compile_(lambda x, w: layers(x, w, 1), jnp.ones((16, 64)), w_ldd).as_text())
    assert w_ldd.nbytes < cost.bytes < 5 * w_ldd.nbytes


def test_what_is_no_program():
    with pytest.raises(HloError, match="ENTRY"):
        count("def f(): pass")


GPU = """HloModule jit_f, is_scheduled=true

ENTRY %main (param: bf16[1,512,8,128], param.1: bf16[1,512,4,128], param.2: bf16[64,32], param.3: bf16[32,16]) -> bf16[8,16] {
  %param = bf16[1,512,8,128]{3,2,1,0} parameter(0)
  %param.1 = bf16[1,512,4,128]{3,2,1,0} parameter(1)
  %param.2 = bf16[64,32]{1,0} parameter(2)
  %param.3 = bf16[32,16]{1,0} parameter(3)
  %fwd = (bf16[1,8,512,128]{3,1,2,0}, f32[1,8,512]{2,1,0}, u8[0]{0}) custom-call(%param, %param.1, %param.1), custom_call_target="__cudnn$fmhaSoftmax", metadata={op_name="a/attention"}, backend_config={"cudnn_fmha_backend_config":{"intermediate_tensor_shape":{"element_type":"BF16","dimensions":["1","8","512","512"]}}}
  %bwd = (bf16[1,8,512,128]{3,1,2,0}, u8[0]{0}) custom-call(%param, %param.1, %param.1), custom_call_target="__cudnn$fmhaSoftmaxBackward", metadata={op_name="b/attention"}, backend_config={"cudnn_fmha_backend_config":{"intermediate_tensor_shape":{"element_type":"BF16","dimensions":["1","8","512","512"]}}}
  %gemm = (bf16[64,16]{1,0}, s8[4096]{0}) custom-call(%param.2, %param.3), custom_call_target="__cublas$gemm", metadata={op_name="c/dot"}, backend_config={"operation_queue_id":"0","gemm_backend_config":{"alpha_real":1,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[]}}}
  %get-tuple-element = bf16[64,16]{1,0} get-tuple-element(%gemm), index=0
  %reduce-scatter-start = ((bf16[64,16]{1,0}), bf16[8,16]{1,0}) reduce-scatter-start(%get-tuple-element), replica_groups=mesh['axis_0'=8,'axis_1'=2] {'axis_0'}, dimensions={0}, to_apply=%add
  ROOT %reduce-scatter-done = bf16[8,16]{1,0} reduce-scatter-done(%reduce-scatter-start)
}
"""  # noqa: E501


def test_library_calls_and_asynchronous_collectives_of_a_gpu():
    cost = count(GPU)
    one = 2 * 8 * 512 * 512 * 128  # one product of all queries and keys
    assert cost.products == {"a/attention": 2 * one, "b/attention": 5 * one, "c/dot": 2 * 64 * 16 * 32}
    assert set(cost.collectives) == {"reduce-scatter"}
    traffic = cost.collectives["reduce-scatter"]
    assert (traffic.count, traffic.bytes, traffic.wire_bytes) == (1, 64 * 16 * 2, 64 * 16 * 2 * 7 / 8)


@pytest.fixture(scope="module")
def update():
    """(step, state, batch of 2 kept and 2 other micro-batches) of the real update; no weights."""
    policy = abstract(SPEC, make_mesh(), ".", remat=False)
    config = Config()
    candidates = [
        Candidate(range(1, 9), range(1, 57), [0.0] * 56, group, index, float(index))
        for group in range(4)
        for index in range(2)
    ]
    batch = pack(candidates, BatchShape(4, 2, 2, (64,)), config.mask, config.loss)
    assert (int(batch.kept_micro_batches), int(batch.micro_batches)) == (2, 4)
    step = make_step(
        policy,
        jax.tree.map(lambda value: value.sharding, policy.params),
        loss=config.loss,
        mask=config.mask,
        update=UpdateConfig(micro_batch_rows=2, chunk_tokens=64),
        optimizer=config.optimizer,
        temperature=1.0,
    )
    return step, abstract_state(policy, config), batch


def test_the_update_is_counted_as_its_unrolled_form_is_by_xla(update, monkeypatch):
    step, state, batch = update
    text = jax.jit(step).lower(state, batch).compile().as_text()
    loops = {"token_logprobs": 2, "policy_loss": 2, "entropy_ceiling/while": 2, "entropy_ceiling/cond": 4}
    below, above = (count(text, branch=branch, trips=loops) for branch in (0, 1))

    def fori_loop(low, high, body, carry):
        for number in range(int(low), int(high)):
            carry = body(jnp.int32(number), carry)
        return carry

    def scan(body, carry, xs):
        outs = []
        for number in range(len(jax.tree.leaves(xs)[0])):
            carry, out = body(carry, jax.tree.map(lambda value: value[number], xs))  # noqa: B023
            outs.append(out)
        return carry, jax.tree.map(lambda *values: jnp.stack(values), *outs)

    monkeypatch.setattr(jax.lax, "fori_loop", fori_loop)
    monkeypatch.setattr(jax.lax, "scan", scan)
    monkeypatch.setattr(jax.lax, "cond", lambda _, yes, no, *given: no(*given))
    numbers = {"kept_micro_batches": 2, "micro_batches": 4, "answer_slots": 56}
    unrolled = jax.jit(lambda state, batch: step(state, replace(batch, **numbers))).lower(state, batch).compile()
    theirs = unrolled.cost_analysis()["flops"]
    mine = count(unrolled.as_text())
    assert mine.flops + mine.elementwise == pytest.approx(theirs, rel=0.01)
    assert below.flops == mine.flops
    # by hand: forward and backward over 2 micro-batches, forward over 2; above the ceiling both over 4 once more
    matrices = SPEC.layers * (128 * (4 + 2 + 2) * 32 + 4 * 32 * 128 + 3 * 128 * 256)
    forward = 2 * (2 * 64) * (matrices + SPEC.layers * 2 * 64 * 4 * 32 + 512 * 128)
    assert below.flops == pytest.approx(2 * 3 * forward + 2 * forward, rel=0.01)
    assert above.flops - below.flops == pytest.approx(4 * 3 * forward, rel=0.01)
