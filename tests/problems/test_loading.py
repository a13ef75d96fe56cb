"""Problem files: what is read, and the line that names each mistake."""

import gzip
import json

import pytest

from erpo_jax.errors import UserError
from erpo_jax.problems import Example, Problem, ProblemError, load_problems, save_problems

GOOD = {"id": "a", "statement": "Add one.", "public_tests": [{"input": "1\n", "output": "2\n"}]}


def write(tmp_path, *rows, name="problems.jsonl"):
    path = tmp_path / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_defaults(tmp_path):
    (problem,) = load_problems(write(tmp_path, GOOD, ""))
    assert problem == Problem("a", "Add one.", public_tests=(Example("1\n", "2\n"),))
    assert (problem.mode, problem.time_limit_s, problem.memory_limit_mb) == ("stdin", 2.0, 1024)


@pytest.mark.parametrize("name", ["set.jsonl", "set.jsonl.gz"])
def test_round_trip(tmp_path, name):
    problems = [
        Problem("a", "Line one.\u2028Line two.", input_constraints="1 ≤ n", source="own", date="2025-01-01"),
        Problem(
            "b", "f", "function", "f", "def f(a):", (Example("[1, [2]]", "NaN"),), time_limit_s=0.5, memory_limit_mb=64
        ),
    ]
    save_problems(tmp_path / name, problems)
    assert load_problems(tmp_path / name) == problems
    assert [problem.digest() for problem in load_problems(str(tmp_path / name))] == [p.digest() for p in problems]
    first = (tmp_path / name).read_bytes()
    save_problems(tmp_path / name, problems)
    assert (tmp_path / name).read_bytes() == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"statment": "x"}, "unknown field 'statment'; did you mean statement?"),
        ({"colour": 1}, "unknown field 'colour'; fields are id, statement, mode"),
        (
            {"hidden_tests": []},
            "field 'hidden_tests': hidden tests never stand in a problem file, because training reads it",
        ),
        ({"private_test_cases": "x"}, "hidden tests never stand"),
        ({"id": ""}, "field 'id' is \"\"; allowed: a text that is not empty"),
        ({"id": 7}, "field 'id' is 7"),
        ({"statement": None}, "field 'statement' is null"),
        (
            {"mode": "functional"},
            "field 'mode' is \"functional\"; allowed: 'stdin' or 'function'; did you mean function?",
        ),
        ({"mode": "function", "public_tests": []}, "field 'entry_point' is null; allowed: the name of the function"),
        ({"mode": "function", "entry_point": "f"}, "allowed: a JSON list of the arguments"),
        ({"starter_code": 3}, "field 'starter_code' is 3; allowed: a text or null"),
        ({"source": None}, "field 'source' is null; allowed: a text"),
        ({"time_limit_s": 0}, "field 'time_limit_s' is 0; allowed: a number above 0 and at most 3600 (CPU seconds)"),
        ({"time_limit_s": 3600.5}, "field 'time_limit_s' is 3600.5; allowed: a number above 0 and at most 3600"),
        ({"time_limit_s": 10**400}, "field 'time_limit_s' is 1000"),
        ({"time_limit_s": float("nan")}, "field 'time_limit_s' is NaN"),
        ({"time_limit_s": "2"}, "field 'time_limit_s' is \"2\""),
        ({"memory_limit_mb": 0.5}, "field 'memory_limit_mb' is 0.5; allowed: a whole number of MiB, from 1 to 1048576"),
        ({"memory_limit_mb": 1048577}, "field 'memory_limit_mb' is 1048577; allowed: a whole number of MiB, from 1 to"),
        ({"memory_limit_mb": 10**400}, "field 'memory_limit_mb' is 1000"),
        ({"mode": "function", "entry_point": "lambda", "public_tests": []}, "field 'entry_point' is \"lambda\""),
        ({"statement": "a\ud800b"}, "field 'statement' has the lone surrogate \\ud800 as character 2; allowed:"),
        ({"id": "\udfff"}, "field 'id' has the lone surrogate \\udfff as character 1"),
        ({"starter_code": "\ud800"}, "field 'starter_code' has the lone surrogate"),
        ({"source": "\ud800"}, "field 'source' has the lone surrogate"),
        ({"public_tests": [{"input": "1", "output": "\ud800"}]}, "field 'public_tests[0].output' has the lone"),
        ({"mode": "\ud800"}, "field 'mode' is \"\\ud800\"; allowed:"),
        ({"memory_limit_mb": True}, "field 'memory_limit_mb' is true"),
        ({"public_tests": {}}, "field 'public_tests' is {}; allowed: a list of"),
        ({"public_tests": [{"input": "1"}]}, 'field \'public_tests[0]\' is {"input": "1"}; allowed:'),
        ({"public_tests": [{"input": "1", "output": 2}]}, "field 'public_tests[0].output' is 2; allowed: a text"),
    ],
)
def test_mistakes_are_named(tmp_path, change, message):
    path = write(tmp_path, GOOD, GOOD | {"id": "b"} | change)
    with pytest.raises(ProblemError) as caught:
        load_problems(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    str(caught.value).encode()  # can be printed
    assert isinstance(caught.value, UserError)


def test_an_expected_value_that_is_not_json(tmp_path):
    row = {
        "id": "a",
        "statement": "s",
        "mode": "function",
        "entry_point": "f",
        "public_tests": [{"input": "[1]", "output": "x"}],
    }
    with pytest.raises(ProblemError, match=r"public_tests\[0\].output' is \"x\"; allowed: one JSON value"):
        load_problems(write(tmp_path, row))


def test_the_greatest_limits_are_allowed(tmp_path):
    (problem,) = load_problems(write(tmp_path, GOOD | {"time_limit_s": 3600, "memory_limit_mb": 1048576}))
    assert (problem.time_limit_s, problem.memory_limit_mb) == (3600.0, 1048576)


def test_a_byte_order_mark_is_passed_over(tmp_path):
    path = write(tmp_path, GOOD)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [problem.id for problem in load_problems(path)] == ["a"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100_000, "JSON nested too deeply"),
        ('{"id": "b", "statement": ' + '{"a":' * 100_000, "JSON nested too deeply"),
        ('{"id": "b", "statement": "s", "id": "c"}', "field 'id' stands twice; allowed: each field once"),
        (
            '{"id": "b", "statement": "s", "public_tests": [{"input": "1", "output": "2", "output": "3"}]}',
            "field 'output' stands twice",
        ),
        ('{"id": "b", "statement": "s", "time_limit_s": ' + "9" * 5000 + "}", "not JSON (Exceeds the limit"),
        (
            json.dumps(
                {"id": "b", "statement": "s", "mode": "function", "entry_point": "f"}
                | {"public_tests": [{"input": "[" * 100_000, "output": "1"}]}
            ),
            "field 'public_tests[0].input' is",
        ),
    ],
)
def test_lines_that_cannot_be_read(tmp_path, line, message):
    path = write(tmp_path, GOOD, line)
    with pytest.raises(ProblemError) as caught:
        load_problems(path)
    assert str(caught.value).startswith(f"{path}:2: {message}")


