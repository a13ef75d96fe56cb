"""Hidden-tests files: what is read, and how a mistake is named."""

import json

import pytest

from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import Case, HiddenTests, load_hidden

STDIN = {"id": "a", "kind": "stdin", "cases": [{"input": "1\n", "output": "2\n"}]}
FUNCTION = {"id": "b", "kind": "function", "entry_point": "f", "cases": [{"input": "[[1], 2]", "output": "null"}]}
PROGRAM = {"id": "c", "kind": "program", "test": "import math\n{program}\nassert f(1) == 1\n", "entry_point": "f"}


def write(folder, *rows):
    file = folder / "hidden.jsonl"
    file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return file


def test_reads_the_three_kinds(tmp_path):
    found = load_hidden(write(tmp_path, STDIN, "", FUNCTION, PROGRAM))
    assert found["a"] == HiddenTests("a", "stdin", (Case("1\n", "2\n"),))
    assert found["b"] == HiddenTests("b", "function", (Case("[[1], 2]", "null"),), "f")
    assert found["c"] == HiddenTests("c", "program", (), "f", PROGRAM["test"])


def test_a_line_reads_back_equal(tmp_path):
    tests = [
        HiddenTests("a", "stdin", (Case("é\n", ""),), compare="livecodebench"),
        HiddenTests("b", "function", (Case("[]", "1"),), "f"),
        HiddenTests("c", "program", (), None, "{program}"),
    ]
    assert list(load_hidden(write(tmp_path, *[one.line() for one in tests])).values()) == tests


def test_only_wanted_ids_are_kept(tmp_path):
    assert list(load_hidden(write(tmp_path, STDIN, FUNCTION, PROGRAM), {"b"})) == ["b"]


def test_a_wanted_id_without_tests_is_named(tmp_path):
    with pytest.raises(
        EvaluationError, match=r"hidden\.jsonl has no hidden tests for 2 problem\(s\), the first is 'x'"
    ):
        load_hidden(write(tmp_path, STDIN), {"a", "x", "y"})


def test_no_file(tmp_path):
    with pytest.raises(EvaluationError, match=r"there is no hidden-tests file .*absent\.jsonl"):
        load_hidden(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "must be an object"),
        ({**STDIN, "id": ""}, "'id' must be a text"),
        ({**STDIN, "kind": "stdio"}, "'kind' is 'stdio'; allowed are stdin, function, program"),
        ({**STDIN, "case": []}, "unknown field 'case'"),
        ({**STDIN, "cases": []}, "'cases' must be a list of at least one"),
        ({**STDIN, "cases": [{"input": 1, "output": "2"}]}, r"cases\[0\] must be an object with the texts"),
        (
            {**STDIN, "compare": "exact"},
            "'compare' is 'exact'; allowed are apps, codecontests, key, livecodebench, tokens",
        ),
        ({**FUNCTION, "entry_point": None}, "needs 'entry_point'"),
        ({**FUNCTION, "cases": [{"input": "1", "output": "2"}]}, "'input' must be a JSON list of arguments"),
        ({**FUNCTION, "cases": [{"input": "[1]", "output": "(2)"}]}, "function kind holds JSON"),
        ({**PROGRAM, "test": "assert f(1)"}, r"a text with \{program\} in it exactly once"),
        ({**PROGRAM, "test": "{program}{program}"}, r"a text with \{program\} in it exactly once"),
        (STDIN, "the id 'a' stands twice"),
    ],
)
def test_mistakes_name_file_and_line(tmp_path, row, message):
    with pytest.raises(EvaluationError, match=rf"hidden\.jsonl:2.*{message}"):
        load_hidden(write(tmp_path, STDIN, row))
