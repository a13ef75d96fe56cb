"""Published benchmark files: what training sees, what evaluation sees, and what a hostile or broken row does."""

import base64
import gzip
import json
import pickle
import zlib
from datetime import date

import pytest

from erpo_jax.evaluate.benchmarks import BadRow, humaneval, livecodebench, mbpp, prepare
from erpo_jax.evaluate.benchmarks.humaneval import public_tests
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import load_hidden
from erpo_jax.problems import Example, load_problems

# Their docstrings contradict their reference solutions.
CONTRADICTORY = {"HumanEval/47", "HumanEval/116", "HumanEval/130"}


def rows_of(file):
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as stream:
        return [json.loads(line) for line in stream]


def both(folder):
    return load_problems(folder / "problems.jsonl"), load_hidden(folder / "hidden.jsonl")


def test_humaneval(shared_data, tmp_path):
    file = shared_data / "data" / "humaneval.jsonl.gz"
    summary = prepare("humaneval", [file], tmp_path, release="first")
    problems, hidden = both(tmp_path)
    assert (summary.written, summary.bad, len(problems), len(hidden)) == (164, {}, 164, 164)
    first = problems[0]
    assert (first.id, first.mode, first.entry_point, first.time_limit_s) == (
        "HumanEval/0", "function", "has_close_elements", 3.0,
    )  # fmt: skip
    assert first.source == "openai_humaneval first"
    assert first.starter_code in [row["prompt"] for row in rows_of(file)[:1]]
    assert first.starter_code.strip() in first.statement  # so that a prompt shows it once
    assert first.public_tests[1] == Example("[[1.0, 2.8, 3.0, 4.0, 5.0, 2.0], 0.3]", "true")
    assert "[1.0, 2.0, 3.9, 4.0, 5.0, 2.2]" in hidden[first.id].test
    assert "[1.0, 2.0, 3.9, 4.0, 5.0, 2.2]" not in json.dumps(first.statement)


def test_humaneval_helpers_run_before_the_program_and_the_stub_is_left_away(shared_data):
    rows = {row["task_id"]: row for row in rows_of(shared_data / "data" / "humaneval.jsonl.gz")}
    before = {name: humaneval.split(row, "")[1].test.partition("{program}")[0] for name, row in rows.items()}
    assert "def poly(" in before["HumanEval/32"]
    assert "import math" in before["HumanEval/32"]
    assert "def find_zero(" not in before["HumanEval/32"]
    for name, helper in (("10", "is_palindrome"), ("38", "encode_cyclic"), ("50", "encode_shift")):
        assert f"def {helper}(" in before[f"HumanEval/{name}"]
    assert sum("import" in text for text in before.values()) == 22


def test_humaneval_public_tests_hold_for_the_reference(shared_data):
    with_tests, wrong = 0, set()
    for row in rows_of(shared_data / "data" / "humaneval.jsonl.gz"):
        problem = humaneval.split(row, "").problem
        space = {}
        exec(row["prompt"] + row["canonical_solution"], space)  # published reference code, not a candidate
        with_tests += bool(problem.public_tests)
        for test in problem.public_tests:
            if space[problem.entry_point](*json.loads(test.input)) != json.loads(test.output):
                wrong.add(problem.id)
    assert with_tests == 124
    assert wrong == CONTRADICTORY


def test_examples_that_json_would_change_are_left_out():
    docstring = """
    >>> f((1, 2))
    3
    >>> f([1, 2])
    (1, 2)
    >>> round(f([1]), 2)
    0.5
    >>> f(x)
    1
    >>> f({1: 2})
    1
    >>> f([1, True], "a")
    {"k": null}
    >>> f([1, True], "a")
    {'k': None}

    f(2) == 4, f(3) -> 9
    f(5) == 25
    f(float("inf")) = 1
    """
    assert public_tests(docstring, "f") == (
        Example('[[1, true], "a"]', '{"k": null}'),
        Example("[5]", "25"),
    )


