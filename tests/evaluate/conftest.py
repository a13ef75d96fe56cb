"""A policy small enough to sample from in a test, which still solves a problem: its prefilled answer is the program,
and what it writes after it is a comment."""

import importlib.util
import json
from pathlib import Path

import pytest

WORDS = ["<unk>", "<end>", "x", "y", "z", "w"]
SHAPE = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "hidden_act": "silu",
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "eos_token_id": 1,
    "torch_dtype": "float32",
}
PROBLEMS = [
    {"id": "double", "statement": "Print twice the number.", "starter_code": "print(2 * int(input()))  #"},
    {"id": "square", "statement": "Print the square.", "starter_code": "print(2 * int(input()))  #"},
    {"id": "never", "statement": "Print nothing.", "starter_code": "print(1)  #"},
]
HIDDEN = [
    {"id": "double", "kind": "stdin", "cases": [{"input": "3\n", "output": "6\n"}, {"input": "5\n", "output": "10\n"}]},
    {"id": "square", "kind": "stdin", "cases": [{"input": "2\n", "output": "4\n"}, {"input": "5\n", "output": "25\n"}]},
    {"id": "never", "kind": "stdin", "cases": [{"input": "", "output": ""}]},
]


def write_lines(file: Path, rows: list[dict]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def load_command(name: str):
    """launch/NAME.py as a module."""
    file = Path(__file__).parents[2] / "launch" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"launch_{name}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> list[str]:
    """The words of a command line that measure a tiny random policy on three problems, of which it solves one."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from erpo_jax.policy import ModelSpec, export, init, make_mesh

    folder = tmp_path_factory.mktemp("tiny")
    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    source = folder / "source"
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="<end>").save_pretrained(source)
    (source / "config.json").write_text(json.dumps(SHAPE))
    policy = init(ModelSpec.from_hf(SHAPE), make_mesh(), 0, source)
    model = export(policy, folder / "policy", dtype="float32")
    problems = write_lines(folder / "problems.jsonl", PROBLEMS)
    return [
        f"model.path={model}",
        f"evaluate.problems={problems}",
        f"evaluate.hidden={write_lines(folder / 'hidden.jsonl', HIDDEN)}",
        f"problems.path={problems}",
        "prompt.style=raw",
        "prompt.prefill=true",
        "rollout.max_prompt_tokens=256",
        "rollout.max_new_tokens=4",
        "rollout.batch_rows=16",
        "evaluate.samples=4",
        "evaluate.k=[1,4]",
        "evaluate.temperatures=[0.5,1.0]",
        "sandbox.workers=2",
        "run.compilation_cache=''",
    ]
