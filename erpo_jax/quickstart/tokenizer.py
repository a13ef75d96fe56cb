"""The quickstart policy's own tokenizer: byte-level BPE of 768 entries with a chat template, as a transformers folder.

Every byte has an entry, so any text can be encoded. Merges cross blanks (idioms become single entries, which halves
the length of programs), but neither line ends, commas between phrases, assignments nor digits: a constant is copied
digit by digit. Fences are entries of their own. Left out: a system turn of its own (its text is written as a user
turn).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY, MAX_TOKENS = 768, 512
END, PAD, USER, ASSISTANT = "<|end|>", "<|pad|>", "<|user|>", "<|assistant|>"
_NEVER_MERGED = r"\n|, (then )?|[a-z]+=| = "
FENCES = ("```python\n", "```\n", "\n```")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|assistant|>' if message['role'] == 'assistant' else '<|user|>' }}{{ message['content'] }}<|end|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Merges learnt from `texts`; ids 0 to 3 are END, PAD, USER, ASSISTANT, the fences come next."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Split(Regex(_NEVER_MERGED), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[END, PAD, USER, ASSISTANT, *FENCES],
    )
    tokenizer.train_from_iterator(texts, trainer)
    # Fences are text: an added token that is not special stays when special tokens are dropped.
    tokenizer.add_tokens([AddedToken(fence, special=False, normalized=False) for fence in FENCES])
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[USER, ASSISTANT],
        model_max_length=MAX_TOKENS,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: str | Path) -> None:
    """Write the files that `transformers.AutoTokenizer.from_pretrained(folder)` reads, versions 4 and 5, without a
    network.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    tokenizer.backend_tokenizer.save(str(Path(folder) / "tokenizer.json"))
    config = {
        # Version 5 writes a class name and a list that version 4 cannot read; both read these.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "additional_special_tokens": [USER, ASSISTANT],
        "model_max_length": MAX_TOKENS,
        "clean_up_tokenization_spaces": False,
    }
    (Path(folder) / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (Path(folder) / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
