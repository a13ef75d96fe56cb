"""Published rows with any field missing, or holding anything: a bad row with a reason, or files that read back."""

import gzip
import json
import math

import pytest

from erpo_jax.evaluate.benchmarks import BENCHMARKS, BadRow
from erpo_jax.evaluate.benchmarks.codeforces import with_generated_tests
from erpo_jax.evaluate.benchmarks.splitting import readable

VALUES = (None, 5, -1, 1.5, math.nan, math.inf, True, "", "x", "[]", "{}", "null", "[[", "\ud800", "\x00", "1\r\n",
          [], {}, [1], ["x"], [None], [[]], [{}], {"a": 1}, {"a": [1]})  # fmt: skip
FILES = {
    "humaneval": "humaneval.jsonl.gz",
    "humaneval+": "humaneval_plus.jsonl.gz",
    "mbpp": "mbpp.jsonl.gz",
    "mbpp+": "mbpp_plus.jsonl.gz",
    "livecodebench": "schema_rows/livecodebench_code_generation_lite.jsonl",
    "codecontests": "schema_rows/deepmind_code_contests.jsonl",
    "codeforces": "schema_rows/open_r1_codeforces.jsonl",
    "taco": "schema_rows/BAAI_TACO.jsonl",
    "apps": "schema_rows/codeparrot_apps.jsonl",
    "own": "codecontests_stdin.jsonl.gz",
}


def broken(row):
    for name in row:
        yield name, {other: value for other, value in row.items() if other != name}
        yield from ((name, row | {name: value}) for value in VALUES)


def test_generated_tests_that_cannot_be_found(shared_data):
    folder = shared_data / "data" / "schema_rows"
    row = json.loads((folder / "open_r1_codeforces.jsonl").read_text().partition("\n")[0])
    rows = iter([("1", row | {"contest_id": "x"}), ("2", row | {"id": "\ud800"}), ("3", dict(row))])
    *bad, (_, good) = with_generated_tests(rows, folder / "generated_tests")
    for _, one in bad:
        with pytest.raises(BadRow):
            BENCHMARKS["codeforces"].split(one, "", 0)
    found = [len(BENCHMARKS["codeforces"].split(one, "", 0).tests.cases) for one in (row, good)]
    assert found[0] < found[1]


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_any_value_in_any_field(shared_data, benchmark):
    file = shared_data / "data" / FILES[benchmark]
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as stream:
        row = json.loads(stream.readline())
    made = BENCHMARKS[benchmark]
    readable(made.split(row, "", 0))
    used = refused = 0
    for name, one in broken(row):
        try:
            readable(made.split(one, "", 0))
            made.known_bad(one)
            used += 1
        except BadRow:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{name} = {one.get(name)!r}") from error
    assert used
    assert refused
