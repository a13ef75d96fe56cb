"""Training-free selectors against hand-computed choices, and against what the data set of 16,400 samples says."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from erpo_jax.errors import UserError
from erpo_jax.evaluate import Answer, EvaluationError, save_generations
from erpo_jax.evaluate.groups import ProgramGroup, merged
from erpo_jax.evaluate.selection import (
    Ballot,
    RewardModel,
    RewardModelError,
    WrittenTest,
    accuracy,
    load_written,
    measure_selectors,
    passes,
    save_written,
)
from erpo_jax.evaluate.selection.writing import read_tests, write_tests
from erpo_jax.problems import Problem, Prompt
from erpo_jax.sandbox import Limits, Sandbox
from tests.evaluate.conftest import HIDDEN, PROBLEMS, WORDS, load_command, write_lines
from tests.evaluate.real_sets import codegen_16b, rows_of

WHOLE = np.arange(5)[None]


def bits(*rows):
    return np.array([[letter == "1" for letter in row] for row in rows])


# Behaviours on 2 probes: A A B C and one without output; written tests: the first two pass 1, the third passes 3.
BALLOT = Ballot(
    "p",
    right_n=np.array([False, False, True, False, False]),
    clusters_nk=np.array([[0, 0], [0, 0], [0, 1], [1, 1], [-1, -1]]),
    passes_nt=bits("100", "100", "111", "000", "000"),
    rewards_n=np.array([0.1, 0.3, 0.2, -1.0, -np.inf]),
)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("majority", 0.0),  # the first two
        ("mbr", 1.0),  # equal outputs with others: 4 for A (2 probes x itself and its twin, and B's first), B 3 + 2
        ("pcr", 1.0),  # probe 0: cluster of three; probe 1: A, A and B, C tie: all but C are in both
        ("codet", 1.0),  # sqrt(2) * 1 against sqrt(1) * 3
        ("codet_product", 1.0),  # 2 * 1 against 1 * 3
        ("reward_model", 0.0),  # the second
    ],
)
def test_choices(name, right):
    expected = {"mbr": 1 / 3, "pcr": 1 / 3}.get(name, right)
    assert accuracy(BALLOT, name, WHOLE) == pytest.approx(expected)


def test_a_larger_crowd_outweighs_tests_in_the_product_alone():
    # five programs pass 2 tests, one passes 6: sqrt(5) * 2 = 4.47 < 6, 5 * 2 = 10 > 6
    ballot = Ballot("p", np.array([False] * 5 + [True]), passes_nt=bits(*["110000"] * 5, "111111"))
    assert accuracy(ballot, "codet", np.arange(6)[None]) == 1.0
    assert accuracy(ballot, "codet_product", np.arange(6)[None]) == 0.0


def test_scores_are_those_of_the_subset():
    # of programs 0 and 2 alone nobody has a majority: half
    assert accuracy(BALLOT, "majority", np.array([[0, 2]])) == 0.5
    assert accuracy(BALLOT, "majority", np.array([[0, 2], [0, 1]])) == 0.25
    # where nobody gives output all tie
    assert accuracy(BALLOT, "majority", np.array([[4]])) == 0.0


def test_random_and_oracle_are_exact():
    found = measure_selectors([BALLOT], [1, 2, 5], draws=3)
    by_name = {curve.selector: [one.value for one in curve.accuracy] for curve in found.curves}
    assert by_name["random"] == pytest.approx([0.2, 0.2, 0.2])
    assert by_name["oracle"] == pytest.approx([0.2, 0.4, 1.0])
    assert by_name["codet"][-1] == 1.0


def test_draws_are_seeded_and_shared_by_selectors():
    first = measure_selectors([BALLOT], [3], draws=20)
    assert first == measure_selectors([BALLOT], [3], draws=20)
    assert first != measure_selectors([BALLOT], [3], draws=20, seed=1)


def test_problems_with_too_few_programs_are_named():
    short = Ballot("short", np.array([True, False]))
    plain = Ballot("p", BALLOT.right_n)
    found = measure_selectors([plain, short, plain])
    assert (found.sizes, found.problems, found.left_out) == ((1, 2, 4, 5), 2, ("short",))
    assert [curve.selector for curve in found.curves] == ["random", "oracle"]
    assert measure_selectors([plain, short], [2]).problems == 2
    with pytest.raises(EvaluationError, match=r"among 1 to 6 programs: 2 problem.s., with at most 5"):
        measure_selectors([plain, short], [1, 6])
    with pytest.raises(EvaluationError, match="0 problem"):
        measure_selectors([])


def test_codet_on_the_samples_of_a_16b_model(shared_data):
    """From the file's own verdicts and passes: what the data set's notes say, within one point."""
    found = measure_selectors(codegen_16b(shared_data / "data"), [1, 10, 100], draws=1)
    by_name = {curve.selector: [one.value for one in curve.accuracy] for curve in found.curves}
    assert found.problems == 164
    assert by_name["oracle"] == pytest.approx([0.2213, 0.5038, 0.7378], abs=1e-4)
    assert by_name["codet"][-1] == pytest.approx(0.370, abs=0.01)
    assert by_name["majority"][-1] == pytest.approx(0.348, abs=0.01)


def test_executed_asserts_agree_with_the_data_set(shared_data):
    """What our sandbox says of a model's samples and asserts, against what the file says."""
    rows = list(rows_of(shared_data / "data" / "humaneval_codegen16b_samples.jsonl.gz"))[:40:20]
    samples = {row["task_id"]: [one for one in row["samples"] if one["verdict"] != "timeout"][:12] for row in rows}
    programs = {row["task_id"]: [row["prompt"] + one["completion"] for one in samples[row["task_id"]]] for row in rows}
    tests = {row["task_id"]: tuple(WrittenTest(one["assert"]) for one in row["generated_tests"][:10]) for row in rows}
    problems = {row["task_id"]: Problem(row["task_id"], "", "function", row["entry_point"]) for row in rows}
    with Sandbox(workers=2) as sandbox:
        found = passes(programs, tests, problems, sandbox, lambda problem: Limits(), lambda done, total: None)
    theirs = {name: [tuple(bits(one["passes"][:10])[0]) for one in some] for name, some in samples.items()}
    assert found == theirs
    assert {True, False} <= {passed for row in found.values() for one in row for passed in one}


