"""Requests: their text, their ids, the begun answer, and the line that names a bad template."""

import gzip
import json

import pytest

from erpo_jax.config import PromptConfig
from erpo_jax.problems import Example, Problem, PromptError, Prompts, check_templates, extract_program

STDIN = Problem(
    "sum", "Print the sum of two integers.", public_tests=(Example("1 2\n", "3\n"),), input_constraints="two ints"
)
STARTER = 'def add(a: int, b: int) -> int:\n    """Add."""\n'
FUNCTION = Problem("add", "Add two integers.", "function", "add", STARTER, (Example("[1, 2]", "3"),))


def shown(tokenizer, prompt):
    return tokenizer.decode(prompt.ids)


def test_chat(tokenizer):
    prompt = Prompts(PromptConfig(), tokenizer).solve(STDIN)
    text = shown(tokenizer, prompt)
    assert text.startswith(
        "<|im_start|>user\nPrint the sum of two integers.\n\nInput: two ints\n\n"
        "Example input:\n1 2\nExample output:\n3\n\nWrite"
    )
    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")  # Qwen3's non-thinking mode
    assert prompt.prefill == ""


def test_system_message(tokenizer):
    text = shown(tokenizer, Prompts(PromptConfig(system="Be brief."), tokenizer).solve(STDIN))
    assert text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n")


def test_prefill(tokenizer):
    prompts = Prompts(PromptConfig(prefill=True), tokenizer)
    prompt = prompts.solve(FUNCTION)
    assert prompt.prefill == '```python\ndef add(a: int, b: int) -> int:\n    """Add."""'  # its last newline stripped
    assert shown(tokenizer, prompt).endswith("</think>\n\n" + prompt.prefill)
    assert prompts.solve(STDIN).prefill == "```python\n"
    assert prompts.probe(STDIN).prefill == "```\n"
    assert prompts.probe(FUNCTION).prefill == "```python\nadd"
    assert prompts.check(STDIN).prefill == "```python\ndef is_valid(text: str) -> bool:"
    assert extract_program("\n    return a + b\n```", prompt.prefill) == STARTER + "    return a + b"


def test_ids_come_from_one_tokenisation(tokenizer):
    """The boundary between request and begun answer is no token boundary of its own."""
    prompt = Prompts(PromptConfig(style="raw", solve="abc", prefill=True), tokenizer).solve(STDIN)
    whole = tokenizer("abc\n\n```python\n")["input_ids"]
    apart = tokenizer("abc\n\n")["input_ids"] + tokenizer("```python\n")["input_ids"]
    assert list(prompt.ids) == whole
    chat = Prompts(PromptConfig(prefill=True), tokenizer).solve(FUNCTION)
    assert list(chat.ids) == tokenizer(shown(tokenizer, chat), add_special_tokens=False)["input_ids"]
    assert len(apart) >= len(whole)


def test_raw(tokenizer):
    prompt = Prompts(PromptConfig(style="raw", solve="{{ problem.starter_code }}"), tokenizer).solve(FUNCTION)
    assert shown(tokenizer, prompt) == STARTER.strip()


def test_starter_code_and_examples_are_shown_once(tokenizer):
    inline = Problem(
        "p", f"Complete:\n{STARTER}\nExample: [1, 2]", "function", "add", STARTER, (Example("[1, 2]", "3"),)
    )
    text = shown(tokenizer, Prompts(PromptConfig(), tokenizer).solve(inline))
    assert text.count("def add") == 1
    assert text.count("[1, 2]") == 1


def test_probe_request(tokenizer):
    prompts = Prompts(PromptConfig(), tokenizer)
    text = shown(tokenizer, prompts.probe(STDIN, ["5 5\n", "0 -1\n"]))
    assert "```\n1 2\n```\n```\n5 5\n```\n```\n0 -1\n```" in text
    calls = shown(tokenizer, prompts.probe(FUNCTION, ['[-1, null, "a"]']))
    assert "```\nadd(1, 2)\n```\n```\nadd(-1, None, 'a')\n```" in calls
    many = shown(tokenizer, prompts.probe(STDIN, [f"{n} {n}" for n in range(100, 130)]))
    assert "129 129" in many
    assert "100 100" not in many  # the prompt stays short: the newest eight


