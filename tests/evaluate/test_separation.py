"""Nothing that trains can reach hidden tests: not by an import, not by a problem file, not by a configuration key."""

import ast
import dataclasses
import functools
from pathlib import Path

import pytest

import erpo_jax
from erpo_jax.errors import UserError
from erpo_jax.evaluate.hidden import Case, HiddenTests
from erpo_jax.problems import Problem, load_problems

PACKAGE = Path(erpo_jax.__file__).parent
TRAINING = ("trainer", "probes", "reward", "update", "rollout", "problems", "sandbox", "policy", "experience")


@functools.cache
def modules():
    """Every module of the package outside evaluate/, by dotted name."""
    found = {}
    for file in PACKAGE.rglob("*.py"):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(file.read_text())
    return found


@functools.cache
def imports(tree):
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def reachable(start, graph):
    seen, queue = set(), [start]
    while queue:
        name = queue.pop()
        if name in seen or name not in graph:
            continue
        seen.add(name)
        queue += [target for target in imports(graph[name]) if target.startswith("erpo_jax")]
    return seen


@pytest.mark.parametrize("part", TRAINING)
def test_training_never_reaches_evaluate(part):
    graph = modules()
    starts = [name for name in graph if name == f"erpo_jax.{part}" or name.startswith(f"erpo_jax.{part}.")]
    assert starts, f"erpo_jax.{part} is not there"
    reached = set().union(*(reachable(start, graph) for start in starts))
    assert not [name for name in reached if name.startswith("erpo_jax.evaluate")]


def test_the_walk_finds_a_forbidden_import():
    graph = {
        "erpo_jax.trainer": ast.parse("from erpo_jax import reward"),
        "erpo_jax.reward": ast.parse("def f():\n    from erpo_jax.evaluate import grade"),
        "erpo_jax.evaluate": ast.parse(""),
    }
    assert "erpo_jax.evaluate" in reachable("erpo_jax.trainer", graph)


def test_only_evaluate_reads_the_key_of_the_hidden_file():
    readers = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "hidden" and ast.unparse(node).endswith("evaluate.hidden")
    }
    assert readers == {"erpo_jax.evaluate.session", "erpo_jax.evaluate.transfer"}


def test_a_problem_has_no_place_for_hidden_tests(tmp_path):
    assert not [
        field.name for field in dataclasses.fields(Problem) if "hidden" in field.name or "private" in field.name
    ]


@pytest.mark.parametrize(
    "tests",
    [
        HiddenTests("a", "stdin", (Case("1", "2"),)),
        HiddenTests("a", "function", (Case("[1]", "2"),), "f"),
        HiddenTests("a", "program", (), "f", "{program}\nassert f(1)"),
    ],
)
def test_load_problems_refuses_a_hidden_file(tmp_path, tests):
    file = tmp_path / "hidden.jsonl"
    file.write_text(tests.line() + "\n")
    with pytest.raises(UserError, match=r"hidden\.jsonl"):
        load_problems(file)
