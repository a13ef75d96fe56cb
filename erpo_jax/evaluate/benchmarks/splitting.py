"""Split a published benchmark file in two: problems.jsonl (all that training may see) and hidden.jsonl (evaluation's).

`prepare` streams rows, keeps neither file in memory, counts and names the rows it cannot use, and writes prepared.json
beside the two: release, date window, hashes of the sources, counts. A benchmark is one entry of `BENCHMARKS`.
Left out: downloading. The sources are files that the data sets' publishers offer.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import IO, Any

from erpo_jax.evaluate.benchmarks import humaneval, livecodebench, mbpp
from erpo_jax.evaluate.benchmarks.row import BadRow, Split
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.provenance import file_hash
from erpo_jax.problems import Problem


@dataclass(frozen=True)
class Benchmark:
    """`split(row, release)` makes the two views of a row or raises BadRow; `known_bad(row)` says what is wrong with it,
    if the publisher lists it as faulty."""

    split: Callable[[Any, str], Split]
    known_bad: Callable[[Any], str | None] = lambda row: None


BENCHMARKS = {
    "humaneval": Benchmark(humaneval.split),
    "mbpp": Benchmark(mbpp.split),
    "livecodebench": Benchmark(livecodebench.split, livecodebench.known_bad),
}


@dataclass
class Summary:
    """What became of the rows: `bad` rows could not be used, `left_out` ones are outside the window or known to be
    faulty."""

    benchmark: str
    release: str
    start: str | None
    end: str | None
    sources: dict[str, str] = field(default_factory=dict)
    written: int = 0
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
) -> Summary:
    """Write `out`/problems.jsonl, hidden.jsonl and prepared.json from the published files of benchmark `name`.

    `start` and `end` bound `Problem.date`, both inclusive. `release` is what the publisher calls these files; it goes
    into `Problem.source`. Raises EvaluationError: an unknown benchmark, a source that is not there, no usable row, an
    id that stands twice, or a window on a benchmark without dates.
    """
    if name not in BENCHMARKS:
        raise EvaluationError(f"unknown benchmark {name!r}; known are {', '.join(BENCHMARKS)}")
    files = [Path(source) for source in sources]
    for file in files:
        if not file.is_file():
            raise EvaluationError(f"there is no file {file}")
    benchmark, folder = BENCHMARKS[name], Path(out)
    summary = Summary(name, release, start.isoformat() if start else None, end.isoformat() if end else None)
    summary.sources = {file.name: file_hash(file) for file in files}
    folder.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    with ExitStack() as stack:
        problems, hidden = (
            stack.enter_context(_replacing(folder / f"{part}.jsonl")) for part in ("problems", "hidden")
        )
        for where, row in (pair for file in files for pair in read_rows(file)):
            try:
                problem, tests = benchmark.split(row, release)
            except BadRow as error:
                summary.bad[where] = str(error)
                continue
            if not _inside(problem, start, end):
                summary.outside_window += 1
                continue
            reason = benchmark.known_bad(row)
            if reason is not None:
                (summary.left_out if drop_known_bad else summary.known_bad_kept)[problem.id] = reason
                if drop_known_bad:
                    continue
            if problem.id in seen:
                raise EvaluationError(f"{where}: the id {problem.id!r} stands twice in these files")
            seen.add(problem.id)
            problems.write(_problem_line(problem) + "\n")
            hidden.write(tests.line() + "\n")
            summary.written += 1
        if not summary.written:
            first = next((f"; the first bad row is {where}: {why}" for where, why in summary.bad.items()), "")
            raise EvaluationError(f"no usable row of {name} in {', '.join(map(str, files))}{first}")
    (folder / "prepared.json").write_text(json.dumps(asdict(summary), indent=2, ensure_ascii=False) + "\n")
    return summary


def read_rows(file: Path) -> Iterator[tuple[str, Any]]:
    """(file:line or file[index], row) of a JSON Lines file or one JSON list, plain or gzipped; JSON Lines are streamed.

    Raises EvaluationError for a line that is not JSON.
    """
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as stream:
        first = stream.read(1)
        stream.seek(0)
        if first == "[":
            try:
                rows = json.load(stream)
            except ValueError as error:
                raise EvaluationError(f"{file}: not valid JSON: {error}") from error
            yield from ((f"{file.name}[{index}]", row) for index, row in enumerate(rows))
            return
        for number, line in enumerate(stream, 1):
            if line.strip():
                try:
                    yield f"{file.name}:{number}", json.loads(line)
                except ValueError as error:
                    raise EvaluationError(f"{file}:{number}: not valid JSON: {error}") from error


def _problem_line(problem: Problem) -> str:
    return json.dumps(asdict(problem), ensure_ascii=False)


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
        self._stream.close()
        if kind is None:
            self._part.replace(self._file)
        else:
            self._part.unlink()