@pytest.mark.parametrize("problem", [STDIN, FUNCTION])
def test_probe_and_check_never_ask_for_outputs(tokenizer, problem):
    prompts = Prompts(PromptConfig(), tokenizer)
    secret = Problem(
        problem.id,
        problem.statement,
        problem.mode,
        problem.entry_point,
        problem.starter_code,
        (Example("[1, 2]", "777"),),
    )
    for prompt in (prompts.probe(secret, ["[3, 4]"]), prompts.check(secret)):
        text = shown(tokenizer, prompt).lower()
        assert "output" not in text
        assert "expected" not in text
        assert "777" not in text


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            PromptConfig(solve="{{ statement }}"),
            "prompt.solve uses the unknown variable 'statement'; it may use problem",
        ),
        (PromptConfig(solve="{{ accepted }}"), "prompt.solve uses the unknown variable 'accepted'"),
        (
            PromptConfig(probe="{{ acepted }}"),
            "prompt.probe uses the unknown variable 'acepted'; it may use accepted and problem",
        ),
        (
            PromptConfig(check="{{ problem.title }}"),
            "prompt.check uses the unknown variable 'problem.title'; a problem has id, statement",
        ),
        (PromptConfig(solve="{% if %}"), "prompt.solve is not a valid Jinja template"),
        (PromptConfig(solve="{{ problem.id | shout }}"), "prompt.solve is not a valid Jinja template: No filter"),
        (
            PromptConfig(probe="{% for test in problem.public_tests %}{{ test.inptu }}{% endfor %}"),
            "prompt.probe cannot be filled for any problem: 'erpo_jax.problems.problem.Example object' has no",
        ),
        (
            PromptConfig(check="{% if problem.mode == 'function' %}{{ problem.statement.trim() }}{% endif %}"),
            "prompt.check cannot be filled for any problem: 'str object' has no attribute 'trim'",
        ),
    ],
)
def test_bad_templates(tokenizer, config, message):
    with pytest.raises(PromptError) as caught:
        Prompts(config, tokenizer)
    assert message in str(caught.value)
    with pytest.raises(PromptError) as alone:
        check_templates(config)
    assert str(alone.value) == str(caught.value)


@pytest.mark.parametrize(
    "solve",
    [
        None,
        "{{ problem.starter_code.strip() }}",
        "{{ problem.public_tests[2].input }}",
        "{{ problem.statement.split('Input:')[1] }}",
        "{{ problem.statement.index('Input:') }}",
        "{{ problem.public_tests[0].input | call(problem.entry_point) }}",
    ],
)
def test_a_template_that_suits_some_problems_is_allowed(solve):
    check_templates(PromptConfig(solve=solve))


def test_a_template_that_fails_for_one_problem(tokenizer):
    prompts = Prompts(PromptConfig(solve="{{ problem.starter_code.strip() }}"), tokenizer)
    with pytest.raises(PromptError, match=r"prompt\.solve cannot be filled for problem sum"):
        prompts.solve(STDIN)


def test_a_tokenizer_without_chat_template(tokenizer):
    bare = type(tokenizer)(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<|im_end|>")
    with pytest.raises(PromptError, match=r"use prompt\.style=raw"):
        Prompts(PromptConfig(), bare)
    assert Prompts(PromptConfig(style="raw"), bare).solve(STDIN).ids


def test_text_of_an_answer(tokenizer):
    prompts = Prompts(PromptConfig(), tokenizer)
    ids = tokenizer("<think>\nhm\n</think>\n    return é\n<|im_end|>", add_special_tokens=False)["input_ids"]
    assert prompts.text(ids) == "<think>\nhm\n</think>\n    return é\n"
    assert prompts.text([]) == ""
    assert prompts.text(tokenizer("  return", add_special_tokens=False)["input_ids"]) == "  return"


def test_real_problems(tokenizer, shared_data):
    """HumanEval: the begun answer plus the reference body is the reference program."""
    prompts = Prompts(PromptConfig(prefill=True), tokenizer)
    with gzip.open(shared_data / "data" / "humaneval.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file][::4]
    for row in rows:
        problem = Problem(row["task_id"], "Complete the function.", "function", row["entry_point"], row["prompt"])
        prompt = prompts.solve(problem)
        assert not prompt.prefill.endswith("\n")
        program = extract_program("\n" + row["canonical_solution"] + "```", prompt.prefill)
        assert program == (row["prompt"].rstrip() + "\n" + row["canonical_solution"]).strip()
        compile(program, row["task_id"], "exec")
