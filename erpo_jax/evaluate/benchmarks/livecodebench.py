"""LiveCodeBench (code_generation_lite): contest problems with dates, standard input or a method of `class Solution`.

The rows are read from the published JSON Lines as they are. Private tests come as plain JSON or as base64 of zlib of a
pickle that holds one text; the pickle is opened by an unpickler that can make no object but plain data, and only as far
as DECODED_LIMIT bytes. By the official rule a program passes when it passes all public and private tests.
Left out: checkers. Rows whose tests the publisher knows to be wrong, ambiguous or interactive are named by `known_bad`.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from typing import Any, NoReturn

from erpo_jax.evaluate.benchmarks.row import BadRow, Split, text
from erpo_jax.evaluate.hidden import Case, HiddenTests
from erpo_jax.problems import Example, Problem

TIME_LIMIT_S = 6.0
DECODED_LIMIT = 512 * 2**20

_SEVERAL_ANSWERS = (
    "abc311_c abc326_d abc327_b abc333_e abc343_e abc362_c abc343_a arc185_c find-words-containing-character "
    "find-the-peaks generate-binary-strings-without-adjacent-zeros"
)
_INTERACTIVE = "abc337_e abc355_e"
_WRONG_TESTS = "abc350_c arc189_a apply-operations-to-make-string-empty most-frequent-ids"
KNOWN_BAD = {
    name: why
    for names, why in (
        (_SEVERAL_ANSWERS, "several answers are right, one is accepted"),
        (_INTERACTIVE, "interactive"),
        (_WRONG_TESTS, "wrong tests"),
    )
    for name in names.split()
}


def known_bad(row: Any) -> str | None:
    """Why the publisher's errata list this row, or None. LeetCode rows are listed by title, the others by id."""
    return KNOWN_BAD.get(row["question_id"]) or KNOWN_BAD.get(text(row, "question_title"))


def split(row: Any, release: str, index: int = 0) -> Split:
    """The two views of a row of test*.jsonl. Raises BadRow."""
    identity = text(row, "question_id")
    public = _tests(text(row, "public_test_cases"), "public_test_cases")
    private = _tests(_decoded(text(row, "private_test_cases")), "private_test_cases")
    kinds = {test["testtype"] for test in public + private}
    if len(kinds) != 1 or not kinds <= {"stdin", "functional"}:
        raise BadRow(f"testtype must be stdin or functional throughout, is {sorted(map(str, kinds))}")
    function = kinds == {"functional"}
    entry_point = _function_name(text(row, "metadata")) if function else None
    pairs = [(_arguments(test["input"]) if function else test["input"], test["output"]) for test in public + private]
    starter_code = text(row, "starter_code").rstrip()
    problem = Problem(
        id=identity,
        statement=text(row, "question_content"),
        mode="function" if function else "stdin",
        entry_point=entry_point,
        starter_code=starter_code or None,
        public_tests=tuple(Example(given, expected) for given, expected in pairs[: len(public)]),
        time_limit_s=TIME_LIMIT_S,
        source=f"livecodebench {release}".strip(),
        date=text(row, "contest_date")[:10],
    )
    cases = tuple(Case(given, expected) for given, expected in pairs)
    return Split(problem, HiddenTests(identity, problem.mode, cases, entry_point, None, "livecodebench"))


class _PlainUnpickler(pickle.Unpickler):
    """Refuses every global: a pickle of texts, numbers and containers opens, anything that could run code does not."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"asks for {module}.{name}")


def _decoded(field: str) -> str:
    """The JSON text of private tests, plain or packed."""
    if field.lstrip().startswith("["):
        return field
    try:
        packed = base64.b64decode(field, validate=True)
        inflater = zlib.decompressobj()
        data = inflater.decompress(packed, DECODED_LIMIT)
    except (ValueError, zlib.error) as error:
        raise BadRow(f"private_test_cases cannot be decoded: {error}") from error
    if not inflater.eof:
        raise BadRow(f"private_test_cases are cut, or longer than {DECODED_LIMIT} bytes when decoded")
    try:
        value = _PlainUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, AttributeError, TypeError) as error:
        raise BadRow(f"private_test_cases cannot be decoded: {error}") from error
    if not isinstance(value, str):
        raise BadRow(f"private_test_cases hold a {type(value).__name__}, must hold a text")
    return value


def _tests(source: str, name: str) -> list[dict[str, str]]:
    try:
        tests = json.loads(source)
    except ValueError as error:
        raise BadRow(f"{name} is not JSON: {error}") from error
    if not isinstance(tests, list) or not all(
        isinstance(test, dict) and all(isinstance(test.get(part), str) for part in ("input", "output", "testtype"))
        for test in tests
    ):
        raise BadRow(f"{name} must be a list of input, output and testtype")
    return tests


def _function_name(metadata: str) -> str:
    try:
        name = json.loads(metadata).get("func_name")
    except (ValueError, AttributeError) as error:
        raise BadRow(f"metadata is not a JSON object: {error}") from error
    if not isinstance(name, str) or not name:
        raise BadRow("metadata has no func_name, and the tests are functional")
    return name


def _arguments(lines: str) -> str:
    """One JSON value a line -> a JSON list of arguments, every number kept digit for digit."""
    joined = f"[{', '.join(line for line in lines.split(chr(10)) if line.strip())}]"
    try:
        json.loads(joined)
    except ValueError as error:
        raise BadRow(f"a functional input is not JSON: {error}") from error
    return joined
