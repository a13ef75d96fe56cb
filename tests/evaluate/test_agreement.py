"""Our verdicts against the ones that real programs carry, and against the graders' own words for them."""

import gzip
import json

import pytest

from erpo_jax.evaluate.agreement import agreement
from erpo_jax.evaluate.benchmarks import prepare
from tests.evaluate.conftest import load_command, write_lines


def test_only_samples_with_both_verdicts_count():
    labels = {"a": [True, False, None, True], "b": [False]}
    verdicts = {"a": [True, True, True, None], "b": [False]}
    assert agreement(labels, verdicts) == {"labelled": 3, "agree": 2, "disagreements": [["a", 1, False, True]]}


def run(capsys, *words):
    assert load_command("evaluate").main(["agreement", *map(str, words), "sandbox.workers=2"]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_disagreement_is_named(tmp_path, capsys):
    row = {"id": "a", "statement": "s", "hidden_tests": [{"input": "", "output": "1"}]}
    row["candidates"] = [
        {"code": "print(1)", "label": "correct", "origin": "me"},
        {"code": "print(1) ", "label": "incorrect", "origin": "you"},
        {"code": "print(2)"},
    ]
    prepare("own", [write_lines(tmp_path / "rows.jsonl", [row])], tmp_path / "set")
    assert run(capsys, tmp_path / "set") == [
        "set: 1 of 2 verdicts agree (50.00%)",
        "  you: a #1 (said wrong, found right)",
    ]


@pytest.mark.parametrize(
    ("name", "file", "programs"),
    [
        ("codecontests", "deepmind_code_contests.jsonl", 100),
        ("taco", "BAAI_TACO.jsonl", 28),
        ("apps", "codeparrot_apps.jsonl", 25),
    ],
)
def test_rows_in_the_hubs_layout(shared_data, tmp_path, capsys, name, file, programs):
    prepare(name, [shared_data / "data" / "schema_rows" / file], tmp_path / name)
    assert run(capsys, tmp_path / name) == [f"{name}: {programs} of {programs} verdicts agree (100.00%)"]


def test_real_contest_programs(shared_data, tmp_path, capsys):
    """Every 8th of 53 problems, with human, GPT-4o and Llama answers and one-token mutants."""
    with gzip.open(shared_data / "data" / "codecontests_stdin.jsonl.gz", "rt") as stream:
        rows = [json.loads(line) | {"compare": "codecontests"} for line in stream][::8]
    prepare("own", [write_lines(tmp_path / "rows.jsonl", rows)], tmp_path / "contests")
    total = sum(len(row["candidates"]) for row in rows)
    assert run(capsys, tmp_path / "contests") == [f"contests: {total} of {total} verdicts agree (100.00%)"]
