"""Requests to the policy: for a program, for one more input, for an input checker, for tests. Text is tokenised exactly
once.

The probe request never asks for an output; the request for tests does, and only evaluation makes it. Left out: few-shot
examples (a template of the user's can hold them) and truncation (a prompt that is too long is the caller's to leave out
and name).
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.meta
import jinja2.nodes

from erpo_jax.config import PromptConfig
from erpo_jax.errors import UserError
from erpo_jax.problems.problem import Example, Problem

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_STATEMENT = """\
{{ problem.statement.strip() }}
{% if problem.input_constraints and problem.input_constraints.strip() not in problem.statement %}

Input: {{ problem.input_constraints.strip() }}
{% endif %}
{% if problem.starter_code and problem.starter_code.strip() not in problem.statement %}

```python
{{ problem.starter_code.rstrip() }}
```
{% endif %}
"""

_EXAMPLES = """\
{% for test in problem.public_tests[:3] if test.input.strip() not in problem.statement %}

Example input:
{{ test.input.rstrip() }}
Example output:
{{ test.output.rstrip() }}
{% endfor %}
"""

SOLVE = (
    _STATEMENT
    + """\
{% if problem.mode == "stdin" %}
"""
    + _EXAMPLES
    + """\

Write a Python program that solves this problem. It reads standard input and writes standard output. Answer with one \
```python block that holds the whole program.
{% else %}

Write the Python function `{{ problem.entry_point }}` that solves this problem. Answer with one ```python block that \
holds {{ "the code above, completed" if problem.starter_code else "the whole function" }}.
{% endif %}
"""
)

PROBE = (
    """\
Here is a programming problem. Do not solve it.

"""
    + _STATEMENT
    + """\
{% if problem.public_tests or accepted %}

Inputs that exist already:
{% for text in (problem.public_tests | map(attribute="input") | list + accepted)[-8:] %}
```
{{ text.rstrip() if problem.mode == "stdin" else text | call(problem.entry_point) }}
```
{% endfor %}
{% endif %}

Write one more valid input for this problem that a careful tester would add. It must obey every limit the problem \
states, be small enough to check by hand, and differ in structure from the inputs above: other lengths, orders, signs, \
repeats, or boundary values.
{% if problem.mode == "stdin" %}
Answer with one ``` block that holds the exact text of standard input, and nothing else.
{% else %}
Answer with one ```python block that holds one call of `{{ problem.entry_point }}` with its arguments written out, and \
nothing else.
{% endif %}
"""
)

CHECK = (
    """\
Here is a programming problem. Do not solve it.

"""
    + _STATEMENT
    + """\
{% for test in problem.public_tests[:3] %}

A valid input:
```
{{ test.input.rstrip() }}
```
{% endfor %}

