"""Program extraction: CASES O4 to O6 and their kin, a property, and real answers of a 16B model."""

import ast
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erpo_jax.problems import extract_program

PROGRAM = "n = int(input())\nprint(n + 1)"
DEFINITION = "def f(a):\n    return a"
BLOCK = f"```python\n{PROGRAM}\n```"
MARKED = "print('</think>')"
MARKED_LINES = 'print("""\n<think>\n</think>\n""")'
DOCUMENTED = 'def f():\n    """Doc\n    ```\n    >>> f()\n    ```\n    """\n    return 1'

ANSWERS = {
    "draft, then final": (f"First:\n```python\nimport sys\nprint(0)\n```\nBetter:\n{BLOCK}\nDone.", PROGRAM),
    "draft tagged, final not": (f"```python\nprint(0)\n```\nFinal:\n```\n{PROGRAM}\n```", PROGRAM),
    "sample output after it": (f"{BLOCK}\nIt prints\n```\n3\n```", PROGRAM),
    "sample output that parses": (f"{BLOCK}\nIt prints\n```\nx = 3\n```", PROGRAM),
    "sample output that calls": ("```python\nprint(set([1]))\n```\nOutput:\n```\nset()\n```", "print(set([1]))"),
    "sample output like a print": (f"{BLOCK}\nOutput:\n```\nprint(5)\n```", PROGRAM),
    "sample output of a deque": (f"{BLOCK}\nOutput:\n```\ndeque([1])\n```", PROGRAM),
    "sample output of a counter": (f"{BLOCK}\nOutput:\n```\nCounter({{'a': 1}})\n```", PROGRAM),
    "sample output that calls, no tags": (f"```\n{PROGRAM}\n```\nOutput:\n```\nset()\n```", PROGRAM),
    "sample output that names stdin": (f"{BLOCK}\nIt reads\n```\nstdin\n```", PROGRAM),
    "broken, then sample output": ("```python\nprint((1\n```\nOutput:\n```\nset()\n```", "print((1"),
    "draft tagged, final a definition": (f"```python\nprint(0)\n```\nFinal:\n```\n{DEFINITION}\n```", DEFINITION),
    "draft tagged, final a loop": (
        f"{BLOCK}\nNo:\n```\nfor i in range(3):\n    print(i)\n```",
        "for i in range(3):\n    print(i)",
    ),
    "draft and final that only call, no tags": ("```\nprint(0)\n```\nNo:\n```\nprint(1)\n```", "print(1)"),
    "sample output of prose": (f"{BLOCK}\n```\nfor 3 coins: yes\n```", PROGRAM),
    "sample output tagged": (f"{BLOCK}\n```text\nprint(3)\n```", PROGRAM),
    "session after it": (f"{BLOCK}\n```python\n>>> f(3)\n4\n```", PROGRAM),
    "values tagged as python": (f"{BLOCK}\n```python\n[1, 2]\n```", PROGRAM),
    "example of use": (f"```python\n{DEFINITION}\n```\nUse it:\n```python\nprint(f(3))\n```", DEFINITION),
    "program in two parts": (
        f"```python\n{DEFINITION}\n```\nThen\n```python\nprint(f(input()))\n```",
        f"{DEFINITION}\n\nprint(f(input()))",
    ),
    "final is broken": ("```python\nprint(0)\n```\n```python\nprint((1\n```", "print((1"),
    "unclosed": (f"Sure:\n```python\n{PROGRAM}\n", PROGRAM),
    "unclosed and cut": ("```python\nfor i in range(3):\n    pri", "for i in range(3):\n    pri"),
    "unclosed draft": (f"```python\nprint((\n\nOops:\n{BLOCK}", PROGRAM),
    "lone closing fence": (f"{PROGRAM}\n```", PROGRAM),
    "lone closing fence and prose": (f"{PROGRAM}\n```\nThis adds one.", PROGRAM),
    "prose and lone closing fence": (f"Here is the program:\n{PROGRAM}\n```\nThis adds one.", PROGRAM),
    "closed on the last line": (f"```python\n{PROGRAM}```\nDone.", PROGRAM),
    "opened behind prose": (f"The program: ```python\n{PROGRAM}\n```", PROGRAM),
    "code on the fence's line": (f"```{PROGRAM}\n```", PROGRAM),
    "tag and code on one line": ("```python import sys\nprint(1)\n```", "import sys\nprint(1)"),
    "a word that looks like a tag": ("```\npython = 3\nprint(python)\n```", "python = 3\nprint(python)"),
    "a word that looks like a tag, on the fence": ("```c = 3\nprint(c)\n```", "c = 3\nprint(c)"),
    "all on one line": ("It is ```python print(1)``` then.", "print(1)"),
    "four ticks": ("````python\ns = '''\n```\n'''\nprint(s)\n````", "s = '''\n```\n'''\nprint(s)"),
    "tildes": (f"~~~python\n{PROGRAM}\n~~~", PROGRAM),
    "fences in a docstring": (f"```python\n{DOCUMENTED}\n```", DOCUMENTED),
    "in a list item": (f"1. Do\n   ```python\n   {DEFINITION.replace(chr(10), chr(10) + '   ')}\n   ```", DEFINITION),
    "windows line ends": (BLOCK.replace("\n", "\r\n"), PROGRAM),
    "no fence": (f"\n{PROGRAM}\n\n", PROGRAM),
    "no fence, but one in a text": (f"{DOCUMENTED}\n", DOCUMENTED),
    "no fence, drawn lines": (f"# ~~~~\n{PROGRAM}", f"# ~~~~\n{PROGRAM}"),
    "prose that mentions a fence": (f"I use ``` as a fence.\n{BLOCK}", PROGRAM),
    "another language": ("```cpp\nint main() {}\n```", "int main() {}"),
    "thinking": (f"<think>\n```python\nprint(0)\n```\n</think>\n\n{BLOCK}", PROGRAM),
    "thinking opened by the prompt": (f"Try ```python\nprint(0)\n```\n</think>\n{BLOCK}", PROGRAM),
    "empty thinking": (f"<think>\n\n</think>\n\n{BLOCK}", PROGRAM),
    "cut inside thinking": (f"<think>\nMaybe\n{BLOCK}\nor", None),
    "nothing after thinking": (f"<think>\n{BLOCK}\n</think>", None),
    "thinking mark in the program": (f"```python\n{MARKED}\n```\nDone.", MARKED),
    "thinking mark in the program, twice": (f"```python\nprint(0)\n```\nNo:\n```python\n{MARKED}\n```", MARKED),
    "thinking mark in a text's own line": (f"```python\n{MARKED_LINES}\n```", MARKED_LINES),
    "thinking mark, no fence": (MARKED, MARKED),
    "thinking marks in a text, no fence": (MARKED_LINES, MARKED_LINES),
    "thinking mark in the prose behind": (f"```python\n{MARKED}\n```\nIt prints </think>.", MARKED),
    "thinking, and its mark in the program": (
        f"<think>\n```python\nprint(0)\n{MARKED}\n```\n</think>\n```python\n{MARKED}\n```",
        MARKED,
    ),
    "thinking with an unclosed draft": (f"<think>\n```python\nprint(0)\n</think>\n\n{BLOCK}", PROGRAM),
    "thinking with an unclosed draft, then nothing": ("<think>\n```python\nprint(0)\n</think>\n", None),
    "thinking ends behind a sentence": (f"Or ```python\nprint(0)\n```\nSo.</think>Here:\n{BLOCK}", PROGRAM),
    "thinking twice": (f"<think>\na\n</think>\nHm.\n<think>\n```\nprint(0)\n```\n</think>\n{BLOCK}", PROGRAM),
    "cut inside thinking about the mark": (f"<think>\n```python\n{MARKED}\n```\nIt prints </think>. Or", None),
    "cut inside thinking the second time": (f"<think>\na\n</think>\n<think>\n{BLOCK}\n", None),
    "prose": ("I cannot solve this.", None),
    "a word": ("Hello", None),
    "a number": ("42", None),
    "nothing": ("", None),
    "an empty block": ("```python\n\n```", None),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str):
    text, program = ANSWERS[name]
    assert extract_program(text) == program


