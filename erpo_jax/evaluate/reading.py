"""Rows of published files, one at a time: JSON Lines and parquet are streamed, a JSON list is held whole.

(No large set is published as one JSON list; MBPP's sanitized form is.) A line that is not JSON is handed on as the text
it is, so that it is counted and named like any other bad row; a file that breaks off is an error.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.estimates import EvaluationError

ROWS = 16
"""Rows of parquet decoded at once: single ones reach tens of megabytes."""


def read_rows(file: Path) -> Iterator[tuple[str, Any]]:
    """(file:line or file[index], row) of JSON Lines, one JSON list, or parquet; the first two plain or gzipped.

    Raises EvaluationError for a file that cannot be read.
    """
    if file.suffix == ".parquet":
        yield from parquet_rows(file)
        return
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as stream:
            first = stream.read(1)
            stream.seek(0)
            if first == "[":
                yield from ((f"{file.name}[{index}]", row) for index, row in enumerate(json.load(stream)))
                return
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield f"{file.name}:{number}", _parsed(line)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise EvaluationError(f"{file} cannot be read: {error}") from error


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line


def parquet_rows(file: Path) -> Iterator[tuple[str, Any]]:
    """(file[index], row) of a parquet file. Raises EvaluationError for one that cannot be read, or without pyarrow."""
    # Without pre_buffer the columns of a row group are not fetched whole.
    with _arrow(file) as parquet, parquet.ParquetFile(file, pre_buffer=False, memory_map=True) as table:
        rows = (row for batch in table.iter_batches(batch_size=ROWS) for row in batch.to_pylist())
        yield from ((f"{file.name}[{index}]", row) for index, row in enumerate(rows))


def parquet_rows_where(file: Path, column: str, value: str) -> list[Any]:
    """The rows of a parquet file whose `column` is `value`. Raises EvaluationError as `parquet_rows` does."""
    with _arrow(file) as parquet:
        rows: list[Any] = parquet.read_table(file, filters=[(column, "=", value)]).to_pylist()
        return rows


@contextmanager
def _arrow(file: Path) -> Iterator[Any]:
    """The module pyarrow.parquet; its errors about `file`, or its absence, as EvaluationError."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise EvaluationError(f"reading {file.name} needs pyarrow: pip install 'erpo_jax[data]'") from error
    try:
        yield parquet
    except (OSError, ArrowException) as error:
        raise EvaluationError(f"{file} cannot be read: {error}") from error
