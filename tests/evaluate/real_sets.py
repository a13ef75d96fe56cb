"""The real data sets with human programs, as files that launch/evaluate.py reads.

    python -m tests.evaluate.real_sets SHARED/data OUT

writes OUT/codecontests and OUT/leetcode, each with problems.jsonl, hidden.jsonl and solutions.jsonl. The LeetCode file
is in no publisher's layout, so no loader of the package knows it.
"""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from erpo_jax.evaluate.benchmarks import livecodebench, prepare
from erpo_jax.evaluate.solutions import Solution
from erpo_jax.problems import save_problems


def rows_of(file: Path) -> Iterator[dict]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def codecontests(data: Path, out: Path) -> Path:
    """53 problems on standard input with 1,054 programs, as launch/prepare.py own makes them."""
    prepare("own", [data / "codecontests_stdin.jsonl.gz"], out / "codecontests")
    return out / "codecontests"


def leetcode(data: Path, out: Path) -> Path:
    """65 LeetCode problems in function mode with 638 programs."""
    pairs, programs = [], {}
    for row in rows_of(data / "lcb_functional.jsonl.gz"):
        columns = row | {
            "public_test_cases": json.dumps(row["public_tests"]),
            "private_test_cases": json.dumps(row["hidden_tests"]),
            "metadata": json.dumps({"func_name": row["fn_name"]}),
        }
        pairs.append(livecodebench.split(columns, "")[:2])
        programs[pairs[-1][0].id] = row["candidates"]
    folder = out / "leetcode"
    folder.mkdir(parents=True, exist_ok=True)
    save_problems(folder / "problems.jsonl", [problem for problem, _ in pairs])
    (folder / "hidden.jsonl").write_text("".join(tests.line() + "\n" for _, tests in pairs))
    lines = [
        Solution(one["code"], one["label"] == "correct", one["origin"]).line(name) + "\n"
        for name, row in programs.items()
        for one in row
    ]
    (folder / "solutions.jsonl").write_text("".join(lines))
    return folder


if __name__ == "__main__":
    for make in (codecontests, leetcode):
        print(make(Path(sys.argv[1]), Path(sys.argv[2])))
