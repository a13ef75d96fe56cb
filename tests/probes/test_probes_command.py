"""`launch/probes.py` as a user runs it: with a tiny random policy, then from the store, then with mistakes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

from erpo_jax.problems import Example, Problem, save_problems

ROOT = Path(__file__).resolve().parents[2]
LINE = Problem("line", "Sum a line.", public_tests=(Example("1 2 3\n", "6\n"),), input_constraints="2 to 9 integers")
WORD = Problem("word", "Reverse a word of 3 to 6 small letters.", public_tests=(Example("abc\n", "cba\n"),))


@pytest.fixture(scope="module")
def words(tmp_path_factory, tokenizer):
    """The command's words for two problems and a policy that knows nothing."""
    folder = tmp_path_factory.mktemp("command")
    torch.manual_seed(0)
    shape = transformers.Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=512, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    transformers.Qwen3ForCausalLM(shape).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    save_problems(folder / "problems.jsonl", [LINE, WORD])
    (folder / "small.yaml").write_text("probes:\n  count: 3\n  attempts: 1\n  max_new_tokens: 8\n  trial_programs: 1\n")
    return [
        str(folder / "small.yaml"), f"model.path={folder / 'model'}", f"problems.path={folder / 'problems.jsonl'}",
        f"probes.store={folder / 'store'}", "prompt.style=raw", "prompt.probe='one more'", "prompt.solve='solve'",
        "rollout.max_prompt_tokens=64", "rollout.max_new_tokens=8", "rollout.batch_rows=8", "sandbox.workers=1",
    ]  # fmt: skip


def run(*words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "launch" / "probes.py"), *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, cwd=ROOT, check=False)


def test_makes_stores_and_shows(words, tmp_path_factory):
    nothing = run(*words, "--show")
    assert nothing.returncode == 2
    assert nothing.stderr.startswith("error: ")
    assert "has no probes for these problems and settings" in nothing.stderr

    made = run(*words)
    assert made.returncode == 0, made.stderr
    assert "line: 3 of 3" in made.stdout
    assert "mutated_example" in made.stdout
    assert "2 to 9 items" in made.stdout
    assert "2 problems, 3 probes wanted of each" in made.stdout

    (store,) = [Path(word.removeprefix("probes.store=")) for word in words if word.startswith("probes.store=")]
    rows = [json.loads(line) for line in (store / "probes.jsonl").read_text().splitlines()]
    assert {row["problem"] for row in rows} == {"line", "word"}
    shown = run(*words, "--show")
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[-1] == made.stdout.splitlines()[-1]
    assert shown.stdout.splitlines()[-1].startswith("2 of 2 problems have probes in ")


def test_mistakes_end_with_one_line(words):
    wrong = run(*words, "probes.cuont=3")
    assert wrong.returncode == 2
    assert "did you mean probes.count?" in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