DOUBLE = "def f(x):\n    return 2 * x"
PROBLEM = {"f": Problem("f", "Double it.", "function", "f"), "s": Problem("s", "Double it.")}
TESTS = {
    "f": (WrittenTest("assert f(1) == 2"), WrittenTest("assert f((1,)) == (1, 1)"), WrittenTest("assert f(1) == 3")),
    "s": (WrittenTest(input="3\n", output="6"), WrittenTest(input="x", output="6")),
}


def test_which_programs_pass_written_tests(tmp_path):
    programs = {
        "f": [DOUBLE, "import sys\nsys.exit(0)", "input()\n" + DOUBLE, None, DOUBLE],
        "s": ["print(2 * int(input()))", "print(6)"],
    }
    with Sandbox(workers=1) as sandbox:
        found = passes(programs, TESTS, PROBLEM, sandbox, lambda problem: Limits(), lambda done, total: None)
    nothing = (False, False, False)
    assert found["f"] == [(True, True, False), nothing, nothing, nothing, (True, True, False)]
    assert found["s"] == [(True, False), (True, True)]


def test_written_tests_come_back_from_their_file(tmp_path):
    save_written(tmp_path / "tests.jsonl", TESTS)
    assert load_written(tmp_path / "tests.jsonl") == TESTS
    for line in (
        '{"id": "f"}',
        '{"id": "f", "tests": [{"input": "1"}]}',
        '{"id": "f", "tests": [{"assert": 1}]}',
        "1",
    ):
        (tmp_path / "bad.jsonl").write_text(line)
        with pytest.raises(EvaluationError, match=r"bad\.jsonl:1: must be"):
            load_written(tmp_path / "bad.jsonl")
    wrong = {"s": (WrittenTest("assert f(1) == 2"),)}
    with pytest.raises(EvaluationError, match="'s' is of mode stdin"):
        passes({"s": ["x"]}, wrong, PROBLEM, None, lambda problem: Limits(), lambda done, total: None)


def test_tests_in_an_answer():
    answer = (
        "```python\nassert f(1) == 2\n  assert f(1) == 2\nassert f([1]) == [2], 'why'\nassert g(1) == 2\nassert f(\n"
    )
    answer += "assert f(2) == 4; import os\nprint(f(1))\nassert 6 == f(3)\n```"
    found = [test.check for test in read_tests(answer, PROBLEM["f"])]
    assert found == ["assert f(1) == 2", "assert f([1]) == [2], 'why'", "assert 6 == f(3)"]
    many = "\n".join(f"assert f({number}) == 0" for number in range(9))
    assert len(read_tests(many, PROBLEM["f"])) == 5
    both = "```\n3\n```\nprints\n```text\n6\n```\n"
    assert read_tests("<think>```\n1\n```</think>" + both, PROBLEM["s"]) == [WrittenTest(input="3\n", output="6\n")]
    assert read_tests("```\n3\n```", PROBLEM["s"]) == []


class Writer:
    """An engine whose token ids are the answers themselves."""

    def generate(self, prompts, n, sampling, seeds, progress):
        answers = ["(1) == 2\nassert f(2) == 4\n", "(2) == 4\nassert f(2) == 4\n"]
        return [[SimpleNamespace(token_ids=answers[number % 2]) for number in range(n)] for _ in prompts]


