"""Fallible programmers: they write the corpus that the quickstart policy learns from.

Three habits of error, each with a share of its own:
- misreadings are *shared*: their chance belongs to a wording (`operations.Phrase`), so programs that misread agree;
- slips are *private*: a step left out, invented, swapped, a constant or a slice made up; they scatter, so they rarely
agree;
- broken code: a bracket or colon lost, which is a syntax error. A careful writer slips rarely. A hasty one slips in
most programs, mostly by meddling with the list in some line that starts like any other: there are many ways to go
wrong behind one common beginning. Lowering the sampling temperature cannot tell such a beginning from a good one, and
agreement between whole programs can.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from erpo_jax.quickstart.language import Choice, Task
from erpo_jax.quickstart.operations import FINALS, STEPS, Kind


@dataclass(frozen=True)
class Writer:
    """A programmer's habits; every rate is the chance per program (misreadings: a factor on the phrase's own
    chance).
    """

    name: str
    share: float
    variable: str
    spelling: int
    squeezed: bool
    misreading: float
    slip: float
    meddling: float
    broken: float


WRITERS: tuple[Writer, ...] = (
    Writer("plain", 0.25, "a", 0, squeezed=False, misreading=0.85, slip=0.10, meddling=0.02, broken=0.03),
    Writer("varied", 0.25, "v", 1, squeezed=False, misreading=0.85, slip=0.12, meddling=0.02, broken=0.03),
    Writer("hasty", 0.50, "s", 0, squeezed=True, misreading=1.0, slip=0.12, meddling=0.55, broken=0.09),
)


@dataclass(frozen=True)
class Draft:
    """A program and what went wrong in it: any of "misreading", "slip", "meddling", "broken"; empty when it is
    right.
    """

    text: str
    writer: str
    faults: tuple[str, ...]


def write(task: Task, rng: Random, writers: tuple[Writer, ...] = WRITERS) -> Draft:
    """One program for the task by a writer drawn by share."""
    writer = rng.choices(writers, [writer.share for writer in writers])[0]
    faults: list[str] = []
    lines = _lines(task, writer, rng, faults)
    if rng.random() < writer.slip:
        faults.append("slip")
        lines = _slip(lines, task, writer, rng)
    if rng.random() < writer.meddling:
        faults.append("meddling")
        lines.insert(1, _meddle(writer.variable, rng))
    text = "\n".join(lines)
    if writer.squeezed:
        text = _squeeze(text)
    if rng.random() < writer.broken:
        faults.append("broken")
        text = _break(text, rng)
    return Draft(text, writer.name, tuple(faults))


def _lines(task: Task, writer: Writer, rng: Random, faults: list[str]) -> list[str]:
    """One entry per statement of the pipeline (the source may be two lines), misreadings in place."""
    variable = writer.variable
    wording = task.source.phrases[task.source_phrase]
    reading = task.source.right[writer.spelling % len(task.source.right)]
    if wording.chance and rng.random() < wording.chance * writer.misreading:
        faults.append("misreading")
        reading = wording.misread
    lines = [reading.format(v=variable)]
    lines += [f"{variable} = {_expression(step, writer, rng, faults)}" for step in task.steps]
    return [*lines, f"print({_expression(task.final, writer, rng, faults)})"]


def _expression(choice: Choice, writer: Writer, rng: Random, faults: list[str]) -> str:
    phrase = choice.operation.phrases[choice.phrase]
    if rng.random() < phrase.chance * writer.misreading:
        faults.append("misreading")
        return choice.code(phrase.misread, writer.variable)
    spellings = choice.operation.right
    return choice.code(spellings[writer.spelling % len(spellings)], writer.variable)


def _slip(lines: list[str], task: Task, writer: Writer, rng: Random) -> list[str]:
    """A gross error that another programmer would hardly make in the same way."""
    lines = list(lines)
    at = rng.randrange(1, len(lines) - 1)
    match rng.randrange(6):
        case 0:
            lines[at] = f"{writer.variable} = {_any_step(task, at, writer, rng)}"
        case 1:
            lines.insert(at, f"{writer.variable} = {_any_step(task, at, writer, rng)}")
        case 2 if len(lines) > 3:
            del lines[at]
        case 3 if len(lines) > 3:
            other = 1 + at % (len(lines) - 2)
            lines[at], lines[other] = lines[other], lines[at]
        case 4:
            lines[-1] = f"print({_any_final(task, writer, rng)})"
        case _:
            lines[at] = _wrong_number(lines[at], rng) or f"{writer.variable} = {writer.variable}[{rng.randint(1, 9)}]"
    return lines


def _any_step(task: Task, at: int, writer: Writer, rng: Random) -> str:
    kind = _kind_before(task, at)
    operation = rng.choice(STEPS[kind])
    return Choice(operation, 0, rng.choice(operation.constants) if operation.constants else None).code(
        rng.choice(operation.right), writer.variable
    )


def _any_final(task: Task, writer: Writer, rng: Random) -> str:
    return rng.choice(FINALS[task.final.operation.takes]).right[0].format(v=writer.variable)


def _kind_before(task: Task, at: int) -> Kind:
    return task.steps[at - 1].operation.takes if at <= len(task.steps) else task.final.operation.takes


def _wrong_number(line: str, rng: Random) -> str | None:
    numbers = list(re.finditer(r"\d+", line))
    if not numbers:
        return None
    spot = rng.choice(numbers)
    value = int(spot.group()) + rng.choice((-3, -2, -1, 1, 2, 3, 4, 10))
    return f"{line[: spot.start()]}{abs(value)}{line[spot.end() :]}"


def _meddle(variable: str, rng: Random) -> str:
    """A made-up line: all of them start alike, and there are many."""
    low, high = rng.randint(1, 4), rng.randint(1, 3)
    makers = [
        f"[{low}:]",
        f"[:-{high}]",
        f"[{low}:-{high}]",
        f"[::{high + 1}]",
        f"[-{low}:] + {variable}[:-{low}]",
        f"[:{low}] + {variable}[{low + high}:]",
        f"[:{low}] * {high + 1}",
        f"[{low}::{high + 1}]",
    ]
    return f"{variable} = {variable}{rng.choice(makers)}"


def _squeeze(text: str) -> str:
    return re.sub(r" ?(//|\*\*|[=<>!]=|[=<>+\-*/%,:]) ?", r"\1", text)


def _break(text: str, rng: Random) -> str:
    """The text without one of its brackets, colons excepted: a program that does not compile."""
    spots = [spot.start() for spot in re.finditer(r"[()\[\]]", text)]
    at = rng.choice(spots)
    return text[:at] + text[at + 1 :]
