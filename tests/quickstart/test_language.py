"""The problem family: seeded, consistent with itself, held-out means held out."""

import itertools
from random import Random

import pytest

from erpo_jax.problems import load_problems
from erpo_jax.quickstart import Recipe, hidden_cases, problem, tasks, write_held_out
from erpo_jax.quickstart import inputs as grammar
from erpo_jax.quickstart.language import Choice, Task, runner
from erpo_jax.quickstart.operations import FINALS, SOURCES, STEPS


def some(split, count=40, seed=3):
    return list(itertools.islice(tasks(seed, split), count))


def named(kind, name, constant=None, phrase=0):
    operation = next(o for o in (*STEPS[kind], *FINALS[kind]) if o.name == name)
    return Choice(operation, phrase, constant)


def test_a_task_by_hand():
    source = next(s for s in SOURCES if s.name == "line")
    task = Task(source, 0, (named("numbers", "above", 10), named("numbers", "reverse")), named("numbers", "sum"))
    assert task.statement() == (
        "Read a line of integers, keep numbers greater than 10, reverse the order, then print the sum."
    )
    assert task.signature() == "numbers/above/reverse/sum"
    assert task.reference() == (
        "a = list(map(int, input().split()))\na = [x for x in a if x > 10]\na = a[::-1]\nprint(sum(a))"
    )
    assert runner(task.reference())("10 11 -4 30") == "41\n"


def test_the_same_seed_gives_the_same_problems_and_another_seed_others():
    first = [task.statement() for task in some("corpus")]
    assert first == [task.statement() for task in some("corpus")]
    assert first != [task.statement() for task in some("corpus", seed=4)]
    assert len(set(first)) == len(first)


@pytest.mark.parametrize("split", ["adapt", "transfer"])
def test_held_out_sequences_of_operations_are_unseen(split):
    seen = {task.signature() for task in some("corpus", 600)}
    held = {task.signature() for task in some(split, 60)}
    assert not seen & held
    other = "transfer" if split == "adapt" else "adapt"
    assert not held & {task.signature() for task in some(other, 60)}


def test_examples_and_hidden_cases_are_what_the_reference_prints():
    for index, task in enumerate(some("adapt", 30)):
        run = runner(task.reference())
        stated = problem(task, f"p{index}", seed=0)
        cases = hidden_cases(task, f"p{index}", seed=0)
        assert len(stated.public_tests) == 2
        assert len({case.input for case in cases}) == len(cases) == 10
        for example in (*stated.public_tests, *cases):
            assert run(example.input) == example.output
            assert grammar.accepts(task.source.name, example.input)


def test_all_spellings_of_an_operation_mean_the_same():
    rng = Random(0)
    kinds = {"numbers": "line", "words": "words", "letters": "letters"}
    for kind, source in kinds.items():
        for operation in (*STEPS[kind], *FINALS[kind]):
            constant = operation.constants[0] if operation.constants else None
            for _ in range(10):
                text = grammar.typical(source, rng)
                values = {"numbers": lambda t: list(map(int, t.split())), "words": str.split, "letters": list}[kind](
                    text
                )
                shown = [str(eval(f"[{e.format(v='v', k=constant)}]", {"v": values})) for e in operation.right]
                assert len(set(shown)) == 1, operation.name


def test_misreadings_differ_from_the_right_program_somewhere():
    rng = Random(1)
    kinds = {"numbers": "line", "words": "words", "letters": "letters"}
    for kind, source in kinds.items():
        read = {"numbers": lambda t: list(map(int, t.split())), "words": str.split, "letters": list}[kind]
        for operation in (*STEPS[kind], *FINALS[kind]):
            constant = operation.constants[-1] if operation.constants else None
            bounds = (constant,) if constant is not None else ()
            texts = [grammar.edge(source, rng, bounds) for _ in range(300)]
            for phrase in operation.phrases:
                right, wrong = (e.format(v="v", k=constant) for e in (operation.right[0], phrase.misread))
                assert any(behaviour(right, read(t)) != behaviour(wrong, read(t)) for t in [*texts, ""]), phrase.text


def behaviour(expression, values):
    try:
        return str(eval(f"print({expression})", {"v": values, "print": lambda *a, sep=" ": sep.join(map(str, a))}))
    except (ValueError, IndexError, ZeroDivisionError) as error:
        return type(error).__name__


@pytest.mark.parametrize(
    ("source", "good", "bad"),
    [
        ("line", "4 -60 99 0", "4 5 100 6"),
        ("counted", "4\n1 2 3 4", "5\n1 2 3 4"),
        ("range", "120", "2"),
        ("digits", "90210", "01234"),
        ("words", "to be or not", "to be Or not"),
        ("letters", "banana", "ban ana"),
    ],
)
def test_the_grammar_accepts_and_refuses(source, good, bad):
    assert grammar.accepts(source, good)
    assert not grammar.accepts(source, bad)
    assert not grammar.accepts(source, "")


def test_typical_and_edge_inputs_obey_the_grammar():
    rng = Random(2)
    for source in SOURCES:
        for _ in range(200):
            assert grammar.accepts(source.name, grammar.typical(source.name, rng))
            assert grammar.accepts(source.name, grammar.edge(source.name, rng, (6, 29)))


def test_held_out_files_keep_hidden_tests_apart(tmp_path):
    write_held_out(tmp_path / "made", Recipe(held_out=6))
    for prefix in ("", "transfer_"):
        problems = load_problems(tmp_path / "made" / f"{prefix}problems.jsonl")
        assert len(problems) == 6
        text = (tmp_path / "made" / f"{prefix}problems.jsonl").read_text()
        hidden = (tmp_path / "made" / f"{prefix}hidden.jsonl").read_text().splitlines()
        assert len(hidden) == 6
        assert "cases" not in text