Write a Python function `is_valid(text: str) -> bool` that says whether a text is a valid input for this problem: the \
format is right and every limit the problem states holds.
{% if problem.mode == "stdin" %}
`text` is the whole standard input.
{% else %}
`text` is a JSON list of the arguments of `{{ problem.entry_point }}`.
{% endif %}
Answer with one ```python block that holds the function.
"""
)

TESTS = (
    """\
Here is a programming problem. Do not solve it.

"""
    + _STATEMENT
    + """\

{% if problem.mode == "stdin" %}
Write one test for this problem: a small valid input and the output that a right program prints for it. Answer with \
two ``` blocks, the exact text of standard input first and the exact text of standard output second, and nothing else.
{% else %}
Write five tests for `{{ problem.entry_point }}`, each one line of the form \
`assert {{ problem.entry_point }}(...) == ...` with arguments and value written out. Answer with one ```python block \
that holds the five lines, and nothing else.
{% endif %}
"""
)

CHECK_HEAD = "def is_valid(text: str) -> bool:"


class PromptError(UserError):
    """A prompt template or a tokenizer that cannot be used: the message names the configuration key."""


@dataclass(frozen=True)
class Prompt:
    """Token ids of one request. `prefill` is the end of its text, where the answer begins; `extract_program` takes
    it."""

    ids: tuple[int, ...]
    prefill: str = ""


class Prompts:
    """Makes the prompts of one run, and the text of its answers.

    Raises PromptError at once for a template that does not parse or uses a name that does not exist, and for a
    tokenizer without a chat template under `prompt.style=chat`.
    """

    def __init__(self, config: PromptConfig, tokenizer: PreTrainedTokenizerBase):
        self._config = config
        self._tokenizer = tokenizer
        self._solve, self._probe, self._check = _templates(config)
        if config.style == "chat" and not getattr(tokenizer, "chat_template", None):
            raise PromptError("prompt.style=chat: this tokenizer has no chat template; use prompt.style=raw")
        # Some tokenizers drop a blank at the start of what they decode; behind an anchor they do not.
        self._anchor: list[int] = list(tokenizer("x", add_special_tokens=False)["input_ids"])
        kept = {"<think>", "</think>"}  # program extraction needs to see where thinking ends
        special = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
        self._special = frozenset(number for token, number in special if token not in kept)

    def solve(self, problem: Problem) -> Prompt:
        """The request for a program. With `prompt.prefill` the answer begins with a fence and the starter code."""
        text = _render("prompt.solve", self._solve, problem)
        prefill = ""
        if self._config.prefill:
            # Without its last newline: after a newline weak models take the function for finished.
            prefill = "```python\n" + (problem.starter_code or "").rstrip()
        return self._prompt(text, prefill)

    def probe(self, problem: Problem, accepted: Sequence[str] = ()) -> Prompt:
        """The request for one more input, given the inputs `accepted` so far (texts). Never asks for an output."""
        text = _render("prompt.probe", self._probe, problem, accepted=list(accepted))
        # Up to the name and not to its parenthesis: "([" is one token to many tokenizers, which "(" would rule out.
        begin = "```\n" if problem.mode == "stdin" else f"```python\n{problem.entry_point}"
        return self._prompt(text, begin if self._config.prefill else "")

    def check(self, problem: Problem) -> Prompt:
        """The request for `is_valid(text) -> bool`, a program that judges inputs."""
        text = _render("prompt.check", self._check, problem)
        return self._prompt(text, f"```python\n{CHECK_HEAD}" if self._config.prefill else "")

    def tests(self, problem: Problem) -> Prompt:
        """The request for tests, inputs with outputs: assertions in function mode, two blocks for standard input."""
        text = _render("the request for tests", _environment().from_string(TESTS), problem)
        begin = "```\n" if problem.mode == "stdin" else f"```python\nassert {problem.entry_point}"
        return self._prompt(text, begin if self._config.prefill else "")

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of generated ids, without special tokens (thinking marks stay)."""
        ids = [number for number in token_ids if number not in self._special]
        options: dict[str, Any] = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        anchor = str(self._tokenizer.decode(self._anchor, **options))
        return str(self._tokenizer.decode(self._anchor + ids, **options))[len(anchor) :]

    def _prompt(self, request: str, prefill: str) -> Prompt:
        if self._config.style == "raw":
            text = f"{request}\n\n{prefill}" if prefill else request
            return Prompt(tuple(self._tokenizer(text)["input_ids"]), prefill)
        messages = [{"role": "system", "content": self._config.system}] if self._config.system is not None else []
        messages.append({"role": "user", "content": request})
        try:
            chat = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        except jinja2.TemplateError as error:
            raise PromptError(f"the chat template refused the request ({error}); try prompt.system=null") from error
        # The chat template has written the special tokens already.
        return Prompt(tuple(self._tokenizer(f"{chat}{prefill}", add_special_tokens=False)["input_ids"]), prefill)


def check_templates(config: PromptConfig) -> None:
    """Compile the three templates and fill them for made-up problems of both modes; needs no tokenizer.

    Raises PromptError, naming the key, for a template that does not parse or uses a name that does not exist. What
    depends on the texts of a real problem (a part of a text that may be absent) shows only with that problem.
    """
    _templates(config)


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    made.filters["call"] = _call
    return made


def _call(arguments: str, entry_point: str) -> str:
    """`{{ text | call(name) }}`: JSON arguments as a call in Python, which code models read and write best."""
    return f"{entry_point}({', '.join(map(repr, json.loads(arguments)))})"


def _templates(config: PromptConfig) -> tuple[jinja2.Template, jinja2.Template, jinja2.Template]:
    """The templates of solve, probe and check, tried."""
    solve = _template("prompt.solve", config.solve or SOLVE, {"problem"})
    probe = _template("prompt.probe", config.probe or PROBE, {"problem", "accepted"})
    check = _template("prompt.check", config.check or CHECK, {"problem"})
    _try("prompt.solve", solve)
    _try("prompt.probe", probe, accepted=["[1]"])
    _try("prompt.check", check)
    return solve, probe, check


# Every field is filled, and the tests are both texts and JSON: what fails here fails for the template's own fault.
_TRIAL = Problem(
    "trial/1",
    "Print the number.",
    "stdin",
    "f",
    "def f(a):",
    (Example("[1]", "1"),) * 8,
    "one number",
    date="2025-01-01",
)


def _try(key: str, template: jinja2.Template, **values: Any) -> None:
    for problem in (_TRIAL, dataclasses.replace(_TRIAL, mode="function")):
        try:
            template.render(problem=problem, **values)
        except (ValueError, ArithmeticError, LookupError):
            continue  # depends on the problem's texts
        except (jinja2.TemplateError, TypeError, AttributeError) as error:
            if isinstance(error, jinja2.UndefinedError) and "has no element" in str(error):
                continue  # so does the length of a list
            raise PromptError(f"{key} cannot be filled for any problem: {error}") from error


def _template(key: str, source: str, names: set[str]) -> jinja2.Template:
    environment = _environment()
    try:
        tree = environment.parse(source)
        template = environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise PromptError(f"{key} is not a valid Jinja template: {error.message} (line {error.lineno})") from error
    unknown = sorted(jinja2.meta.find_undeclared_variables(tree) - names)
    if unknown:
        raise PromptError(f"{key} uses the unknown variable '{unknown[0]}'; it may use {' and '.join(sorted(names))}")
    fields = [item.name for item in dataclasses.fields(Problem)]
    for node in tree.find_all(jinja2.nodes.Getattr):
        if isinstance(node.node, jinja2.nodes.Name) and node.node.name == "problem" and node.attr not in fields:
            known = ", ".join(fields)
            raise PromptError(f"{key} uses the unknown variable 'problem.{node.attr}'; a problem has {known}")
    return template


def _render(key: str, template: jinja2.Template, problem: Problem, **values: Any) -> str:
    try:
        return template.render(problem=problem, **values).strip()
    except (jinja2.TemplateError, TypeError, AttributeError, ValueError, ArithmeticError, LookupError) as error:
        raise PromptError(f"{key} cannot be filled for problem {problem.id}: {error}") from error