@pytest.mark.parametrize(
    "tag",
    ["python3", "Python", "py", "", "PYTHON", "python3.11", "{.python}", "python copy", 'python title="a.py"', "pypy3"],
)
def test_tags(tag: str):
    assert extract_program(f"Sure!\n\n```{tag}\n{PROGRAM}\n```\n") == PROGRAM


HEAD = '```python\ndef f(a):\n    """Doc."""'
BODY = "\n    return a\n"
WHOLE = 'def f(a):\n    """Doc."""\n    return a'


@pytest.mark.parametrize(
    ("prefill", "text", "program"),
    [
        (HEAD, BODY, WHOLE),
        (HEAD, BODY + "```", WHOLE),
        (HEAD, BODY + "```\nUse:\n```python\nprint(f(2))\n```", WHOLE),
        (HEAD, BODY + "```\nOr:\n```python\ndef f(a):\n    return -a\n```", WHOLE),  # the begun answer counts
        (HEAD, "\n    return (a", 'def f(a):\n    """Doc."""\n    return (a'),
        ("```python\ndef f(a):", "\n```\n```python\ndef f(b):\n    return b\n```", "def f(b):\n    return b"),
        ("```python\ndef f(a):", "\n```python\ndef f(b):\n    return b\n```", "def f(b):\n    return b"),
        ("```python\n", f"{PROGRAM}\n```\nThis adds one.", PROGRAM),
        ("```python\n", f"{BLOCK}\nThis adds one.", PROGRAM),
        ("```python\n", "```", None),
        ("```python\n", "", None),
        ("<think>\n", f"{BLOCK}\n</think>\n```python\nprint(2)\n```", "print(2)"),
        ("<think>\n", f"{BLOCK}\nso", None),
    ],
)
def test_begun_answers(prefill: str, text: str, program: str | None):
    assert extract_program(text, prefill) == program


