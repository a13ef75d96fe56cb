"""Which texts are inputs of a problem: signatures and layouts, by hand and on real inputs."""

import gzip
import json

import pytest

from erpo_jax.probes.answers import is_cut, read_answer
from erpo_jax.probes.form import form_of
from erpo_jax.probes.signature import Signature
from erpo_jax.problems import Example, Problem


def stdin(*examples: str, statement: str = "Read.") -> Problem:
    return Problem("p", statement, public_tests=tuple(Example(text, "") for text in examples))


def function(starter: str | None, *examples: str) -> Problem:
    tests = tuple(Example(text, "0") for text in examples)
    return Problem("p", "f", "function", "f", starter, tests)


@pytest.mark.parametrize(
    ("problem", "good", "bad"),
    [
        # a count and the list it counts
        (
            stdin("3\n1 2 3\n", "5\n1 2 3 4 5\n"),
            ["1\n7", "0\n", "2\n-1 5\n\n"],
            ["2\n1 2 3", "3 1 2 3", "x\n1", "2\n1.5 2", "1\n1\n1"],
        ),
        # fixed fields of different kinds
        (stdin("bob 3 1.5\n"), ["al 0 2", "9 1 1.0"], ["bob 3", "bob x 1.5", "bob 3.5 1", "bob 3 1.5 4"]),
        # test cases of two lines, the first counting the second
        (
            stdin("2\n3\n1 2 3\n1\n9\n"),
            ["1\n2\n5 5", "3\n1\n1\n1\n2\n1\n3"],
            ["2\n2\n5 5", "1\n2\n5 5 5", "1\n2", "0"],
        ),
        # n among other numbers, then n lines
        (stdin("3 7\nab\ncd\nef\n"), ["1 5\nxy", "2 0\na\nbc"], ["2 7\nab\ncd\nef", "3\na\nb\nc", "2 7\na b\nc"]),
        # one example with many numbers says nothing about how many
        (stdin("4 8 15 16 23\n"), ["1", "1 2 3 4 5 6 7"], ["", "a b", "1\n2"]),
        # three of them may be fields ...
        (stdin("4 8 15\n"), ["1 2 3"], ["1 2", "1 2 3 4"]),
        # ... unless the statement says that they are a list
        (stdin("4 8 15\n", statement="One line with 1 to 9 integers."), ["1 2", "1 2 3 4"], ["a"]),
        # no example: anything printable
        (stdin(), ["anything\ngoes"], ["", " \n", "\x00"]),
    ],
)
def test_layouts(problem, good, bad):
    form = form_of(problem)
    for test in problem.public_tests:
        assert form.read(test.input) == test.input
    for text in good:
        assert form.read(text) is not None, text
    for text in bad:
        assert form.read(text) is None, text


def test_text_is_made_canonical():
    assert form_of(stdin("1\n2 3 4 5\n")).read("1  \r\n2 3 4 5 \r\n\r\n") == "1\n2 3 4 5\n"


@pytest.mark.parametrize(
    ("starter", "good", "bad"),
    [
        (
            "def f(a: int, b: float) -> int:",
            ["[1, 2]", "[1, 2.5]"],
            ["[1]", "[1, 2, 3]", "[1.5, 2]", "[true, 1]", '["1", 1]'],
        ),
        (
            "class Solution:\n    def f(self, s: str, k: int = 1) -> int:\n        ",
            ['["a"]', '["a", 2]'],
            ["[]", "[2]"],
        ),
        ("def f(a: List[List[int]]) -> int:\n    '''Doc.'''\n", ["[[]]", "[[[1], []]]"], ["[1]", "[[[1.5]]]"]),
        ("def f(a: Optional[list[str]], *rest):", ["[null]", '[["x"], 5, 6]'], ["[[1]]", "5"]),
        ("def f(a: Dict[str, int]):", ['[{"x": 1}]'], ['[{"x": "y"}]', "[[1]]"]),
        ("def f(a: 'int | None', b: Union[int, float]):", ["[null, 1.5]", "[3, 1]"], ['[3, "x"]', '["x", 1]']),
        ("def f(a: Tuple[int, str]):", ['[[1, "x"]]'], ["7"]),
    ],
)
def test_signatures(starter, good, bad):
    form = form_of(function(starter))
    for text in good:
        assert form.read(text) == text
    for text in bad:
        assert form.read(text) is None, text