def test_mbpp(shared_data, tmp_path):
    summary = prepare("mbpp", [shared_data / "data" / "mbpp_sanitized.json.gz"], tmp_path)
    problems, hidden = both(tmp_path)
    assert (summary.written, summary.bad) == (427, {})
    by_id = {problem.id: problem for problem in problems}
    squares = by_id["Mbpp/8"]
    assert squares.entry_point == "square_nums"
    assert squares.statement.endswith(
        "assert square_nums([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])==[1, 4, 9, 16, 25, 36, 49, 64, 81, 100]"
    )
    assert "square_nums([10,20,30])" not in squares.statement
    assert squares.public_tests == (
        Example("[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]", "[1, 4, 9, 16, 25, 36, 49, 64, 81, 100]"),
    )
    assert "square_nums([10,20,30])" in hidden["Mbpp/8"].test
    assert by_id["Mbpp/2"].public_tests == ()  # tuples are not JSON
    assert all(f"{problem.entry_point}(" in hidden[problem.id].test for problem in problems)
    assert sum(tests.test.startswith("import math\n") for tests in hidden.values()) > 0


def test_full_mbpp_has_other_fields_and_windows_line_ends(shared_data, tmp_path):
    assert prepare("mbpp", [shared_data / "data" / "mbpp.jsonl.gz"], tmp_path).written == 974
    problems, hidden = both(tmp_path)
    assert not any("\r" in problem.statement for problem in problems)
    before, _, after = hidden["Mbpp/367"].test.partition("{program}")
    assert before == ""
    assert after.index("root = Node(1)") < after.index("assert")  # Node is the program's: setup runs after it


def test_mbpp_with_one_assert_has_nothing_to_hide():
    with pytest.raises(BadRow, match=r"1 assert\(s\)"):
        mbpp.split({"task_id": 1, "prompt": "p", "code": "def f(): pass", "test_list": ["assert f()"]}, "")


LCB = "livecodebench_code_generation_lite.jsonl"


def test_livecodebench(shared_data, tmp_path):
    summary = prepare("livecodebench", [shared_data / "data" / "schema_rows" / LCB], tmp_path, release="release_v1")
    problems, hidden = both(tmp_path)
    assert (summary.written, summary.bad) == (11, {})
    by_id = {problem.id: problem for problem in problems}
    cards, seniors = by_id["1873_A"], by_id["2727"]
    assert (cards.mode, cards.date, cards.time_limit_s) == ("stdin", "2023-08-21", 6.0)
    assert cards.public_tests[0].output == "YES\nYES\nYES\nNO\nNO\nYES\n"
    assert (seniors.mode, seniors.entry_point) == ("function", "countSeniors")
    assert seniors.starter_code.startswith("class Solution:")
    assert seniors.public_tests[0] == Example('[["7868190130M7522", "5303914400F9211", "9273338290F4010"]]', "2")
    assert hidden["2727"].kind == "function"
    assert hidden["2727"].compare == "livecodebench"
    # public tests are among those that decide, in front
    assert [case.input for case in hidden["2727"].cases[:2]] == [test.input for test in seniors.public_tests[:2]]
    assert len(hidden["2727"].cases) > len(seniors.public_tests)
    assert json.loads((tmp_path / "prepared.json").read_text())["release"] == "release_v1"


def test_date_windows_are_inclusive(shared_data, tmp_path):
    file = shared_data / "data" / "schema_rows" / LCB
    summary = prepare("livecodebench", [file], tmp_path, start=date(2023, 5, 13), end=date(2024, 1, 6))
    assert sorted(problem.date for problem in both(tmp_path)[0]) == [
        "2023-05-13",
        "2023-05-13",
        "2023-08-21",
        "2024-01-06",
    ]
    assert (summary.written, summary.outside_window) == (4, 7)
    with pytest.raises(EvaluationError, match="no usable row"):
        prepare("livecodebench", [file], tmp_path, start=date(2030, 1, 1))


def test_a_window_needs_dates(shared_data, tmp_path):
    with pytest.raises(EvaluationError, match="needs dates, and problem 'HumanEval/0' has none"):
        prepare("humaneval", [shared_data / "data" / "humaneval.jsonl.gz"], tmp_path, start=date(2024, 1, 1))
    assert not list(tmp_path.glob("*.jsonl*"))


TESTS = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]


