"""From a configuration to a measurement: problems, hidden tests, sandbox, policy and engine, opened and closed in
order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from erpo_jax.config import Config
from erpo_jax.evaluate.agreement import agreement
from erpo_jax.evaluate.estimates import EvaluationError, reportable
from erpo_jax.evaluate.generations import Answer, fitting, is_generations, load_generations, save_generations
from erpo_jax.evaluate.given import load_given
from erpo_jax.evaluate.grade import Grader
from erpo_jax.evaluate.hidden import HiddenTests, hidden_path, load_hidden
from erpo_jax.evaluate.measurement import Evaluation, Progress, grade_answers, measure
from erpo_jax.evaluate.provenance import file_hash, of_grading, of_problems, weights_hash
from erpo_jax.execution import limits_for, open_sandbox
from erpo_jax.policy import Policy, load, make_mesh
from erpo_jax.problems import QUICKSTART_PROBLEMS, Problem, Prompts, load_problems
from erpo_jax.rollout import Engine, open_engine
from erpo_jax.sandbox import Sandbox


@dataclass(frozen=True)
class Session:
    """What is measured on, all checked before any model loads. `adapted` are the ids of those problems that the
    configuration trains on (the same problem, not only the same id)."""

    config: Config
    problems: tuple[Problem, ...]
    hidden: Mapping[str, HiddenTests]
    adapted: tuple[str, ...]

    @classmethod
    def of(cls, config: Config, every: int = 1) -> Session:
        """Problems 0, every, 2*every, ... of evaluate.problems, then the first evaluate.limit of them. Raises
        UserError."""
        chosen = load_problems(config.evaluate.problems)[::every]
        chosen = chosen[: config.evaluate.limit or None]
        trained = load_problems(config.problems.path)[: config.problems.limit or None]
        digests = {problem.digest() for problem in trained}
        adapted = tuple(problem.id for problem in chosen if problem.digest() in digests)
        hidden = load_hidden(config.evaluate.hidden, {problem.id for problem in chosen})
        return cls(config, tuple(chosen), hidden, adapted)

    def grader(self, sandbox: Sandbox) -> Grader:
        """A grader for the problems, with the session's limits."""
        return Grader(sandbox, self.problems, self.hidden, lambda problem: limits_for(problem, self.config.sandbox))

    def provenance(self, tier: str) -> dict[str, Any]:
        """Where the problems and verdicts come from."""
        problem_file = (
            QUICKSTART_PROBLEMS
            if self.config.evaluate.problems == "quickstart"
            else Path(self.config.evaluate.problems)
        )
        return of_problems(self.problems, problem_file, hidden_path(self.config.evaluate.hidden)) | of_grading(tier)


@dataclass(frozen=True)
class Opened:
    """A session with its policy loaded and its sandbox running."""

    session: Session
    policy: Policy
    prompts: Prompts
    engine: Engine
    sandbox: Sandbox

    def measure(
        self, temperatures: Sequence[float], samples: int, progress: Progress, generations: Path | None = None
    ) -> Evaluation:
        """Measure at each temperature; with `generations` the answers are kept in that folder, one file a temperature.

        Raises EvaluationError when evaluate.k does not fit `samples`, or no prompt fits rollout.max_prompt_tokens.
        """
        config = self.session.config
        reportable(config.evaluate.k, samples)
        problems, too_long = fitting(self.session.problems, self.prompts, config.rollout.max_prompt_tokens)
        if not problems:
            raise EvaluationError(
                f"every prompt is longer than rollout.max_prompt_tokens={config.rollout.max_prompt_tokens}"
            )
        longest = config.evaluate.max_new_tokens or config.rollout.max_new_tokens
        header = {
            "policy": config.model.path,
            "weights_hash": weights_hash(self.policy.source),
            "seed": config.evaluate.seed,
            "max_new_tokens": longest,
            "prompt": asdict(config.prompt),
            "compute_dtype": config.model.compute_dtype,
            "too_long": too_long,
        }

        def keep(temperature: float, answers: Mapping[str, Sequence[Answer]]) -> None:
            if generations is not None:
                name = f"generations-T{temperature:g}.jsonl.zst"
                save_generations(
                    generations / name, {**header, "temperature": temperature, "samples": samples}, answers
                )

        points = measure(
            self.engine,
            self.prompts,
            problems,
            self.session.grader(self.sandbox),
            temperatures=temperatures,
            samples=samples,
            max_new_tokens=longest,
            seed=config.evaluate.seed,
            progress=progress,
            keep=keep,
        )
        provenance = self.session.provenance(self.sandbox.tier) | header
        return Evaluation(
            config.model.path, tuple(config.evaluate.k), samples, tuple(points), self.session.adapted, provenance
        )


@contextmanager
def opened(session: Session) -> Iterator[Opened]:
    """Start the sandbox, load the policy, make the engine; close all of it at the end."""
    config = session.config
    with open_sandbox(session.config.sandbox) as sandbox:
        mesh = make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor)
        policy = load(
            config.model.path,
            mesh,
            compute_dtype=config.model.compute_dtype,
            remat=False,
            attention=config.model.attention,
            revision=config.model.revision,
        )
        prompts = Prompts(config.prompt, policy.tokenizer())
        with open_engine(config, policy) as engine:
            yield Opened(session, policy, prompts, engine, sandbox)


def regraded(session: Session, file: Path, progress: Progress) -> Evaluation:
    """Grade the programs of a generations file, or of samples given in another layout (`erpo_jax.evaluate.given`);
    nothing is sampled and no policy is loaded. Given samples count as of rollout.temperature; where they carry
    verdicts, `labels` of the provenance says how ours agree with them.

    Raises EvaluationError when a generations file holds a problem that the session does not, or there is no sample.
    """
    labels: dict[str, list[bool | None]] = {}
    if is_generations(file):
        header, answers = load_generations(file)
    else:
        given = load_given(file, {problem.id: problem for problem in session.problems})
        header = {
            "policy": file.name,
            "temperature": session.config.rollout.temperature,
            "samples_hash": file_hash(file),
        }
        answers = {name: [Answer("", one.program, "given", 0) for one in row] for name, row in given.items()}
        labels = {name: [one.passed for one in row] for name, row in given.items()}
    if not answers:
        raise EvaluationError(f"{file} holds no answers")
    samples = max(len(row) for row in answers.values())
    reportable(session.config.evaluate.k, samples)
    with open_sandbox(session.config.sandbox) as sandbox:
        grader = session.grader(sandbox)
        point = grade_answers(grader, answers, float(header["temperature"]), 0.0, progress)
        if any(label is not None for row in labels.values() for label in row):
            verdicts = grader.grade({name: [answer.program for answer in row] for name, row in answers.items()})
            header["labels"] = agreement(labels, verdicts)
        provenance = session.provenance(sandbox.tier) | {
            name: value for name, value in header.items() if name != "format"
        }
    return Evaluation(
        str(header["policy"]), tuple(session.config.evaluate.k), samples, (point,), session.adapted, provenance
    )
