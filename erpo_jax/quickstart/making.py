"""The whole recipe of the quickstart folder: corpus, tokenizer, pretraining, held-out problems, export.

A `Recipe` and nothing else decides the result; on one machine the same recipe gives the same files.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from erpo_jax.errors import UserError
from erpo_jax.policy import export, init, make_mesh
from erpo_jax.problems import save_problems
from erpo_jax.quickstart.corpus import CorpusSize, batches, corpus_tasks, make_pairs, tokenizer_texts
from erpo_jax.quickstart.language import Split, Task, hidden_cases, problem, tasks
from erpo_jax.quickstart.pretrain import Progress, Schedule, generation_config, hf_config, sharpen, spec, train
from erpo_jax.quickstart.tokenizer import save_tokenizer, train_tokenizer


@dataclass(frozen=True)
class Recipe:
    """`held_out` problems are made for each of the two held-out sets, with `hidden` tests each. `sharpen` is the
    temperature that is baked into the weights: sampling at 1 is sampling the trained policy at this."""

    seed: int = 0
    size: CorpusSize = field(default_factory=CorpusSize)
    schedule: Schedule = field(default_factory=Schedule)
    sharpen: float = 0.7
    held_out: int = 64
    hidden: int = 10


def make(out: Path, recipe: Recipe, *, overwrite: bool = False, say: Callable[[str], None] = print) -> Path:
    """Make the folder `out`; it appears whole or not at all. Raises UserError when it is there and `overwrite` is not
    set.
    """
    if out.exists() and not overwrite:
        raise UserError(f"{out} exists; choose another folder, or --overwrite to replace it")
    corpus = corpus_tasks(recipe.size, recipe.seed)
    tokenizer = train_tokenizer(tokenizer_texts(corpus, recipe.seed))
    pairs = [
        pair
        for pair in make_pairs(corpus, recipe.size, tokenizer, recipe.seed)
        if len(pair) <= recipe.schedule.row_tokens
    ]
    say(f"corpus: {len(corpus)} problems, {len(pairs)} pairs, {sum(map(len, pairs)) / len(pairs):.0f} tokens a pair")
    with tempfile.TemporaryDirectory(dir=out.absolute().parent) as scratch:
        source = Path(scratch) / "source"
        save_tokenizer(tokenizer, source)
        _write_json(source / "config.json", hf_config())
        _write_json(source / "generation_config.json", generation_config())
        policy = init(spec(), make_mesh(), recipe.seed, source, remat=False)

        def report(at: Progress) -> None:
            left = at.seconds / at.step * (at.steps - at.step)
            say(f"step {at.step}/{at.steps}   loss {at.loss:.4f} nats a token   {at.seconds:.0f} s, {left:.0f} s left")

        stream = batches(pairs, recipe.schedule.rows, recipe.schedule.row_tokens, recipe.seed)
        params = train(policy.graphdef, policy.params, stream, recipe.schedule, report)
        made = export(policy.with_params(sharpen(params, recipe.sharpen)), Path(scratch) / "made")
        # In a folder of their own: an export copies side files and must never carry hidden tests.
        write_held_out(made / "problems", recipe)
        if out.exists():
            shutil.rmtree(out)
        return made.replace(out)


def write_held_out(folder: Path, recipe: Recipe) -> None:
    """problems.jsonl and hidden.jsonl, and the transfer_ pair: tasks whose operations no corpus task has in this
    order.
    """
    folder.mkdir()
    splits: tuple[tuple[Split, str], ...] = (("adapt", ""), ("transfer", "transfer_"))
    for split, prefix in splits:
        held: list[Task] = list(itertools.islice(tasks(recipe.seed, split), recipe.held_out))
        names = [f"quickstart-{split}-{index:03d}" for index in range(len(held))]
        stated = [problem(task, name, recipe.seed) for task, name in zip(held, names, strict=True)]
        save_problems(folder / f"{prefix}problems.jsonl", stated)
        _write_lines(
            folder / f"{prefix}hidden.jsonl",
            (
                {
                    "id": name,
                    "kind": "stdin",
                    "cases": [
                        {"input": case.input, "output": case.output}
                        for case in hidden_cases(task, name, recipe.seed, recipe.hidden)
                    ],
                }
                for task, name in zip(held, names, strict=True)
            ),
        )


def _write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _write_lines(file: Path, rows: Iterable[object]) -> None:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