def test_files_that_cannot_be_used(tmp_path):
    path = write(tmp_path, GOOD, "{'id': 1}")
    with pytest.raises(ProblemError, match=r"problems.jsonl:2: not JSON \(Expecting property name"):
        load_problems(path)
    with pytest.raises(ProblemError, match=r"problems.jsonl:3: id 'a' stands in line 1 already"):
        load_problems(write(tmp_path, GOOD, "", GOOD))
    with pytest.raises(ProblemError, match="holds no problem"):
        load_problems(write(tmp_path, ""))
    with pytest.raises(ProblemError, match=r"found \[1\]; allowed: each line is one JSON object"):
        load_problems(write(tmp_path, "[1]"))
    with pytest.raises(ProblemError, match=r"missing; every problem has an id"):
        load_problems(write(tmp_path, {"id": "a"}))
    write(tmp_path, GOOD)
    with pytest.raises(
        ProblemError, match=r"there is no problem file .*problem\.jsonl; did you mean .*problems\.jsonl\?"
    ):
        load_problems(tmp_path / "problem.jsonl")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(ProblemError, match=r"cut\.jsonl\.gz cannot be read"):
        load_problems(tmp_path / "cut.jsonl.gz")
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "\xe9"}')
    with pytest.raises(ProblemError, match="not UTF-8 text"):
        load_problems(tmp_path / "latin.jsonl")
