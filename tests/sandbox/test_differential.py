"""Programs against a plain interpreter: the same output, byte for byte, and the same kind of end.

Real ones, right and wrong, of public data sets; mutilated ones; and made ones. `--differential N` tries N in all, for
the suite tries a sample: pytest tests/sandbox/test_differential.py --differential 2500
"""

import gzip
import json
import random
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox

ENVIRONMENT = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": "/"}
FLAGS = ["-s", "-P", "-B", "-X", "utf8", "-X", "int_max_str_digits=0"]
CPU_S = 1
SAMPLE = 200

End = tuple[str, str | None]


@pytest.fixture(scope="module")
def total(request: pytest.FixtureRequest) -> int:
    """How many programs to try in all."""
    return int(request.config.getoption("--differential", SAMPLE))


def rows(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def mutilated(source: str, choice: random.Random) -> str:
    """The program less a line, with a line twice, cut short, or with one token for another."""
    lines = source.split("\n")
    at = choice.randrange(len(lines))
    old, new = choice.choice(
        [("<", "<="), ("+", "-"), ("0", "1"), ("1", "2"), ("n", "m"), ("[", "("), (" and ", " or ")]
    )
    changed = lines[at].replace(old, new, 1)
    return "\n".join(
        choice.choice(
            [
                lines[:at] + lines[at + 1 :],
                lines[:at] + lines[at : at + 1] + lines[at:],
                lines[:at],
                [*lines[:at], changed, *lines[at + 1 :]],
            ]
        )
    )


def real(data: Path, number: int) -> list[tuple[str, str]]:
    """(program, standard input), the same at every run: half solutions of contests, a quarter of them mutilated, the
    rest functions with their tests, half of these as a model wrote them."""
    choice = random.Random(0)
    contests = []
    for problem in rows(data / "codecontests_stdin.jsonl.gz"):
        texts = [test["input"] for test in problem["public_tests"] if len(test["input"]) < 5000]
        contests += [(candidate["code"], choice.choice(texts)) for candidate in problem["candidates"] if texts]
    tested = [
        (problem["code"] + "\n" + "\n".join(problem["test_list"]) + "\nprint('passed')", "")
        for problem in rows(data / "mbpp.jsonl.gz")
    ]
    problems = {problem["task_id"]: problem for problem in rows(data / "humaneval.jsonl.gz")}
    written = []
    for row in rows(data / "humaneval_codegen16b_samples.jsonl.gz"):
        problem = problems[row["task_id"]]
        bodies = [item["completion"] for item in choice.sample(row["samples"], min(4, len(row["samples"])))]
        check = f"\n{problem['test']}\ncheck({problem['entry_point']})\nprint('passed')"
        written += [(problem["prompt"] + body + check, "") for body in [problem["canonical_solution"], *bodies]]
    found = choice.sample(contests, min(number // 2, len(contests)))
    found += [(mutilated(source, choice), text) for source, text in choice.choices(contests, k=number // 4)]
    rest = number - len(found)
    found += choice.sample(tested, rest // 2)
    return found + choice.sample(written, rest - rest // 2)


LEAVES = (
    "0",
    "-7",
    "3",
    "10**25",
    "2.5",
    "-0.0",
    "1e300",
    "True",
    "None",
    "'aé'",
    "'12'",
    "b'xy'",
    "()",
    "[3, 1, 2]",
    "{2: 'b', 1: 'a'}",
    "{5, 9}",
)
CALLS = (
    "({a} + {b})",
    "({a} * {b})",
    "({a} % {b})",
    "({a} // {b})",
    "({a} < {b})",
    "({a} == {b})",
    "[{a}, {b}]",
    "({a}, {b})",
    "{{{a}: {b}}}",
    "sorted({a})",
    "str({a})",
    "repr({a})",
    "len({a})",
    "hash(str({a}))",
    "list({a})[::-1]",
    "sum({a})",
    "max({a}, {b})",
    "int({a})",
    "round({a}, 2)",
    "divmod({a}, {b})",
    "[x for x in {a}]",
    "({a} if {b} else {a})",
    "format({a}, '>8')",
    "math.gcd({a}, {b})",
    "list(itertools.accumulate({a}))",
    "collections.Counter({a})",
    "re.sub('[a-z]', '_', {a})",
    "json.dumps({a})",
    "random.Random(3).sample({a}, 1)",
    "(lambda x: x * 2)({a})",
    "''.join(map(str, {a}))",
    "pow({a}, {b}, 7)",
    "set({a})",
    "bisect.bisect({a}, {b})",
    "heapq.nsmallest(2, {a})",
    "decimal.Decimal({a})",
    "fractions.Fraction({a})",
    "statistics.mean({a})",
    "copy.deepcopy({a})",
    "struct.pack('>i', {a})",
    "id({a}) and type({a}).__name__",
)


ARMS = {
    "{v} = {a}": (),
    "{v} += {a}": (),
    "print({a}, {b}, sep={a})": (),
    "print(f'{{{v}!r:>12}}|{{{w}}}')": (),
    "{v}, *{w} = {a}": (),
    "assert {a}, {b}": (),
    "print([({v}, x) for x in {a} if x != {b}])": (),
    "print({{k: v for k, v in enumerate({a})}}, *{a})": (),
    "print(sorted({a}, key=lambda x: str(x), reverse=bool({b})))": (),
    "del {v}[{a}]": (),
    "{v}[{a}] = {b}": (),
    "raise ValueError({a})": (),
    "print(input(), {a})": (),
    "sys.stdout.write(str({a}))": (),
    "if {a}:": ("else:",),
    "for {v} in list({a})[:5]:": ("else:",),
    "for {v} in range(4):": (),
    "try:": ("except (TypeError, ValueError) as error:", "finally:"),
    "with contextlib.suppress(TypeError, KeyError):": (),
    "class K:": (),
    "match {a}:\n    case [{v}, *{w}s]: print({w}s)\n    case str() | int(): print('plain')": (),
    "def f({v}, *more, key={a}):": ("print(f({b}, {a}))",),
    "def g():\n    yield {a}\n    yield from {b}\nprint(list(g()))": (),
    "def h(n):\n    return {a} if n <= 0 else [h(n - 1), n]\nprint(h(3))": (),
    "def s():\n    global {v}\n    {v} = {a}\ns()": (),
    "import {m}": (),
}
"""Statements; those that end in a colon have a block, and so have those that follow."""
NAMES = ("a", "b", "c")
MODULES = "bisect, collections, contextlib, copy, decimal, fractions, heapq, itertools, json, math, random, re"
ENDINGS = ("", "sys.exit({a})", "raise SystemExit({a})", "print({a}, end='')", "import os; os._exit(0)", "1 / 0")

expressions = st.recursive(
    st.sampled_from(LEAVES + NAMES),
    lambda inner: st.builds(lambda call, a, b: call.format(a=a, b=b), st.sampled_from(CALLS), inner, inner),
    max_leaves=5,
)


@st.composite
def statements(draw: st.DrawFn, depth: int) -> str:
    """One statement with its blocks."""
    head = draw(st.sampled_from([arm for arm in ARMS if depth or not arm.endswith(":")]))
    lines = []
    for part in (head, *ARMS[head]):
        names = {name: draw(st.sampled_from(NAMES)) for name in "vw"} | {
            "m": draw(st.sampled_from(MODULES.split(", ")))
        }
        lines.append(part.format(a=draw(expressions), b=draw(expressions), **names))
        if part.endswith(":"):
            block = draw(st.lists(statements(depth - 1), min_size=1, max_size=3))
            lines.append(textwrap.indent("\n".join(block), "    "))
    return "\n".join(lines)


@st.composite
def made(draw: st.DrawFn) -> str:
    """A program of statements, most of which are let fail with a message."""
    lines = [f"import {MODULES}, statistics, struct, sys", *(f"{name} = {draw(expressions)}" for name in NAMES)]
    lines = [lines[0], "try:", *[f"    {line}" for line in lines[1:]], "except Exception as e: a = b = c = [str(e)]"]
    for number in range(draw(st.integers(3, 15))):
        body = textwrap.indent(draw(statements(2)), "    ")
        if draw(st.booleans()):
            lines.append(f"def part{number}():\n    a, b, c = 1, [2], 'x'\n{body}")
            body = f"    part{number}()"
        lines.append(f"try:\n{body}\nexcept Exception as e: print(type(e).__name__, e)")
    return "\n".join([*lines, draw(st.sampled_from(ENDINGS)).format(a=draw(expressions))])


def plain(program: Path, text: str) -> End:
    limited = ["sh", "-c", f'ulimit -t {CPU_S} -v 1200000; exec "$@"', "sh", sys.executable, *FLAGS, str(program)]
    try:
        done = subprocess.run(
            limited, input=text.encode(), capture_output=True, env=ENVIRONMENT, cwd=program.parent, timeout=20
        )
    except subprocess.TimeoutExpired:  # it sleeps, or waits for itself
        return "timeout", None
    if done.returncode < 0 and done.returncode != -11:  # by the limit on CPU; a crash is an error
        return "timeout", None
    if done.returncode:
        return "memory" if b"MemoryError" in done.stderr[-200:] else "error", None
    return "ok", done.stdout.decode("utf-8", "backslashreplace")


def same(outcome: Outcome, end: End) -> bool:
    """Whether they agree; those that end near the limit on CPU may end either way."""
    near = abs(outcome.cpu_s - CPU_S) < 0.4
    return (outcome.verdict, outcome.output) == end or (near and "timeout" in (outcome.verdict, end[0]))


def test_real_programs_end_as_in_a_plain_interpreter(
    sandbox: Sandbox, shared_data: Path, tmp_path: Path, total: int
) -> None:
    cases = real(shared_data / "data", total * 4 // 5)
    found = sandbox.run([Job(source, (text,), limits=Limits(cpu_s=CPU_S)) for source, text in cases])
    files = []
    for number, (source, _) in enumerate(cases):
        files.append(tmp_path / f"{number}.py")
        files[-1].write_text(source, encoding="utf-8", newline="")
    with ThreadPoolExecutor(2) as pool:
        expected = list(pool.map(plain, files, [text for _, text in cases]))
    assert len(cases) == total * 4 // 5
    assert [
        (cases[number][0], outcomes[0], end)
        for number, (outcomes, end) in enumerate(zip(found, expected, strict=True))
        if not same(outcomes[0], end)
    ] == []
    assert {verdict for verdict, _ in expected} >= {"ok", "error"}


def test_made_programs_end_as_in_a_plain_interpreter(sandbox: Sandbox, tmp_path: Path, total: int) -> None:
    ends, numbers = [], count()

    @settings(
        max_examples=total - total * 4 // 5,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(made())
    def agree(source: str) -> None:
        file = tmp_path / f"made{next(numbers)}.py"
        file.write_text(source, encoding="utf-8", newline="")
        end = plain(file, "one\ntwo\n")
        outcome = sandbox.run([Job(source, ("one\ntwo\n",), limits=Limits(cpu_s=CPU_S))])[0][0]
        ends.append(end[0])
        assert same(outcome, end), (source, outcome, end)

    agree()
    assert len(ends) >= total - total * 4 // 5
    assert set(ends) >= {"ok", "error"}
