"""Split published benchmark files: problems.jsonl (all that training may see), hidden.jsonl and solutions.jsonl
(evaluation's).

`prepare` streams rows, keeps no file in memory, counts and names the rows it cannot use, and writes prepared.json
beside them: release, date window, hashes of the sources, counts. A benchmark is one entry of `BENCHMARKS`.
"""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import IO, Any

from erpo_jax.evaluate.benchmarks import codecontests, codeforces, evalplus, humaneval, livecodebench, mbpp, own, taco
from erpo_jax.evaluate.benchmarks.hub import hub_files
from erpo_jax.evaluate.benchmarks.row import BadRow, Split
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import integers_of_any_length, read_tests
from erpo_jax.evaluate.provenance import file_hash
from erpo_jax.evaluate.reading import read_rows
from erpo_jax.problems import Problem, ProblemError, read_problem

PARTS = ("problems", "hidden", "solutions")


@dataclass(frozen=True)
class Benchmark:
    """`split(row, release, index)` makes the views of a row (number `index` of all) or raises BadRow; `known_bad(row)`
    says what is wrong with it, if that is known."""

    split: Callable[[Any, str, int], Split]
    known_bad: Callable[[Any], str | None] = lambda row: None


BENCHMARKS = {
    "humaneval": Benchmark(humaneval.split),
    "humaneval+": Benchmark(evalplus.split_humaneval),
    "mbpp": Benchmark(mbpp.split),
    "mbpp+": Benchmark(evalplus.split_mbpp),
    "livecodebench": Benchmark(livecodebench.split, livecodebench.known_bad),
    "codecontests": Benchmark(codecontests.split, codecontests.known_bad),
    "codeforces": Benchmark(codeforces.split, codeforces.known_bad),
    "taco": Benchmark(taco.split_taco),
    "apps": Benchmark(taco.split_apps),
    "own": Benchmark(own.split),
}


@dataclass
class Summary:
    """What became of the rows: `bad` rows could not be used, `left_out` ones are known to be faulty."""

    benchmark: str
    release: str
    start: str | None
    end: str | None
    sources: dict[str, str] = field(default_factory=dict)
    written: int = 0
    solutions: int = 0
    outside_window: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    known_bad_kept: dict[str, str] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)


def prepare(
    name: str,
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    release: str = "",
    start: date | None = None,
    end: date | None = None,
    drop_known_bad: bool = False,
    faulty: Mapping[int, str] | None = None,
    generated_tests: Path | None = None,
) -> Summary:
    """Write problems.jsonl, hidden.jsonl, solutions.jsonl (if the set has programs) and prepared.json into `out`.

    `sources` are the published files of benchmark `name` in order, or "hub" (the test split there) or "hub:SPLIT".
    `start` and `end` bound `Problem.date`, both inclusive. `release` is what the publisher calls these files; it goes
    into `Problem.source`. `faulty` names rows that are known to be faulty by their number, besides those that the
    benchmark lists. `generated_tests` is the folder of CodeForces' generated tests. Raises EvaluationError: an unknown
    benchmark, a source that is not there, no usable row, or a window on a benchmark without dates.
    """
    if name not in BENCHMARKS:
        near = "".join(f"; did you mean {one}?" for one in difflib.get_close_matches(name, BENCHMARKS, n=1))
        raise EvaluationError(f"unknown benchmark {name!r}; known are {', '.join(BENCHMARKS)}{near}")
    if generated_tests is not None and name != "codeforces":
        raise EvaluationError(f"generated tests in files of their own belong to codeforces, not to {name}")
    files = _files(name, sources, release)
    summary = Summary(name, release, start.isoformat() if start else None, end.isoformat() if end else None)
    summary.sources = {file.name: file_hash(file) for file in files if file.is_file()}
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    rows: Iterator[tuple[str, Any]] = itertools.chain.from_iterable(
        taco.folder_rows(file) if file.is_dir() else read_rows(file) for file in files
    )
    if generated_tests is not None:
        rows = codeforces.with_generated_tests(rows, generated_tests)
    with integers_of_any_length(), ExitStack() as stack:
        outputs = [stack.enter_context(_replacing(folder / f"{part}.jsonl")) for part in PARTS]
        for problem, tests, solutions in _usable(BENCHMARKS[name], rows, summary, drop_known_bad, faulty or {}):
            outputs[0].write(json.dumps(asdict(problem), ensure_ascii=False) + "\n")
            outputs[1].write(tests.line() + "\n")
            outputs[2].writelines(one.line(problem.id) + "\n" for one in solutions)
            summary.written += 1
            summary.solutions += len(solutions)
        if not summary.written:
            first = next((f"; the first bad row is {where}: {why}" for where, why in summary.bad.items()), "")
            raise EvaluationError(f"no usable row of {name} in {', '.join(map(str, sources))}{first}")
    if not summary.solutions:
        (folder / "solutions.jsonl").unlink()
    (folder / "prepared.json").write_text(json.dumps(asdict(summary), indent=2, ensure_ascii=False) + "\n")
    return summary


