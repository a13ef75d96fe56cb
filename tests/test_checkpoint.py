"""Checkpoints: whole or absent, on any number of devices, and a clear word when one does not fit (CASES R2, R3)."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from erpo_jax.checkpoint import Checkpoints
from erpo_jax.config import OptimizerConfig
from erpo_jax.errors import UserError
from erpo_jax.policy import ModelSpec, init, make_mesh
from erpo_jax.update import init_state

CONFIG = {
    "model_type": "qwen3",
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
}


def state_on(seed, **changes):
    mesh = make_mesh(fsdp=changes.pop("fsdp", 1))
    policy = init(ModelSpec.from_hf(CONFIG | changes), mesh, seed, Path())
    return init_state(policy, OptimizerConfig())


def test_a_state_saved_on_eight_devices_comes_back_on_two_and_one(tmp_path):
    saved = state_on(seed=0, fsdp=8)
    with Checkpoints(tmp_path / "c") as checkpoints:
        checkpoints.save(3, saved, {"weights_version": 3})
    for fsdp in (2, 1):
        like = state_on(seed=1, fsdp=fsdp)
        with Checkpoints(tmp_path / "c") as checkpoints:
            found, note = checkpoints.restore(3, like)
        assert note == {"weights_version": 3}
        assert jax.tree.structure(found) == jax.tree.structure(like)
        for new, old, wanted in zip(*map(jax.tree.leaves, (found, saved, like)), strict=True):
            np.testing.assert_array_equal(np.asarray(new), np.asarray(old))
            assert (new.dtype, new.sharding) == (wanted.dtype, wanted.sharding)


def test_parameters_alone_come_back_without_the_optimizer(tmp_path):
    saved, like = state_on(seed=0), state_on(seed=1)
    with Checkpoints(tmp_path / "c") as checkpoints:
        checkpoints.save(1, saved, {})
        found = checkpoints.restore_params(1, like.params)
    for new, old in zip(jax.tree.leaves(found), jax.tree.leaves(saved.params), strict=True):
        np.testing.assert_array_equal(np.asarray(new), np.asarray(old))


def test_another_model_is_refused_with_the_array_and_both_shapes(tmp_path):
    with Checkpoints(tmp_path / "c") as checkpoints:
        checkpoints.save(1, state_on(seed=0), {})
        with pytest.raises(UserError, match=r"layers\.down_fd.*\(2, 64, 32\).*\(2, 128, 32\)"):
            checkpoints.restore(1, state_on(seed=0, intermediate_size=128))
        with pytest.raises(UserError, match=r"no checkpoint of step 2; it has \[1\]"):
            checkpoints.restore(2, state_on(seed=0))


def test_only_the_newest_are_kept_and_a_half_written_one_is_not_seen(tmp_path):
    folder = tmp_path / "c"
    with Checkpoints(folder, keep=2) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(step, {"x": jax.numpy.full(4, step)}, {})
        assert checkpoints.steps() == [2, 3]
    (folder / "4.orbax-checkpoint-tmp").mkdir()
    with Checkpoints(folder) as checkpoints:
        assert checkpoints.steps() == [2, 3]


SAVE_AGAIN = """
import sys
from pathlib import Path
import jax.numpy as jnp
from erpo_jax.checkpoint import Checkpoints
from erpo_jax.errors import UserError
with Checkpoints(Path(sys.argv[1])) as checkpoints:
    try:
        checkpoints.save(2, {"x": jnp.arange(4_000_000)}, {})
    except UserError as error:
        print(error)
        sys.exit(2)
"""


def test_a_full_disk_is_said_and_the_checkpoint_before_it_stays(tmp_path):
    """A file size limit stands in for the full disk: the write fails in the same call."""
    folder = tmp_path / "c"
    with Checkpoints(folder) as checkpoints:
        checkpoints.save(1, {"x": jax.numpy.arange(4)}, {})
    limited = f'trap \'\' XFSZ; ulimit -f 2000; exec {sys.executable} -c "$0" "$1"'
    environment = {**os.environ, "XLA_FLAGS": ""}
    ended = subprocess.run(
        ["bash", "-c", limited, SAVE_AGAIN, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert ended.returncode == 2, ended.stderr[-2000:]
    assert "cannot write checkpoint 2" in ended.stdout
    assert "the newest whole one is step 1" in ended.stdout
    assert "Traceback" not in ended.stderr
    with Checkpoints(folder) as checkpoints:
        assert checkpoints.steps() == [1]


def test_a_damaged_checkpoint_is_named_and_the_older_one_too(tmp_path):
    folder = tmp_path / "c"
    state = {"x": jax.numpy.arange(4)}
    with Checkpoints(folder) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, state, {})
    for file in (folder / "2" / "state").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:7])
    with Checkpoints(folder) as checkpoints:
        with pytest.raises(UserError, match=r"/2 is damaged .*; delete the folder to go on from step 1"):
            checkpoints.restore(2, state)
        assert checkpoints.restore(1, state)[0]["x"].tolist() == [0, 1, 2, 3]
