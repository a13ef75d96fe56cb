"""A small byte-level tokenizer with a chat template that behaves like Qwen3's, made without any download."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CHAT = """\
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""


@pytest.fixture(scope="session")
def tokenizer():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator(
        ["def f(a):\n    return a\n", "```python\nprint(input())\n```", "a line of integers"], trainer
    )
    made.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    made.add_special_tokens([AddedToken("<think>", special=True), AddedToken("</think>", special=True)])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=["<|im_start|>", "<think>", "</think>"],
    )
    wrapped.chat_template = CHAT
    return wrapped
