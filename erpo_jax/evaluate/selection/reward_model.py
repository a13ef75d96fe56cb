"""Scores of programs by a reward model: any Hugging Face sequence-classification model with one output.

The model reads the problem and the answer as a chat where its tokenizer has a chat template, else as one text after the
other. torch does the work and is imported here alone (`pip install 'erpo_jax[reward-model]'`). Left out: models with
several outputs, and models that need a prompt of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from erpo_jax.errors import UserError
from erpo_jax.evaluate.selection.selectors import Scores
from erpo_jax.policy import load_tokenizer, resolve
from erpo_jax.problems import Problem


class RewardModelError(UserError):
    """A reward model that cannot be loaded, or is none."""


class RewardModel:
    """A reward model in memory. `path` is a folder or a hub id; on a GPU where torch sees one.

    Raises RewardModelError when torch is missing, the model cannot be loaded, or has not exactly one output, and
    CheckpointError for a path that is none.
    """

    def __init__(self, path: str, *, batch: int = 8, max_tokens: int = 4096):
        try:
            import torch
            from transformers import AutoModelForSequenceClassification
        except ImportError as error:
            raise RewardModelError(
                f"a reward model needs torch: pip install 'erpo_jax[reward-model]' ({error})"
            ) from error
        folder = resolve(path)
        self._tokenizer = load_tokenizer(folder)
        try:
            loaded: Any = AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise RewardModelError(f"{path} cannot be loaded as a reward model: {error}") from error
        model, info = loaded
        if info["missing_keys"]:  # which transformers fills with random numbers
            lacking = ", ".join(sorted(info["missing_keys"])[:3])
            raise RewardModelError(f"{path} is no sequence-classification model: its weights lack {lacking}")
        if model.config.num_labels != 1:
            raise RewardModelError(f"{path} has {model.config.num_labels} outputs; a reward model has one")
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        model.config.pad_token_id = self._tokenizer.pad_token_id  # where a decoder's last token is looked for
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = model.eval().to(self._device)
        self._batch, self._max_tokens = batch, max_tokens
        self.cut = 0
        """Texts so far that were longer than `max_tokens` and lost their end."""

    def scores(self, problem: Problem, programs: Sequence[str | None]) -> Scores:
        """A score for each program; -inf without one. Equal programs are read once."""
        import torch

        found: dict[str | None, float] = {None: -np.inf}
        # Long beside long: little padding.
        distinct = sorted({program for program in programs if program is not None}, key=len)
        for start in range(0, len(distinct), self._batch):
            chunk = distinct[start : start + self._batch]
            ids = [self._ids(problem, program) for program in chunk]
            padded = self._tokenizer.pad({"input_ids": ids}, return_tensors="pt").to(self._device)
            with torch.inference_mode():
                logits = self._model(**padded).logits[:, 0]
            found.update(zip(chunk, logits.float().tolist(), strict=True))
        return np.asarray([found[program] for program in programs])

    def _ids(self, problem: Problem, program: str) -> list[int]:
        answer = f"```python\n{program.strip()}\n```"
        if self._tokenizer.chat_template:
            messages = [{"role": "user", "content": problem.statement}, {"role": "assistant", "content": answer}]
            text = str(self._tokenizer.apply_chat_template(messages, tokenize=False))
            ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        else:
            ids = self._tokenizer(f"{problem.statement}\n\n{answer}")["input_ids"]
        self.cut += len(ids) > self._max_tokens
        return list(ids)[: self._max_tokens]
