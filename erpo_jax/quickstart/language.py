"""Seeded problems of the miniature language: read a list, transform it in one to three steps, print something of it.

A `Task` is the meaning (operations, constants, wordings); `problem` and `hidden_cases` turn it into what the rest of
the project reads. Which tasks may be learnt from and which are held out is decided by `split`, a hash of the
operations in order: a held-out task has a sequence of operations that no example of the pretraining corpus has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from erpo_jax.problems.problem import Example, Problem
from erpo_jax.quickstart import inputs
from erpo_jax.quickstart.operations import FINALS, SOURCES, STEPS, Operation, Source

Split = Literal["corpus", "adapt", "transfer"]
_LENGTHS, _LENGTH_WEIGHTS = (1, 2, 3), (0.25, 0.45, 0.30)
_VARIABLE = "a"


@dataclass(frozen=True)
class Choice:
    """An operation as one task uses it: its wording and its constant (None when it has none)."""

    operation: Operation
    phrase: int
    constant: int | None

    def words(self) -> str:
        return self.operation.phrases[self.phrase].text.format(k=self.constant)

    def code(self, template: str, variable: str) -> str:
        return template.format(v=variable, k=self.constant)


@dataclass(frozen=True)
class Task:
    """What is to be computed: a source, its wording, the steps, and the final that is printed."""

    source: Source
    source_phrase: int
    steps: tuple[Choice, ...]
    final: Choice

    def signature(self) -> str:
        """The operations in order, without wordings and constants."""
        names = [choice.operation.name for choice in (*self.steps, self.final)]
        return "/".join([self.source.gives, *names])

    def split(self) -> Split:
        digit = hashlib.sha256(self.signature().encode()).digest()[0] % 10
        return "adapt" if digit == 0 else "transfer" if digit == 1 else "corpus"

    def statement(self) -> str:
        parts = [
            self.source.phrases[self.source_phrase].text,
            *(step.words() for step in self.steps),
            self.final.words(),
        ]
        return ", ".join(parts[:-1]) + ", then " + parts[-1] + "."

    def reference(self) -> str:
        """The right program in its plainest style."""
        lines = [self.source.right[0].format(v=_VARIABLE)]
        lines += [f"{_VARIABLE} = {step.code(step.operation.right[0], _VARIABLE)}" for step in self.steps]
        return "\n".join([*lines, f"print({self.final.code(self.final.operation.right[0], _VARIABLE)})"])

    def bounds(self) -> tuple[int, ...]:
        """The constants of the task: the values at which near-misses differ."""
        return tuple(choice.constant for choice in self.steps if choice.constant is not None)


def draw_task(rng: Random) -> Task:
    """A random task that is defined on every input of its grammar and whose answer depends on the input."""
    while True:
        task = _draw(rng)
        if task is not None and _is_sensible(task, rng):
            return task


def tasks(seed: int, split: Split) -> Iterator[Task]:
    """Endless tasks of one split, all with different statements."""
    rng = Random(f"tasks/{split}/{seed}")
    seen: set[str] = set()
    while True:
        task = draw_task(rng)
        if task.split() == split and task.statement() not in seen:
            seen.add(task.statement())
            yield task


def problem(task: Task, name: str, seed: int) -> Problem:
    """The task as training sees it: statement, two examples with typical inputs, and the input grammar."""
    rng = Random(f"examples/{name}/{seed}")
    run = runner(task.reference())
    texts = [inputs.typical(task.source.name, rng) for _ in range(2)]
    return Problem(
        id=name,
        statement=task.statement(),
        public_tests=tuple(Example(text, run(text)) for text in texts),
        input_constraints=task.source.grammar,
        source="quickstart",
    )


def hidden_cases(task: Task, name: str, seed: int, count: int = 10) -> list[Example]:
    """`count` cases; inputs differ from each other and from the public examples of `problem(task, name, seed)`.

    About half are typical, the others at the edges (bounds, ties, nothing left).
    """
    rng = Random(f"hidden/{name}/{seed}")
    run = runner(task.reference())
    shown = {example.input for example in problem(task, name, seed).public_tests}
    cases: dict[str, Example] = {}
    while len(cases) < count:
        edge = len(cases) % 2 == 1
        text = inputs.edge(task.source.name, rng, task.bounds()) if edge else inputs.typical(task.source.name, rng)
        if text in shown:
            continue
        try:
            cases.setdefault(text, Example(text, run(text)))
        except (ValueError, IndexError):  # a final that needs items, on an edge input that leaves none
            continue
    return list(cases.values())


def runner(program: str) -> Callable[[str], str]:
    """The program as a function from input text to output text, run in this process: only for programs made here.

    The returned function raises whatever the program raises.
    """
    code = compile(program, "<program>", "exec")

    def run(text: str) -> str:
        lines = iter(text.split("\n"))
        written: list[str] = []

        def write(*values: Any, sep: str = " ", end: str = "\n") -> None:
            written.append(sep.join(map(str, values)) + end)

        exec(code, {"input": lambda: next(lines), "print": write})
        return "".join(written)

    return run


def _draw(rng: Random) -> Task | None:
    source = rng.choices(SOURCES, [source.weight for source in SOURCES])[0]
    kind = source.gives
    steps: list[Choice] = []
    for _ in range(rng.choices(_LENGTHS, _LENGTH_WEIGHTS)[0]):
        operation = rng.choice(STEPS[kind])
        if any(operation.name == step.operation.name for step in steps):
            return None
        steps.append(_choose(operation, rng))
        kind = operation.gives
    final = rng.choice(FINALS[kind])
    if final.needs_items and any(step.operation.thins for step in steps):
        return None
    return Task(source, rng.randrange(len(source.phrases)), tuple(steps), _choose(final, rng))


def _choose(operation: Operation, rng: Random) -> Choice:
    constant = rng.choice(operation.constants) if operation.constants else None
    return Choice(operation, rng.randrange(len(operation.phrases)), constant)


def _is_sensible(task: Task, rng: Random) -> bool:
    """Eight typical inputs give at least four answers, and no step can be left out unnoticed."""
    texts = [inputs.typical(task.source.name, rng) for _ in range(8)]
    answers = _answers(task, texts)
    if answers is None or len(set(answers)) < 4:
        return False
    for index in range(len(task.steps)):
        shorter = Task(task.source, task.source_phrase, task.steps[:index] + task.steps[index + 1 :], task.final)
        if _fits(shorter) and _answers(shorter, texts) == answers:
            return False
    return True


def _fits(task: Task) -> bool:
    kind = task.source.gives
    for step in task.steps:
        if step.operation.takes != kind:
            return False
        kind = step.operation.gives
    return task.final.operation.takes == kind


def _answers(task: Task, texts: list[str]) -> list[str] | None:
    run = runner(task.reference())
    try:
        return [run(text) for text in texts]
    except (ValueError, IndexError):
        return None
