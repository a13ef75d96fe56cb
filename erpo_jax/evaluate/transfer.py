"""The transfer matrix, measured: a base and the policies adapted from it, each on several sets of problems.

A cell is a policy on a set at a temperature: the base at all of `evaluate.temperatures` (its curve is the control of
every set), the others at `rollout.temperature`. A cell is a file whose name holds a digest of all that decides it
(weights, problems, hidden tests, grader, sampling, limits): an interrupted matrix goes on, a changed setting measures
again.
What a policy was adapted on is read off its run folder: nobody has to say which cells are in-domain.
Left out: what the cells add up to (`transfer_table.py`), and several processes at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from erpo_jax import config as configuration
from erpo_jax.config import Config
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.grade import GRADER_VERSION
from erpo_jax.evaluate.hidden import hidden_path, load_hidden
from erpo_jax.evaluate.measurement import Evaluation, Progress, check_plan, load_evaluation, save_evaluation
from erpo_jax.evaluate.provenance import file_hash, weights_hash
from erpo_jax.evaluate.session import Opened, Session, opened
from erpo_jax.policy import resolve
from erpo_jax.problems import QUICKSTART_PROBLEMS, load_problems
from erpo_jax.run_folder import RunFolder, digest

BASE = "base"


@dataclass(frozen=True)
class ProblemSet:
    """A column: `problems` and `hidden` are values of evaluate.problems and evaluate.hidden."""

    name: str
    problems: str
    hidden: str

    @classmethod
    def of(cls, word: str) -> ProblemSet:
        """`[NAME=]PATH`: "quickstart"; a folder as launch/prepare.py makes it; or a file of problems, whose hidden
        tests lie beside it under its name with "hidden" in place of "problems". Raises EvaluationError."""
        name, path = _named(word)
        if path == "quickstart":
            return cls(name or path, path, path)
        given = Path(path)
        file = given / "problems.jsonl" if given.is_dir() else given
        if not file.is_file():
            raise EvaluationError(
                f"there is no set {path}: a set is a folder with problems.jsonl and hidden.jsonl, a file of problems "
                f"with its hidden tests beside it, or quickstart"
            )
        hidden = file.with_name(file.name.replace("problems", "hidden"))
        if hidden == file or not hidden.is_file():
            raise EvaluationError(
                f"the hidden tests of {file} must lie beside it, under its name with 'hidden' in place of 'problems'"
            )
        stem = file.name.split(".")[0].replace("problems", "").strip("_-.")
        return cls(name or stem or file.resolve().parent.name, str(file), str(hidden))

    def session(self, config: Config) -> Session:
        """The set as something to measure on. Raises UserError for a broken file."""
        settings = deepcopy(config)
        settings.evaluate.problems, settings.evaluate.hidden = self.problems, self.hidden
        problems = load_problems(self.problems)[: config.evaluate.limit or None]
        return Session(settings, tuple(problems), load_hidden(self.hidden, {one.id for one in problems}), ())

    def hashes(self) -> tuple[str, str]:
        """Of the problems and of their hidden tests."""
        file = QUICKSTART_PROBLEMS if self.problems == "quickstart" else Path(self.problems)
        return file_hash(file), file_hash(hidden_path(self.hidden))


@dataclass(frozen=True)
class Contender:
    """A row: a checkpoint, and the digests of the problems it was adapted on (None: not known)."""

    name: str
    path: str
    trained: frozenset[str] | None

    @classmethod
    def of(cls, word: str, config: Config) -> Contender:
        """`[NAME=]PATH`: a run folder (its newest export), an export of one, or any checkpoint, of which it is not
        known what it was adapted on. Raises EvaluationError for a run from another base or under another prompt."""
        name, path = _named(word)
        given = Path(path)
        in_run = given.parent.parent if given.parent.name == "exports" else given
        if not (in_run / "config.yaml").is_file() or not (in_run / "data.json").is_file():
            if path != "quickstart" and given.is_dir() and not (given / "config.json").is_file():
                raise EvaluationError(
                    f"{given} is neither a run folder nor a checkpoint: no config.yaml, no config.json"
                )
            return cls(name or given.name, path, None)
        run = RunFolder(in_run)
        _refuse_other_base(run, config)
        exports = sorted((item for item in run.exports.glob("*") if item.name.isdecimal()), key=lambda i: int(i.name))
        if not exports:
            raise EvaluationError(f"{in_run} has no export yet: let its run end, or write one with launch/export.py")
        export = exports[-1] if given == in_run else given
        trained = _trained_on(in_run / "data.json")
        return cls(name or in_run.resolve().name, str(export), trained)


def _trained_on(file: Path) -> frozenset[str]:
    try:
        return frozenset(map(str, json.loads(file.read_text(encoding="utf-8")).values()))
    except (ValueError, AttributeError, RecursionError) as error:
        raise EvaluationError(f"{file} does not list the problems of the run: {error}") from error


def _named(word: str) -> tuple[str, str]:
    name, _, path = word.rpartition("=")
    if not path or name != Path(name).name:
        raise EvaluationError(f"'{word}': a set or policy is PATH or NAME=PATH, NAME without '/'")
    return name, path


def _refuse_other_base(run: RunFolder, config: Config) -> None:
    own = configuration.load([run.path / "config.yaml"])
    for name in configuration.names():
        if name.startswith(("model.path", "model.revision", "prompt.")):
            theirs, ours = configuration.get(own, name), configuration.get(config, name)
            if theirs != ours:
                raise EvaluationError(
                    f"{run.path} was adapted with {name}={theirs}, the matrix has {name}={ours}; give the "
                    f"configuration of the runs, such as {run.path / 'config.yaml'}"
                )


@dataclass(frozen=True)
class Matrix:
    """What is to be measured. `folder` keeps the cells. All of it is checked before any model loads."""

    config: Config
    sets: tuple[ProblemSet, ...]
    contenders: tuple[Contender, ...]
    folder: Path

    @classmethod
    def of(cls, config: Config, sets: Sequence[str], policies: Sequence[str], folder: Path) -> Matrix:
        """From the words of a command line. Raises UserError for the first mistake."""
        columns = tuple(map(ProblemSet.of, sets))
        base = Contender(BASE, config.model.path, frozenset())
        rows = (base, *(Contender.of(word, config) for word in policies))
        for what, names in (("sets", [one.name for one in columns]), ("policies", [one.name for one in rows])):
            for name in names:
                if names.count(name) > 1:
                    raise EvaluationError(f"two {what} are called {name}; name one of them: NAME=PATH")
        found = cls(config, columns, rows, folder)
        for one in columns:
            check_plan(found.temperatures(base), one.session(config).problems)
        return found

    def temperatures(self, row: Contender) -> list[float]:
        """What the row is measured at."""
        own = self.config.rollout.temperature
        return sorted({*self.config.evaluate.temperatures, own}) if row.name == BASE else [own]

    def measure(self, progress: Progress) -> Iterator[tuple[Contender, ProblemSet, Evaluation]]:
        """Every row on every set, row by row: from its files, and where they are missing measured and kept."""
        hashes = {one.name: one.hashes() for one in self.sets}
        for row in self.contenders:
            weights = weights_hash(resolve(row.path, self.config.model.revision if row.name == BASE else None))
            with ExitStack() as stack:
                ready: Opened | None = None
                for column in self.sets:
                    session = column.session(self.config)
                    cells = []
                    for temperature in self.temperatures(row):
                        file = self._file(row, column, temperature, [weights, *hashes[column.name]])
                        if not file.exists():
                            if ready is None:
                                ready = stack.enter_context(opened(_with_policy(session, row)))
                            label = partial(_labelled, progress, f"{row.name} on {column.name}: ")
                            at_hand = replace(ready, session=_with_policy(session, row))
                            save_evaluation(file, at_hand.measure([temperature], self.config.evaluate.samples, label))
                        cells.append(load_evaluation(file))
                    yield row, column, self._whole(cells, session, row)

    def _file(self, row: Contender, column: ProblemSet, temperature: float, hashes: Sequence[str]) -> Path:
        own = self.config
        decides = [
            *hashes, GRADER_VERSION, temperature, asdict(own.prompt), asdict(own.sandbox) | {"workers": 0},
            own.model.compute_dtype, own.rollout.max_prompt_tokens, own.rollout.max_new_tokens,
            own.evaluate.max_new_tokens, own.evaluate.samples, own.evaluate.limit, own.evaluate.seed,
        ]  # fmt: skip
        return self.folder / column.name / f"{row.name}-T{temperature:g}-{digest(decides)[:8]}.json"

    def _whole(self, cells: Sequence[Evaluation], session: Session, row: Contender) -> Evaluation:
        """One evaluation of all temperatures, with the problems of the set that the row was adapted on."""
        adapted = tuple(one.id for one in session.problems if one.digest() in (row.trained or ()))
        points = tuple(point for cell in cells for point in cell.points)
        return replace(cells[0], ks=tuple(self.config.evaluate.k), points=points, adapted=adapted)


def _with_policy(session: Session, row: Contender) -> Session:
    settings = deepcopy(session.config)
    if row.name != BASE:
        settings.model.path, settings.model.revision = row.path, None
    return replace(session, config=settings)


def _labelled(progress: Progress, label: str, part: str, done: int, total: int) -> None:
    progress(label + part, done, total)
