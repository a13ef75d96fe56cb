"""A byte-level tokenizer, an engine that says what a test tells it to, and a sandbox for the whole session."""

from collections.abc import Callable

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from erpo_jax.config import Config, PromptConfig
from erpo_jax.problems import Prompts
from erpo_jax.rollout import Completion
from erpo_jax.sandbox import Sandbox


@pytest.fixture(scope="session")
def tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<end>"])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")


@pytest.fixture(scope="session")
def sandbox():
    with Sandbox(workers=1) as made:
        yield made


class ScriptedEngine:
    """Answers by a function of (request text, number of the answer to this request so far). Records every request."""

    weights_version = 0

    def __init__(self, tokenizer, answer: Callable[[str, int], str | None]):
        self.tokenizer = tokenizer
        self.answer = answer
        self.asked: dict[str, int] = {}
        self.calls: list[tuple[list[str], int, list[int]]] = []

    def generate(self, prompts, n, sampling, seeds, progress=None):
        texts = [self.tokenizer.decode(list(ids)) for ids in prompts]
        if progress is not None:
            progress(0, n * len(texts))
        self.calls.append((texts, n, list(seeds)))
        return [[self._complete(text, sampling.max_new_tokens) for _ in range(n)] for text in texts]

    def _complete(self, text: str, limit: int) -> Completion:
        kind = text.split(" accepted")[0]
        number = self.asked.get(kind, 0)
        self.asked[kind] = number + 1
        answer = self.answer(text, number)
        if answer is None:
            return Completion((), (), "lost", 0)
        ids = tuple(self.tokenizer(answer)["input_ids"])
        reason = "stop" if len(ids) <= limit else "length"
        return Completion(ids[:limit], (0.0,) * len(ids[:limit]), reason, 0)


@pytest.fixture
def scripted(tokenizer):
    return lambda answer: ScriptedEngine(tokenizer, answer)


@pytest.fixture
def config(tmp_path):
    """Small numbers, and requests that name the problem: `solve ID`, `probe ID accepted N`, `check ID`."""
    made = Config()
    made.prompt = PromptConfig(
        style="raw",
        solve="solve {{ problem.id }}",
        probe="probe {{ problem.id }} accepted {{ accepted | length }}",
        check="check {{ problem.id }}",
    )
    made.probes.store = str(tmp_path / "store")
    made.probes.count = 4
    made.probes.attempts = 2
    made.probes.batch = 2
    made.probes.trial_programs = 2
    made.probes.max_new_tokens = 60
    made.rollout.max_new_tokens = 400
    return made


@pytest.fixture
def prompts(config, tokenizer):
    return Prompts(config.prompt, tokenizer)
