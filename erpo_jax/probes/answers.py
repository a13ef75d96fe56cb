"""From the policy's answer to the input in it."""

from __future__ import annotations

import re

_BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_CLOSED = re.compile(r"^[ \t]*```[^\n`]*\n.*?^[ \t]*```", re.MULTILINE | re.DOTALL)


def read_answer(text: str, prefill: str = "") -> str:
    """The text of the first fenced block of an answer; without a fence the whole answer, blanks around it cut.

    `prefill` is the part of the answer that was written for the model. Thinking is not part of the answer.
    """
    answer = _spoken(prefill + text)
    block = _BLOCK.search(answer)
    return (block[1] if block else answer).strip("\n").rstrip() if block else answer.strip()


def is_cut(text: str, prefill: str = "") -> bool:
    """True when an answer that hit the length limit has lost a part of its input: no block of it was closed."""
    return _CLOSED.search(_spoken(prefill + text)) is None


def _spoken(answer: str) -> str:
    answer = answer.replace("\r\n", "\n").rsplit("</think>", 1)[-1]
    return "" if answer.lstrip().startswith("<think>") else answer
