"""HumanEval+ and MBPP+: EvalPlus's comparison, its special tasks, and references against their own tests."""

import gzip
import json
import math

import pytest

from erpo_jax.evaluate.benchmarks import BadRow, evalplus
from erpo_jax.evaluate.benchmarks.evalplus_check import check
from erpo_jax.evaluate.grade import Grader
from erpo_jax.evaluate.probing import inputs_of
from erpo_jax.sandbox import Sandbox


def agrees(expected, found, atol=0, rule=None, arguments=()):
    try:
        check(lambda *_: found, lambda *_: expected, [list(arguments)], atol, rule)
    except (AssertionError, TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize(
    ("expected", "found", "atol", "passes"),
    [
        (3, 3, 0, True),
        (3, 4, 0, False),
        (0.3, 0.1 + 0.2, 0, True),  # a float raises atol 0 to 1e-6
        (1.0, 1.00001, 0, False),
        (1.0, 1.00001, 1e-4, True),
        (1e9, 1e9 + 90, 1e-4, True),  # rtol 1e-7 beside it
        (1e9, 1e9 + 110, 1e-4, False),
        ([1.0, 2.0], [1.0, 2.0 + 1e-8], 0, True),
        ([1.0, 2.0], (1.0, 2.0 + 1e-8), 0, False),  # other type
        ([1.0, 2.0], [1.0 + 1e-9], 0, False),
        ([1.0, "a"], [1.0 + 1e-9, "a"], 0, False),  # not all floats: exact
        (math.inf, 1.0, 0, False),
        (math.inf, math.inf, 0, True),
        (math.nan, math.nan, 0, False),
        ("a", "b", 1e-4, False),
        ((1, 2), [1, 2], 0, False),
        (True, 1, 0, True),
    ],
)
def test_comparison(expected, found, atol, passes):
    assert agrees(expected, found, atol) is passes


@pytest.mark.parametrize(
    ("rule", "expected", "found", "arguments", "passes"),
    [
        ("root", None, 2.0, [[-2.0, 1.0]], True),
        ("root", None, 2.1, [[-2.0, 1.0]], False),
        ("anything", 1, 2, [], True),
        ("or zero", 5, 0, [7], True),
        ("or zero", 5, 4, [7], False),
        ("pyramid", 33, 24, [3, 2], True),  # 9 + 2*3*2.5
        ("pyramid", 33, 25, [3, 2], False),
        ("digit by digit", 6, 12, [1, 256], True),  # |0-2| + |0-5| + |1-6|
        ("digit by digit", 6, 10, [1, 256], False),
        ("as sets", (4, 5), [5, 4], [], True),
        ("as sets", (4, 5), (5,), [], False),
        ("not none", True, "match", [], True),
        ("not none", None, "match", [], False),
        ("not none", False, False, [], True),
    ],
)
def test_special_tasks(rule, expected, found, arguments, passes):
    assert agrees(expected, found, 1e-4 if rule == "root" else 0, rule, arguments) is passes


def test_the_tolerance_stays_once_a_float_was_seen():
    """EvalPlus's own quirk: 7 and 7 + 1e-9 of another input are compared within 1e-6 after a float."""
    outputs = {1: (0.5, 0.5), 2: (7.0, 7.0 + 1e-9), 3: (7, 7)}
    check(lambda x: outputs[x][1], lambda x: outputs[x][0], [[1], [2], [3]], 0)
    with pytest.raises(AssertionError):
        check(lambda x: 7 + 1e-9, lambda x: 7, [[3]], 0)


def test_a_candidate_may_change_its_arguments():
    check(lambda x: x.pop(), lambda x: x.pop(), [[[1, 2]]], 0)


def rows_of(file):
    with gzip.open(file, "rt") as stream:
        return [json.loads(line) for line in stream]


def row(task, inputs, **changes):
    return {"task_id": task, "prompt": '"""\nDo.\nassert f(1) == 1\n"""\n', "entry_point": "f", "base_input": inputs,
            "canonical_solution": "\ndef f(*a):\n    return a\n", "plus_input": [], "atol": 0} | changes  # fmt: skip


@pytest.mark.parametrize(
    ("task", "arguments", "restored"),
    [
        ("Mbpp/3", [[1, 2]], "[[1, 2]]"),
        ("Mbpp/2", [[1], [2]], "[(1,), (2,)]"),
        ("Mbpp/63", [[[1, 2]]], "[[(1, 2)]]"),
        ("Mbpp/75", [[[1], [2]], 3], "[[(1,), (2,)], 3]"),
        ("Mbpp/106", [[1], [2]], "[[1], (2,)]"),
        ("Mbpp/115", [[[1], []]], "[[{1}, {}]]"),
        ("Mbpp/124", ["1", "2j"], "[1.0, 2j]"),
        ("Mbpp/250", [[1], 2], "[(1,), 2]"),
        ("Mbpp/307", [[1], 2, 3], "[(1,), 2, 3]"),
        ("Mbpp/252", ["1+2j"], "[(1+2j)]"),
        ("Mbpp/259", [[[1], [2]], [[3]]], "[((1,), (2,)), ((3,),)]"),
        ("Mbpp/278", [[1, [2]]], "[(1, (2,))]"),
        ("Mbpp/580", [[1, [2, [3]]]], "[(1, (2, (3,)))]"),
        ("Mbpp/722", [{"a": [1, 2]}, 3], "[{'a': (1, 2)}, 3]"),
    ],
)
def test_arguments_that_json_flattened(task, arguments, restored):
    _, tests, _ = evalplus.split_mbpp(row(task, [arguments]), "")
    code = tests.test.partition("def _inputs")[2].partition("_check, _reference")[0]
    space = {}
    exec("def _inputs" + code, space)  # our own text
    assert repr(space["_inputs"]()) == f"[{restored}]"


def test_inputs_of_a_check():
    """For probes: each once, and none of a task whose arguments JSON has flattened."""
    _, tests, _ = evalplus.split_mbpp(row("Mbpp/3", [[1, "it's"], [2, '"'], [1, "it's"]], plus_input=[[3, "x"]]), "")
    assert inputs_of(tests) == ('[1, "it\'s"]', '[2, "\\""]', '[3, "x"]')
    _, tests, _ = evalplus.split_mbpp(row("Mbpp/2", [[[1], [2]]]), "")
    assert inputs_of(tests) == ()


def test_layouts_of_the_hub():
    human = {
        "task_id": "HumanEval/0",
        "prompt": 'def f(x):\n    """ f """\n',
        "entry_point": "f",
        "test": "def check(c):\n    assert c(1)",
    }
    views = evalplus.split_humaneval(human | {"canonical_solution": "    return x\n"}, "")
    assert views.tests.test.endswith("check(f)\n")
    with pytest.raises(BadRow, match="find_zero passes for no root"):
        evalplus.split_humaneval(human | {"canonical_solution": "    return x\n", "task_id": "HumanEval/32"}, "")
    basic = {"task_id": 2, "code": "def f(x):\n    return x", "prompt": "Do.", "test_imports": ["import math"],
             "test_list": ["assert f(1) == 1", "assert f(2) == 2"], "test": "assert f(3) == 3"}  # fmt: skip
    views = evalplus.split_mbpp(basic, "v1")
    assert (views.problem.id, views.problem.source) == ("Mbpp/2", "evalplus mbpp v1")
    assert views.tests.test == "import math\n{program}\nassert f(3) == 3\n"
    limits = [evalplus.split_mbpp(row(task, [[1]]), "").problem for task in ("Mbpp/2", "Mbpp/599")]
    assert [(one.time_limit_s, one.memory_limit_mb) for one in limits] == [(20.0, 4096), (120.0, 4096)]
    with pytest.raises(BadRow, match="not both empty"):
        evalplus.split_mbpp(row("Mbpp/2", []), "")


def test_references_pass_and_others_fail(shared_data):
    """Every 20th problem of both sets, by the full rule in the sandbox: the reference, and one that returns nothing."""
    data = shared_data / "data"
    views = [evalplus.split_humaneval(one, "") for one in rows_of(data / "humaneval_plus.jsonl.gz")[12::20]]
    views += [evalplus.split_mbpp(one, "") for one in rows_of(data / "mbpp_plus.jsonl.gz")[::20]]
    with Sandbox(workers=2) as sandbox:
        grader = Grader(sandbox, [one.problem for one in views], {one.problem.id: one.tests for one in views})
        verdicts = grader.grade(
            {one.problem.id: [one.solutions[0].program, f"def {one.problem.entry_point}(*a): pass"] for one in views}
        )
    assert len(views) == 8 + 19
    assert {name: row for name, row in verdicts.items() if row != [True, False]} == {}
