"""Ask a policy for tests: CodeT's other half. What it writes may be wrong, and is never run as anything but a test."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Sequence

from erpo_jax.evaluate.generations import seed_of
from erpo_jax.evaluate.selection.written import WrittenTest
from erpo_jax.problems import Problem, Prompts
from erpo_jax.rollout import Engine, Sampling

AT_MOST = 5
"""Assertions taken from one answer: the first ones, before a model repeats itself (CodeT does so too)."""

_BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


def write_tests(
    engine: Engine,
    prompts: Prompts,
    problems: Sequence[Problem],
    answers: int,
    sampling: Sampling,
    seed: int,
    most: int,
    max_prompt_tokens: int,
    progress: Callable[[int, int], None],
) -> dict[str, list[WrittenTest]]:
    """Tests by problem id from `answers` answers a problem: the `most` written most often, those first. None where the
    request is too long."""
    asked = [(problem, prompts.tests(problem)) for problem in problems]
    short = [(problem, prompt) for problem, prompt in asked if len(prompt.ids) <= max_prompt_tokens]
    seeds = [seed_of(seed, problem) for problem, _ in short]
    completions = engine.generate([prompt.ids for _, prompt in short], answers, sampling, seeds, progress)
    found: dict[str, list[WrittenTest]] = {problem.id: [] for problem in problems}
    for (problem, prompt), row in zip(short, completions, strict=True):
        texts = [prompt.prefill + prompts.text(completion.token_ids) for completion in row]
        counts = Counter(test for text in texts for test in read_tests(text, problem))
        found[problem.id] = [test for test, _ in counts.most_common(most)]
    return found


def read_tests(answer: str, problem: Problem) -> list[WrittenTest]:
    """The tests in an answer: lines that are an assertion about the entry point, or the first two fenced blocks."""
    answer = answer.replace("\r\n", "\n").rsplit("</think>", 1)[-1]
    if problem.mode == "stdin":
        blocks = _BLOCK.findall(answer)
        return [WrittenTest(input=blocks[0], output=blocks[1])] if len(blocks) > 1 else []
    lines = [line.strip() for line in answer.split("\n")]
    checks = dict.fromkeys(line for line in lines if _asserts(line, problem.entry_point))
    return [WrittenTest(check) for check in checks][:AT_MOST]


def _asserts(line: str, entry_point: str | None) -> bool:
    """Whether the line is an assertion that calls the entry point, and no more than that."""
    if not line.startswith("assert"):
        return False
    try:
        body = ast.parse(line).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    calls = [node for node in ast.walk(body[0]) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return len(body) == 1 and any(isinstance(call.func, ast.Name) and call.func.id == entry_point for call in calls)
