"""A tokenizer that cannot be read is an error that names its file, never an empty tokenizer."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from erpo_jax.policy import CheckpointError, Policy, load, make_mesh


@pytest.fixture
def policy(tiny, tmp_path) -> Policy:
    """A policy whose source folder is one's own to break."""
    source = Path(shutil.copytree(tiny("qwen2").folder, tmp_path / "source"))
    return dataclasses.replace(load(tiny("qwen2").folder, make_mesh()), source=source)


def refused(policy: Policy, message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        policy.tokenizer()
    assert str(caught.value).startswith(f"{policy.source}/{message}")
    assert "\n" not in str(caught.value)


def test_as_it_was_written(policy):
    assert policy.tokenizer()("w3 w9").input_ids == [3, 9]


@pytest.mark.parametrize("others", [[], ["tokenizer_config.json"]])
def test_missing(policy, others):
    for name in ["tokenizer.json", *others]:
        (policy.source / name).unlink()
    refused(policy, "tokenizer.json is missing: ")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_torn(policy, name):
    file = policy.source / name
    file.write_text(file.read_text()[:60])
    refused(policy, f"{name} cannot be {'used' if name == 'tokenizer.json' else 'read'}: ")


@pytest.mark.parametrize("content", ["", "{}", "[]"])
def test_not_a_tokenizer(policy, content):
    (policy.source / "tokenizer.json").write_text(content)
    refused(policy, "tokenizer.json cannot be used: ")


def test_settings_that_are_no_object(policy):
    (policy.source / "tokenizer_config.json").write_text("[]")
    refused(policy, "tokenizer_config.json must hold a JSON object")


def test_empty_vocabulary(policy):
    file = policy.source / "tokenizer.json"
    content = json.loads(file.read_text())
    content["model"]["vocab"] = {}
    file.write_text(json.dumps(content))
    refused(policy, "tokenizer.json cannot be used: the tokenizer's vocabulary is empty")