def _files(name: str, sources: Sequence[str | Path], release: str) -> list[Path]:
    files: list[Path] = []
    for source in sources:
        if str(source).partition(":")[0] == "hub":
            files += hub_files(name, str(source), release)
        elif Path(source).is_file() or (name == "apps" and Path(source).is_dir()):
            files.append(Path(source))
        else:
            raise EvaluationError(f"there is no file {source}")
    return files


def _usable(
    benchmark: Benchmark,
    rows: Iterator[tuple[str, Any]],
    summary: Summary,
    drop_known_bad: bool,
    faulty: Mapping[int, str],
) -> Iterator[Split]:
    """The rows that are written; `summary` is told about the others."""
    start, end = (date.fromisoformat(day) if day else None for day in (summary.start, summary.end))
    seen: set[str] = set()
    for index, (where, row) in enumerate(rows):
        try:
            views = readable(benchmark.split(row, summary.release, index))
            if views.problem.id in seen:
                raise BadRow(f"the id {views.problem.id!r} stands twice in these files")
            reason = faulty.get(index) or benchmark.known_bad(row)
        except BadRow as error:
            summary.bad[where] = str(error).encode(errors="backslashreplace").decode()
            continue
        except RecursionError:
            summary.bad[where] = "is nested too deeply"
            continue
        identity = views.problem.id
        if not _inside(views.problem, start, end):
            summary.outside_window += 1
            continue
        if reason is not None:
            (summary.left_out if drop_known_bad else summary.known_bad_kept)[identity] = reason
            if drop_known_bad:
                continue
        seen.add(identity)
        yield views


def readable(views: Split) -> Split:
    """The views, if they can be written and read back. Raises BadRow."""
    problem, tests, solutions = views
    lines = [json.dumps(asdict(problem), ensure_ascii=False), tests.line(), *(one.line("") for one in solutions)]
    try:
        for line in lines:
            line.encode()
        read_problem(json.loads(lines[0]), "problem")
        read_tests(json.loads(lines[1]), "tests")
        date.fromisoformat(problem.date or "2000-01-01")
    except UnicodeEncodeError as error:
        raise BadRow(f"holds the lone surrogate {error.object[error.start]!r}, which UTF-8 cannot") from error
    except (ProblemError, EvaluationError) as error:
        raise BadRow(str(error)) from error
    except ValueError as error:
        raise BadRow(f"the date {problem.date!r} is not a day such as 2024-08-01") from error
    return views


def _inside(problem: Problem, start: date | None, end: date | None) -> bool:
    if start is None and end is None:
        return True
    if problem.date is None:
        raise EvaluationError(f"a date window needs dates, and problem {problem.id!r} has none")
    day = date.fromisoformat(problem.date)
    return (start is None or start <= day) and (end is None or day <= end)


class _replacing:
    """A text file that takes its name only when the block ended well."""

    def __init__(self, file: Path):
        self._file, self._part = file, file.with_name(file.name + ".part")

    def __enter__(self) -> IO[str]:
        self._stream = self._part.open("w", encoding="utf-8")
        return self._stream

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._stream.close()
            if kind is None:
                self._part.replace(self._file)
        finally:
            self._part.unlink(missing_ok=True)
