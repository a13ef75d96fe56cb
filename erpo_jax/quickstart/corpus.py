"""The pretraining corpus: (request, answer) pairs by fallible programmers, and their packing into rows of fixed length.

A request is exactly what `erpo_jax.problems.Prompts` makes under the templates below, so the policy meets in
pretraining what it meets in training. Two kinds of pair: a program for a problem, and one more input for a problem.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from transformers import PreTrainedTokenizerBase

from erpo_jax.config import PromptConfig
from erpo_jax.problems import Prompts
from erpo_jax.quickstart import inputs
from erpo_jax.quickstart.language import Task, problem, tasks
from erpo_jax.quickstart.programmers import write
from erpo_jax.quickstart.tokenizer import END

# configs/quickstart.yaml repeats these two.
SOLVE_TEMPLATE = "{{ problem.statement }}"
PROBE_TEMPLATE = "{{ problem.statement }} Write one more input."


@dataclass(frozen=True)
class CorpusSize:
    """How much is written: problems, and answers of each kind per problem."""

    problems: int = 8000
    programs: int = 18
    inputs: int = 3


@dataclass(frozen=True)
class Pair:
    """Token ids of a request and of its answer, the end token included."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answer)


@dataclass(frozen=True)
class Rows:
    """Packed pairs. All int32 [R, S]; segment 0 is padding; `answer_rs` is 1 where the token is to be predicted."""

    tokens_rs: np.ndarray
    positions_rs: np.ndarray
    segments_rs: np.ndarray
    answer_rs: np.ndarray


def program_answer(program: str) -> str:
    return f"```python\n{program}\n```"


def input_answer(text: str) -> str:
    return f"```\n{text}\n```"


def prompt_config() -> PromptConfig:
    """The prompt settings that the quickstart policy is trained on."""
    return PromptConfig(solve=SOLVE_TEMPLATE, probe=PROBE_TEMPLATE)


def corpus_tasks(size: CorpusSize, seed: int) -> list[Task]:
    return list(itertools.islice(tasks(seed, "corpus"), size.problems))


def tokenizer_texts(corpus: Sequence[Task], seed: int) -> Iterator[str]:
    """Texts that the merges are learnt from: for each task its two requests' words, a program and an input."""
    rng = Random(f"merges/{seed}")
    for task in corpus:
        yield f"{task.statement()} Write one more input."
        yield write(task, rng).text
        yield inputs.typical(task.source.name, rng)


def make_pairs(corpus: Sequence[Task], size: CorpusSize, tokenizer: PreTrainedTokenizerBase, seed: int) -> list[Pair]:
    """`size.programs` + `size.inputs` pairs for each task, in the order of the tasks."""
    rng = Random(f"pairs/{seed}")
    prompts = Prompts(prompt_config(), tokenizer)
    requests: list[tuple[int, ...]] = []
    answers: list[str] = []
    for index, task in enumerate(corpus):
        stated = problem(task, f"corpus-{index}", seed)
        requests += [prompts.solve(stated).ids] * size.programs + [prompts.probe(stated).ids] * size.inputs
        answers += [program_answer(write(task, rng).text) for _ in range(size.programs)]
        answers += [input_answer(inputs.typical(task.source.name, rng)) for _ in range(size.inputs)]
    ids = tokenizer([answer + END for answer in answers], add_special_tokens=False)["input_ids"]
    return [Pair(request, tuple(answer)) for request, answer in zip(requests, ids, strict=True)]


def batches(pairs: Sequence[Pair], rows: int, row_tokens: int, seed: int) -> Iterator[Rows]:
    """Endless batches of `rows` packed rows; every pass over the pairs has a new order.

    Raises ValueError when a pair is longer than a row.
    """
    longest = max(map(len, pairs))
    if longest > row_tokens:
        raise ValueError(f"the longest pair has {longest} tokens, a row holds {row_tokens}")
    rng = np.random.default_rng(seed)
    waiting: list[list[Pair]] = []
    while True:
        order = rng.permutation(len(pairs))
        for start in range(0, len(order), 1024):
            window = [pairs[index] for index in order[start : start + 1024]]
            waiting += _bins(window, row_tokens)
            rng.shuffle(waiting)  # bins of long pairs come first otherwise
            while len(waiting) >= rows:
                yield _rows(waiting[:rows], row_tokens)
                del waiting[:rows]


def _bins(pairs: Sequence[Pair], capacity: int) -> list[list[Pair]]:
    """First fit, longest first: a few per cent of padding."""
    bins: list[list[Pair]] = []
    free: list[int] = []
    for pair in sorted(pairs, key=len, reverse=True):
        at = next((index for index, left in enumerate(free) if left >= len(pair)), None)
        if at is None:
            bins.append([])
            free.append(capacity)
            at = len(bins) - 1
        bins[at].append(pair)
        free[at] -= len(pair)
    return bins


def _rows(bins: Sequence[Sequence[Pair]], row_tokens: int) -> Rows:
    shape = (len(bins), row_tokens)
    rows = Rows(*(np.zeros(shape, np.int32) for _ in range(4)))
    for r, pairs in enumerate(bins):
        at = 0
        for segment, pair in enumerate(pairs, start=1):
            end = at + len(pair)
            rows.tokens_rs[r, at:end] = pair.prompt + pair.answer
            rows.positions_rs[r, at:end] = np.arange(len(pair))
            rows.segments_rs[r, at:end] = segment
            rows.answer_rs[r, at + len(pair.prompt) : end] = 1
            at = end
    return rows
