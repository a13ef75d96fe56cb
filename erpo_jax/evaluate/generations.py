"""Sample programs for problems, and keep them in a file so that they can be graded again.

A file of generations is JSON Lines (zstd when the name ends in .zst): a header, then one line a problem with its
answers. Token ids and log-probs are dropped as soon as a block of problems is done: memory holds texts only.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import zstandard

from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.problems import Problem, Prompts, extract_program
from erpo_jax.rollout import Engine, Sampling

FORMAT = "erpo_jax.generations/1"
BLOCK = 2048
"""Answers per call of the engine, at least: enough to keep any batch full."""


@dataclass(frozen=True)
class Answer:
    """One answer: its text, the program in it (None: there is none), why it ended, its length in tokens."""

    text: str
    program: str | None
    finish_reason: str
    tokens: int


def seed_of(seed: int, problem: Problem) -> int:
    """The sampling seed of a problem: the same whatever other problems are measured beside it. In [0, 2^31)."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{problem.id}".encode()).digest()[:4], "big") >> 1


def fitting(problems: Sequence[Problem], prompts: Prompts, max_prompt_tokens: int) -> tuple[list[Problem], list[str]]:
    """The problems whose prompt fits, and the ids of those whose prompt is too long (to be named, not measured)."""
    fits = [len(prompts.solve(problem).ids) <= max_prompt_tokens for problem in problems]
    kept = [problem for problem, fit in zip(problems, fits, strict=True) if fit]
    return kept, [problem.id for problem, fit in zip(problems, fits, strict=True) if not fit]


def generate(
    engine: Engine,
    prompts: Prompts,
    problems: Sequence[Problem],
    n: int,
    sampling: Sampling,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[Answer]]:
    """`n` answers for each problem, by problem id. `progress(done, total)` counts answers."""
    answers: dict[str, list[Answer]] = {}
    size, total = max(1, -(-BLOCK // n)), len(problems) * n
    for start in range(0, len(problems), size):
        block = problems[start : start + size]
        asked = [prompts.solve(problem) for problem in block]
        completions = engine.generate(
            [prompt.ids for prompt in asked],
            n,
            sampling,
            [seed_of(seed, problem) for problem in block],
            None if progress is None else _shifted(progress, start * n, total),
        )
        for problem, prompt, row in zip(block, asked, completions, strict=True):
            texts = [prompts.text(completion.token_ids) for completion in row]
            answers[problem.id] = [
                Answer(text, extract_program(text, prompt.prefill), completion.finish_reason, len(completion.token_ids))
                for text, completion in zip(texts, row, strict=True)
            ]
    return answers


def _shifted(progress: Callable[[int, int], None], offset: int, total: int) -> Callable[[int, int], None]:
    return lambda done, _: progress(offset + done, total)


def save_generations(path: str | Path, header: Mapping[str, Any], answers: Mapping[str, Sequence[Answer]]) -> None:
    """Write answers by problem id below a header (temperature, seed, policy and the like)."""
    file = Path(path)
    lines = [json.dumps({"format": FORMAT, **header}, ensure_ascii=False)]
    lines += [
        json.dumps({"id": name, "answers": [asdict(one) for one in row]}, ensure_ascii=False)
        for name, row in answers.items()
    ]
    data = ("\n".join(lines) + "\n").encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_bytes(zstandard.ZstdCompressor(level=6).compress(data) if file.suffix == ".zst" else data)
    part.replace(file)


def is_generations(path: str | Path) -> bool:
    """Whether the file begins as `save_generations` begins one (also when it is broken further on)."""
    file = Path(path)
    if not file.is_file():
        raise EvaluationError(f"there is no file of generations {file}")
    with file.open("rb") as stream:
        return file.suffix == ".zst" or FORMAT.partition("/")[0].encode() in stream.readline(1000)


def load_generations(path: str | Path) -> tuple[dict[str, Any], dict[str, list[Answer]]]:
    """The header and the answers of a file that `save_generations` wrote. Raises EvaluationError with file and line."""
    file = Path(path)
    if not file.is_file():
        raise EvaluationError(f"there is no file of generations {file}")
    try:
        data = file.read_bytes()
        if file.suffix == ".zst":
            data = zstandard.ZstdDecompressor().stream_reader(data).read()
        texts = data.decode().removesuffix("\n").split("\n")  # not splitlines(): a text may hold U+2028 and its like
        header = json.loads(texts[0])
    except (ValueError, IndexError, RecursionError, zstandard.ZstdError) as error:
        raise EvaluationError(f"{file} is not a file of generations: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise EvaluationError(f"{file}:1: is not a file of generations: its first line must say format {FORMAT!r}")
    temperature = header.get("temperature")
    known = isinstance(temperature, (int, float)) and 0 <= temperature < math.inf
    if not known or not isinstance(header.get("policy"), str):
        raise EvaluationError(f"{file}:1: must name its policy and its temperature, a number of at least 0")
    answers: dict[str, list[Answer]] = {}
    for number, line in enumerate(texts[1:], 2):
        try:
            row = json.loads(line)
            name, found = row["id"], [_answer(one) for one in row["answers"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise EvaluationError(f"{file}:{number}: not a line of generations: {error}") from error
        if not isinstance(name, str) or name in answers:
            raise EvaluationError(f"{file}:{number}: the id {name!r} is no text, or stands twice in this file")
        answers[name] = found
    return header, answers


def _answer(row: dict[str, Any]) -> Answer:
    answer = Answer(**row)
    for name, allowed in (("text", str), ("program", (str, type(None))), ("finish_reason", str), ("tokens", int)):
        if not isinstance(getattr(answer, name), allowed):
            raise TypeError(f"{name} is {getattr(answer, name)!r:.40}")
    return answer
