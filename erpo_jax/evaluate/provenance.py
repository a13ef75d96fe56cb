"""Where a number comes from: files and their hashes, release and date window, how many problems, which grader."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.grade import GRADER_VERSION
from erpo_jax.problems import Problem


def file_hash(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits; read in pieces."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def weights_hash(folder: Path) -> str:
    """One SHA-256 over the names and contents of a checkpoint folder's config.json and weight files."""
    whole = hashlib.sha256()
    for file in sorted([*folder.glob("*.safetensors"), folder / "config.json"]):
        if file.is_file():
            whole.update(f"{file.name} {file_hash(file)}\n".encode())
    return whole.hexdigest()


def of_problems(problems: Sequence[Problem], problem_file: Path, hidden_file: Path) -> dict[str, Any]:
    """What the report says about the problems. `prepared` (release, window, sources) is there when the problems were
    made by launch/prepare.py and its prepared.json still lies beside them."""
    dates = sorted(problem.date for problem in problems if problem.date)
    beside = problem_file.parent / "prepared.json"
    return {
        "problems": len(problems),
        "problem_file": problem_file.name,
        "problem_hash": file_hash(problem_file),
        "hidden_file": hidden_file.name,
        "hidden_hash": file_hash(hidden_file),
        "sources": sorted({problem.source for problem in problems if problem.source}),
        "dates": [dates[0], dates[-1]] if dates else None,
        "prepared": _read(beside) if beside.is_file() else None,
    }


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no reason to lose what was measured: the report says so
        return f"{file.name} is damaged: {error}"


def of_grading(tier: str) -> dict[str, Any]:
    """What the report says about the grading."""
    return {
        "grader_version": GRADER_VERSION,
        "sandbox_tier": tier,
        "python": platform.python_version(),
        "erpo_jax": version("erpo_jax"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