_CODE = st.text(st.sampled_from("ab1 =()\n:#'\"`python"), min_size=1).filter(
    lambda code: code.strip() and "```" not in code
)


@given(
    before=st.text(st.sampled_from("ab1 =\n`~"), max_size=12),
    tag=st.sampled_from(["python", "py", "", "Python3", "text", "json"]),
    code=_CODE,
    after=st.text(st.sampled_from("ab1 =\n`~"), max_size=12),
    closed=st.booleans(),
)
def test_a_block_never_gives_an_empty_program(before: str, tag: str, code: str, after: str, closed: bool):
    ending = f"\n```\n{after}" if closed else ""
    program = extract_program(f"{before}\n```{tag}\n{code}{ending}")
    if before.count("`") < 3 and after.count("`") < 3:
        assert program is not None
    assert program is None or program.strip()


@given(st.text(max_size=60), st.sampled_from(["", "```python\n", HEAD, "<think>"]))
def test_any_text_is_read_without_an_error(text: str, prefill: str):
    program = extract_program(text, prefill)
    assert program is None or program.strip()


def test_real_answers(shared_data):
    """The completions of a 16B model, told as a prefilled and as a chat answer, give the program that was judged."""
    with gzip.open(shared_data / "data" / "humaneval_codegen16b_samples.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file][::8]
    passing = 0
    for row in rows:
        head = f"```python\n{row['prompt'].rstrip()}"
        for sample in row["samples"][:12]:
            whole = row["prompt"].rstrip() + "\n" + sample["completion"]
            begun = extract_program("\n" + sample["completion"].rstrip() + "\n```\nIt works.", head)
            chat = extract_program(f"Sure!\n\n```python\n{whole.rstrip()}\n```\n\nIt works.")
            assert begun == chat == whole.strip()
            if sample["verdict"] == "pass":
                passing += 1
                assert row["entry_point"] in {
                    node.name for node in ast.parse(begun).body if isinstance(node, ast.FunctionDef)
                }
    assert passing > 20


def test_real_programs(shared_data):
    """Correct programs survive every dress of an answer."""
    with gzip.open(shared_data / "data" / "codecontests_stdin.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    codes = [candidate["code"] for row in rows for candidate in row["candidates"][:2]]
    assert len(codes) > 90
    for code in codes:
        code = code.replace("\r\n", "\n").strip("\n").rstrip()
        for answer in (
            f"```python\n{code}\n```",
            f"Here:\n```\n{code}\n```\nOutput:\n```\n3\n```",
            f"```py\n{code}",
            code,
        ):
            assert extract_program(answer) == code