def test_the_tests_written_most_often_come_first():
    long = replace(PROBLEM["f"], id="long", statement="word " * 50)
    prompts = SimpleNamespace(
        tests=lambda problem: Prompt(tuple(range(len(problem.statement))), "```python\nassert f"), text=str
    )
    found = write_tests(Writer(), prompts, [PROBLEM["f"], long], 4, None, 0, 1, 100, None)
    assert found == {"f": [WrittenTest("assert f(2) == 4")], "long": []}


def test_a_policy_is_asked_for_tests(tiny, tmp_path, capsys):
    """The tiny policy writes words; that no test comes of it is said."""
    out = tmp_path / "tests.jsonl"
    assert load_command("evaluate").main(["tests", *tiny, "--out", str(out), "--answers", "2"]) == 0
    assert load_written(out) == {"double": (), "square": (), "never": ()}
    assert "3 problem(s) without a test: double, square, never" in capsys.readouterr().out


def test_merging_groups_of_a_problem():
    groups = [ProgramGroup("a", ("x",), ("1",)), ProgramGroup("b", ("y",)), ProgramGroup("a", ("z",), ("2",))]
    assert merged(groups) == [ProgramGroup("a", ("x", "z"), ("1",)), ProgramGroup("b", ("y",))]


@pytest.fixture(scope="module")
def reward_folder(tmp_path_factory):
    """A tiny random reward model."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification

    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path_factory.mktemp("reward")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="<end>")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Qwen2Config(vocab_size=len(WORDS), num_key_value_heads=1, num_labels=1, **shape)
    Qwen2ForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_reward_model_scores_each_program_alone(reward_folder):
    problem = Problem("p", "x y z")
    programs = ["x", "y z w w w", None, "x", "z"]
    scores = RewardModel(str(reward_folder), batch=4).scores(problem, programs)
    assert scores[2] == -np.inf
    assert scores[0] == scores[3]
    assert len(set(scores)) == 4
    one_by_one = RewardModel(str(reward_folder), batch=1)
    assert one_by_one.scores(problem, programs) == pytest.approx(scores, abs=1e-5)
    assert one_by_one.cut == 0
    short = RewardModel(str(reward_folder), max_tokens=3)
    short.scores(problem, ["x"])
    assert short.cut == 1


def test_what_is_no_reward_model(reward_folder, tmp_path):
    with pytest.raises(UserError, match=r"there is no folder .*absent"):
        RewardModel(str(tmp_path / "absent"))
    for file in reward_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": {"0": "a", "1": "b"}}))
    with pytest.raises(RewardModelError, match=r"cannot be loaded as a reward model"):
        RewardModel(str(tmp_path))  # its one output does not fit
    from transformers import AutoConfig, Qwen2ForCausalLM

    Qwen2ForCausalLM(AutoConfig.from_pretrained(reward_folder)).save_pretrained(tmp_path)
    with pytest.raises(RewardModelError, match=r"is no sequence-classification model: its weights lack score.weight"):
        RewardModel(str(tmp_path))


def test_the_command(reward_folder, tmp_path, capsys):
    evaluate = load_command("evaluate")
    double, square, other = (f"print({text})" for text in ("2 * int(input())", "int(input()) ** 2", "1"))
    row = [Answer("", program, "stop", 1) for program in (double, double, square, other)]
    save_generations(tmp_path / "g.jsonl", {"policy": "p", "temperature": 1.0}, {"double": row, "square": row})
    written = {name: (WrittenTest(input="4\n", output="16"),) for name in ("double", "square")}
    save_written(tmp_path / "tests.jsonl", written)
    words = [
        f"evaluate.problems={write_lines(tmp_path / 'problems.jsonl', PROBLEMS)}",
        f"evaluate.hidden={write_lines(tmp_path / 'hidden.jsonl', HIDDEN)}",
        "sandbox.workers=2",
        "--generations",
        str(tmp_path / "g.jsonl"),
    ]
    report = tmp_path / "select.html"
    flags = ["--probes-from", "hidden", "--tests", str(tmp_path / "tests.jsonl"), "--reward-model", str(reward_folder)]
    assert evaluate.main(["select", *words, *flags, "--report", str(report)]) == 0
    tree = json.loads(report.with_suffix(".json").read_text())
    found = {curve["selector"]: curve["accuracy"][-1]["value"] for curve in tree["selection"]["curves"]}
    # of each problem two double and one squares; the written tests ask both to square
    assert 0.0 <= found.pop("reward_model") <= 1.0
    assert found == {
        "random": 0.375,
        "oracle": 1.0,
        "majority": 0.5,
        "mbr": 0.5,
        "pcr": 0.5,
        "codet": 0.5,
        "codet_product": 0.5,
    }
    assert tree["provenance"]["tests_hash"]
    assert "of 4" in capsys.readouterr().out
    assert "<svg" in report.read_text()
    assert evaluate.main(["select", *words, "--probes-from", "none", "--sizes", "2"]) == 0
    assert "majority" not in capsys.readouterr().out
    with pytest.raises(UserError, match="--draws 0: must be at least 1"):
        evaluate.main(["select", *words, "--draws", "0"])
