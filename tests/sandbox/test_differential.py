"""Real programs, right, wrong and mutilated, against a plain interpreter: the same output, byte for byte, and the same
kind of end."""

import gzip
import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from erpo_jax.sandbox import Job, Limits, Sandbox

ENVIRONMENT = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": "/"}
FLAGS = ["-s", "-P", "-B", "-X", "utf8", "-X", "int_max_str_digits=0"]


def rows(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def mutilated(source: str, choice: random.Random) -> str:
    """The program less a line, with a line twice, or cut short."""
    lines = source.split("\n")
    at = choice.randrange(len(lines))
    return "\n".join(
        choice.choice([lines[:at] + lines[at + 1 :], lines[:at] + lines[at : at + 1] + lines[at:], lines[:at]])
    )


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


def made(choice: random.Random) -> str:
    """A program of random expressions that prints each value, or the error it ends in."""

    def expression(depth: int) -> str:
        if depth == 0 or choice.random() < 0.2:
            return choice.choice(LEAVES)
        return choice.choice(CALLS).format(a=expression(depth - 1), b=expression(depth - 1))

    lines = [
        (
            "import bisect, collections, copy, decimal, fractions, heapq, itertools, json, math, random, "
            "re, statistics, struct, sys"
        )
    ]
    for _ in range(30):
        lines += [
            "try:",
            f"    print({expression(3)})",
            "except Exception as error:",
            "    print(type(error).__name__, error)",
        ]
    lines.append(
        choice.choice(
            (
                "",
                f"print({expression(2)})",
                "sys.exit(3)",
                "sys.stdout.write('no newline')",
                "random.seed(1); print(random.random())",
            )
        )
    )
    return "\n".join(lines)


def programs(data: Path) -> list[tuple[str, str]]:
    """(program, standard input), the same at every run."""
    choice = random.Random(0)
    found = []
    for problem in rows(data / "codecontests_stdin.jsonl.gz"):
        texts = [test["input"] for test in problem["public_tests"] if len(test["input"]) < 5000]
        for candidate in choice.sample(problem["candidates"], 2):
            if texts:
                found.append((candidate["code"], choice.choice(texts)))
    found += [(mutilated(source, choice), text) for source, text in found[::3]]
    for problem in rows(data / "humaneval.jsonl.gz")[::12]:
        check = f"{problem['test']}\ncheck({problem['entry_point']})\nprint('passed')"
        found.append((f"{problem['prompt']}{problem['canonical_solution']}\n{check}", ""))
    for problem in rows(data / "mbpp.jsonl.gz")[::60]:
        found.append((problem["code"] + "\n" + "\n".join(problem["test_list"]) + "\nprint('passed')", ""))
    found += [(made(choice), "") for _ in range(15)]
    return found


def plain(program: Path, text: str) -> tuple[str, str | None]:
    try:
        done = subprocess.run(
            [sys.executable, *FLAGS, str(program)],
            input=text.encode(),
            capture_output=True,
            timeout=30,
            env=ENVIRONMENT,
            cwd=program.parent,
        )
    except subprocess.TimeoutExpired:
        return "timeout", None
    return ("error", None) if done.returncode else ("ok", done.stdout.decode("utf-8", "backslashreplace"))


def test_the_same_as_a_plain_interpreter(sandbox: Sandbox, shared_data: Path, tmp_path: Path) -> None:
    cases = programs(shared_data / "data")
    assert len(cases) >= 150
    found = sandbox.run([Job(source, (text,), limits=Limits(cpu_s=5.0)) for source, text in cases])
    files = []
    for number, (source, _) in enumerate(cases):
        files.append(tmp_path / f"{number}.py")
        files[-1].write_text(source, encoding="utf-8", newline="")
    with ThreadPoolExecutor(2) as pool:
        expected = list(pool.map(plain, files, [text for _, text in cases]))
    different = [
        (number, outcomes[0], wanted)
        for number, (outcomes, wanted) in enumerate(zip(found, expected, strict=True))
        if (outcomes[0].verdict, outcomes[0].output) != wanted
    ]
    assert not different
    assert {verdict for verdict, _ in expected} >= {"ok", "error"}