def test_types_without_hints_come_from_the_examples():
    form = form_of(function("def f(items, limit):", '[["a", "b"], 3]', "[[], 4.5]"))
    assert form.read('[["c"], 2]') == '[["c"], 2]'
    assert form.read("[[1], 2]") is None
    assert form.read('["c", 2]') is None
    unknown = form_of(function(None, "[1, 2]"))
    assert unknown.read("[3, 4]") == "[3, 4]"
    assert unknown.read("[3]") is None
    assert form_of(function(None)).read("[1, [2]]") == "[1, [2]]"


@pytest.mark.parametrize(
    "answer",
    [
        "[[1, 2], 3]",
        "([1, 2], 3)",
        "[1, 2], 3",
        "f([1, 2], 3)",
        "a = [1, 2], k = 3",
        "f(a=[1, 2], k=3)",
        '{"a": [1, 2], "k": 3}',
    ],
)
def test_what_small_models_write(answer):
    assert Signature.of(function("def f(a: list[int], k: int):")).read(answer) == [[1, 2], 3]


@pytest.mark.parametrize(
    ("answer", "arguments"),
    [
        ("assert f([1], 2) == 3", [[1], 2]),
        ("f([1], 2)  # smallest\nf([5], 6)", [[1], 2]),
        ("print(f([1, 2 - 1], 2))\nf([5], 6)", [[5], 6]),  # the first whose arguments are written out
        ("f([1], 2)\nf([5], ", [[1], 2]),
        ("def g(): pass\nprint(f( [1],\n  2 ))", [[1], 2]),
        ("[[[1], 2], [[3], 4]]", [[1], 2]),  # several inputs
        ('[{"a": [1], "k": 2}, {"a": [3], "k": 4}]', [[1], 2]),
        ("f([1], 2", None),
        ("f([1], x)", None),
    ],
)
def test_calls(answer, arguments):
    assert Signature.of(function("def f(a: list[int], k: int):")).read(answer) == arguments


def test_parentheses_in_texts():
    signature = Signature.of(function("def f(a: str):"))
    assert signature.read("f(')(')") == [")("]
    assert signature.read('f("it\'s (\\")")') == ["it's (\")"]


def test_a_lone_argument_without_the_outer_list():
    signature = Signature.of(function("def f(a: list[int]):"))
    assert signature.read("[1, 2]") == [[1, 2]]
    assert signature.read("[[1, 2]]") == [[1, 2]]
    assert signature.read("[NaN]") is None
    assert signature.read("[1e999]") is None
    assert signature.read("__import__('os')") is None


def test_answers():
    assert read_answer("Sure!\n```\n1 2\n3\n```\nIt is small.\n```\n9\n```") == "1 2\n3"
    assert read_answer("```json\n[1]\n") == "[1]"
    assert read_answer("[1]\n```\nok", "```json\n") == "[1]"
    assert read_answer(" 4 5\n") == "4 5"
    assert read_answer("<think>\n```\n1\n```\n</think>\n2") == "2"
    assert read_answer("<think>\n```\n1\n```") == ""
    assert read_answer("```\n  1\n2\n```") == "  1\n2"
    assert is_cut("1 2 3")
    assert is_cut("```\n1 2 3")
    assert not is_cut("1 2\n```\nThis input is ", "```\n")


def test_real_inputs_fit_the_form_that_their_examples_show(shared_data):
    """Nearly all hidden inputs are read, and the same inputs with a line or number lost are nearly never."""
    with gzip.open(shared_data / "data" / "codecontests_stdin.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    read = total = damaged = strict = 0
    for row in rows[1:]:  # the first one's hidden inputs break its statement
        form = form_of(
            Problem("p", row["statement"], public_tests=tuple(Example(**test) for test in row["public_tests"]))
        )
        texts = [test["input"] for test in row["hidden_tests"]]
        read += sum(form.read(text) is not None for text in texts)
        total += len(texts)
        if form.layout.block:
            strict += len(texts)
            damaged += sum(form.read(text.rstrip().rsplit("\n", 1)[0]) is not None for text in texts)
    assert read / total > 0.98
    assert strict > 2000
    assert damaged / strict < 0.01


def test_real_arguments_fit_their_signature(shared_data):
    with gzip.open(shared_data / "data" / "lcb_functional.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        form = form_of(Problem("p", "f", "function", row["fn_name"], row["starter_code"]))
        for test in row["hidden_tests"]:
            arguments = [json.loads(line) for line in test["input"].split("\n")]
            assert json.loads(form.read(json.dumps(arguments))) == arguments
            assert form.read(json.dumps([*arguments, 1])) is None