def lcb_row(private, **changes):
    row = {
        "question_title": "t", "question_content": "c", "question_id": "abc1_a", "contest_date": "2024-01-01T00:00:00",
        "starter_code": "", "public_test_cases": json.dumps(TESTS), "private_test_cases": private, "metadata": "{}",
    }  # fmt: skip
    return row | changes


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


class Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


@pytest.mark.parametrize("private", [json.dumps(TESTS), packed(json.dumps(TESTS))])
def test_private_tests_plain_and_packed(private):
    assert len(livecodebench.split(lcb_row(private), "")[1].cases) == 2


@pytest.mark.parametrize(
    ("private", "message"),
    [
        (packed(Evil()), r"cannot be decoded: asks for .*\.print"),
        (packed([Evil()]), "asks for"),
        (packed(TESTS), "hold a list, must hold a text"),
        (packed("nonsense"), "is not JSON"),
        (packed(json.dumps(TESTS))[:40], "cut, or longer"),
        ("?!", "cannot be decoded"),
        (base64.b64encode(b"abc").decode(), "cannot be decoded"),
        (json.dumps([{"input": "1", "output": 2, "testtype": "stdin"}]), "list of input, output and testtype"),
        (json.dumps([TESTS[0] | {"testtype": "functional"}]), "stdin or functional throughout"),
    ],
)
def test_private_tests_that_cannot_be_used(private, message, capfd):
    with pytest.raises(BadRow, match=message):
        livecodebench.split(lcb_row(private), "")
    assert "never run" not in capfd.readouterr().out


def test_a_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(livecodebench, "DECODED_LIMIT", 1000)
    with pytest.raises(BadRow, match="longer than 1000 bytes"):
        livecodebench.split(lcb_row(packed(json.dumps(TESTS) + " " * 10_000)), "")


def write(file, *rows):
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return file


def test_bad_rows_are_counted_and_named(tmp_path):
    source = write(tmp_path / "test.jsonl", lcb_row(json.dumps(TESTS)), lcb_row("?!"), "[1]")
    summary = prepare("livecodebench", [source], tmp_path / "out")
    assert summary.written == 1
    assert list(summary.bad) == ["test.jsonl:2", "test.jsonl:3"]
    assert "must be an object" in summary.bad["test.jsonl:3"]
    assert json.loads((tmp_path / "out" / "prepared.json").read_text())["bad"] == summary.bad


def test_known_bad_rows_are_kept_and_named_or_left_out(tmp_path):
    plain = json.dumps(TESTS)
    source = write(
        tmp_path / "test.jsonl",
        lcb_row(plain),
        lcb_row(plain, question_id="abc337_e"),
        lcb_row(plain, question_id="3", question_title="find-the-peaks"),
    )
    kept = prepare("livecodebench", [source], tmp_path / "kept")
    assert (kept.written, list(kept.known_bad_kept), kept.left_out) == (3, ["abc337_e", "3"], {})
    dropped = prepare("livecodebench", [source], tmp_path / "dropped", drop_known_bad=True)
    assert (dropped.written, list(dropped.left_out)) == (1, ["abc337_e", "3"])


def test_an_id_that_stands_twice_counts_once(tmp_path):
    source = write(tmp_path / "test.jsonl", lcb_row(json.dumps(TESTS)), lcb_row(json.dumps(TESTS)))
    summary = prepare("livecodebench", [source], tmp_path / "out")
    assert (summary.written, summary.bad) == (1, {"test.jsonl:2": "the id 'abc1_a' stands twice in these files"})


def test_no_usable_row_leaves_no_file(tmp_path):
    source = write(tmp_path / "test.jsonl", "{broken", lcb_row("?!"))
    with pytest.raises(EvaluationError, match=r"no usable row .*; the first bad row is test\.jsonl:1: .*not JSON"):
        prepare("livecodebench", [source], tmp_path / "out")
    assert not list((tmp_path / "out").glob("*"))


def test_unknown_names(tmp_path):
    with pytest.raises(EvaluationError, match="unknown benchmark 'humanevil'; known are humaneval, humaneval"):
        prepare("humanevil", [], tmp_path)
    with pytest.raises(EvaluationError, match=r"there is no file .*absent"):
        prepare("humaneval", [tmp_path / "absent"], tmp_path)
