"""Making the probes of all problems: ask the policy in rounds, judge, fill up by mutation, store.

Every round asks all unfinished problems at once. A proposal is accepted when its form is right, it breaks no limit of
the statement, its structure is new, and it does not crash every trial program (METHOD: probes). No output is ever asked
for. Left out: probes chosen for what candidates do on them. They are made once, before training, from the problem
alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from erpo_jax.config import Config
from erpo_jax.probes.answers import is_cut, read_answer
from erpo_jax.probes.checking import crashes, validity
from erpo_jax.probes.form import Form, form_of
from erpo_jax.probes.mutation import Mutator, Palette
from erpo_jax.probes.probe import Probe, ProbeSet, ProbeStatistics, Reason, Source
from erpo_jax.probes.rules import Rules, read_rules
from erpo_jax.probes.statement import mentions_limits
from erpo_jax.probes.store import ProbeStore
from erpo_jax.probes.structure import fingerprint
from erpo_jax.problems import Problem, Prompt, Prompts, extract_program
from erpo_jax.rollout.engine import Completion, Engine, Sampling
from erpo_jax.sandbox import Sandbox

Progress = Callable[[int, int], None]
Report = Callable[[], None]

_VERSION = 1  # of the way probes are made: raise it when stored ones should be made anew
_CHECKERS = 4  # checkers asked for per problem, of which the first good one counts
_CHECKER_PATIENCE = 12  # a checker that refuses so many well-formed inputs and accepts none is not believed
_MUTATION_ROUNDS = 8
_MUTATION_TRIES = 60  # per missing probe and round


@dataclass
class _Work:
    """One problem on its way to K probes."""

    problem: Problem
    form: Form
    rules: Rules
    rng: Random
    probes: list[Probe] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    programs: list[str] = field(default_factory=list)
    checker: str | None = None
    checked: Counter[bool] = field(default_factory=Counter)
    asked: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    mutations: int = 0
    mutations_refused: Counter[str] = field(default_factory=Counter)
    note: str = ""

    def examples(self) -> list[str]:
        return [test.input for test in self.problem.public_tests]

    def refuse(self, source: Source, reason: Reason) -> None:
        (self.refused if source == "policy" else self.mutations_refused)[reason] += 1


def make_probes(
    problems: Sequence[Problem],
    *,
    engine: Engine,
    prompts: Prompts,
    sandbox: Sandbox,
    config: Config,
    seed: int,
    progress: Progress | None = None,
) -> dict[str, ProbeSet]:
    """K = `probes.count` probes for every problem, by problem id; stored ones are taken from `probes.store`.

    A set may be smaller than K: its statistics then say why, and a warning names the problems. `progress(done, total)`
    counts probes; it is called while the policy samples too and may raise to stop, and problems finished by then are
    stored. Raises ProbeStoreError when the store cannot be read or written.
    """
    if config.probes.count == 0:
        return {problem.id: ProbeSet(problem.id, ()) for problem in problems}
    store = ProbeStore(config.probes.store, settings_of(config, seed))
    stored = store.load()
    made = {problem.id: stored[digest] for problem in problems if (digest := problem.digest()) in stored}

    def report() -> None:
        if progress is not None:
            open_ones = sum(len(work.probes) for work in works if work.problem.id not in made)
            progress(config.probes.count * len(made) + open_ones, total)

    maker = _Maker(engine, prompts, sandbox, config, seed, report)
    works = [maker.begin(problem) for problem in problems if problem.id not in made]
    total = config.probes.count * len(problems)

    def finish(done: Iterable[_Work]) -> None:
        for work in done:
            made[work.problem.id] = maker.result(work)
            store.append(work.problem, made[work.problem.id])
        report()

    maker.prepare(works)
    waiting = list(works)
    for step in (maker.ask, maker.mutate):
        while waiting and step(waiting):
            finish(work for work in waiting if maker.is_complete(work))
            waiting = [work for work in waiting if not maker.is_complete(work)]
    finish(waiting)
    short = [f"{name} ({len(found.probes)})" for name, found in made.items() if len(found.probes) < config.probes.count]
    if short:
        warnings.warn(f"fewer than {config.probes.count} probes: {', '.join(short[:10])}", stacklevel=2)
    return {problem.id: made[problem.id] for problem in problems}


def settings_of(config: Config, seed: int) -> str:
    """A hash of everything beside the problem that probes depend on."""
    parts = {
        "version": _VERSION,
        "probes": dataclasses.asdict(config.probes) | {"store": None},
        "prompt": dataclasses.asdict(config.prompt),
        "model": [config.model.path, config.model.revision],
        "rollout": [config.rollout.temperature, config.rollout.max_prompt_tokens, config.rollout.max_new_tokens],
        "seed": seed,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


class _Maker:
    """The steps of `make_probes`, each over all problems that wait for it."""

    def __init__(self, engine: Engine, prompts: Prompts, sandbox: Sandbox, config: Config, seed: int, report: Report):
        self._engine = engine
        self._prompts = prompts
        self._sandbox = sandbox
        self._config = config
        self._seed = seed
        self._report = report
        self._round = 0
        self._mutation_round = 0

    def begin(self, problem: Problem) -> _Work:
        form = form_of(problem)
        by_rule = self._config.probes.checker in ("auto", "rules")
        work = _Work(
            problem=problem,
            form=form,
            rules=read_rules(problem) if by_rule else Rules(),
            rng=Random(f"{self._seed}/{problem.digest()}"),
        )
        for text in work.examples():
            canonical = form.read(text)
            if canonical is not None:
                work.known.add(fingerprint(canonical, problem.mode))
        return work

    def is_complete(self, work: _Work) -> bool:
        return len(work.probes) >= self._config.probes.count

    def prepare(self, works: Sequence[_Work]) -> None:
        """Once per problem: trial programs, and a checker where rules do not do."""
        self._sample_trial_programs(works)
        if self._config.probes.checker in ("auto", "model"):
            self._sample_checkers(
                [
                    work
                    for work in works
                    if work.problem.public_tests
                    and (self._config.probes.checker == "model" or (not work.rules.rules and _is_limited(work.problem)))
                ]
            )

    def ask(self, works: Sequence[_Work]) -> bool:
        """One round of requests to the policy for more inputs. False when the budget is spent."""
        budget = self._config.probes.attempts * self._config.probes.count
        number = min(self._config.probes.batch, budget - self._round * self._config.probes.batch)
        if number <= 0:
            return False
        self._round += 1
        sampling = Sampling(self._config.probes.temperature, self._config.probes.max_new_tokens)
        requests = [(work, self._probe_prompt(work)) for work in works]
        answers = self._generate(requests, number, sampling, f"probe {self._round}")
        proposals: list[tuple[_Work, list[tuple[str, Source]]]] = []
        for work, prompt, completions in answers:
            work.asked += len(completions)
            texts: list[tuple[str, Source]] = []
            for completion in completions:
                answer = self._prompts.text(completion.token_ids)
                if completion.finish_reason == "lost":
                    work.refuse("policy", "lost")
                    continue
                text = read_answer(answer, prompt.prefill)
                # Arguments that read well are whole. Of a text nobody can say.
                whole = work.problem.mode == "function" and work.form.read(text) is not None
                if completion.finish_reason == "length" and not whole and is_cut(answer, prompt.prefill):
                    work.refuse("policy", "cut")
                else:
                    texts.append((text, "policy"))
            proposals.append((work, texts))
        self._judge(proposals)
        return True

    def mutate(self, works: Sequence[_Work]) -> bool:
        """One round of mutations of examples and accepted probes. False when enough rounds were made."""
        if self._mutation_round >= _MUTATION_ROUNDS:
            return False
        self._mutation_round += 1
        self._judge([(work, self._mutations(work)) for work in works])
        return True

    def result(self, work: _Work) -> ProbeSet:
        checker = "model" if work.checker is not None else "rules" if work.rules.rules else "none"
        statistics = ProbeStatistics(
            asked=work.asked,
            refused=dict(work.refused),
            mutations=work.mutations,
            mutations_refused=dict(work.mutations_refused),
            checker=checker,
            rules=tuple(rule.says for rule in work.rules.rules),
            trial_programs=len(work.programs),
            note="; ".join(part for part in (work.note, self._shortfall(work)) if part),
        )
        return ProbeSet(work.problem.id, tuple(work.probes), statistics)

    def _shortfall(self, work: _Work) -> str:
        if self.is_complete(work):
            return ""
        if not work.examples() and not work.probes:
            return "no input to begin from: the problem has no example and no answer of the policy was accepted"
        reasons = (work.refused + work.mutations_refused).most_common(1)
        return f"proposals ran out, most often refused as '{reasons[0][0]}'" if reasons else "nothing was proposed"

    def _generate(
        self, requests: Sequence[tuple[_Work, Prompt | None]], number: int, sampling: Sampling, purpose: str
    ) -> list[tuple[_Work, Prompt, list[Completion]]]:
        """`number` answers to each request that has a prompt. The seeds depend on the problem, not on its
        neighbours."""
        given = [(work, prompt) for work, prompt in requests if prompt is not None]
        if not given:
            return []
        seeds = [_seed(self._seed, work.problem.digest(), purpose) for work, _ in given]
        answers = self._engine.generate(
            [prompt.ids for _, prompt in given], number, sampling, seeds, lambda done, of: self._report()
        )
        return [(work, prompt, completions) for (work, prompt), completions in zip(given, answers, strict=True)]

    def _probe_prompt(self, work: _Work) -> Prompt | None:
        accepted = [probe.input for probe in work.probes]
        for shown in (accepted, accepted[-1:], []):
            prompt = self._prompts.probe(work.problem, shown)
            if len(prompt.ids) <= self._config.rollout.max_prompt_tokens:
                return prompt
        work.note = f"the request for an input is longer than rollout.max_prompt_tokens ({len(prompt.ids)})"
        return None

    def _programs(
        self, works: Sequence[_Work], prompt_of: Callable[[Problem], Prompt], number: int, purpose: str
    ) -> list[tuple[_Work, list[str]]]:
        prompts = [(work, prompt_of(work.problem)) for work in works]
        fitting = [(w, p) for w, p in prompts if len(p.ids) <= self._config.rollout.max_prompt_tokens]
        sampling = Sampling(self._config.rollout.temperature, self._config.rollout.max_new_tokens)
        found = []
        for work, prompt, completions in self._generate(fitting, number, sampling, purpose):
            texts = [self._prompts.text(completion.token_ids) for completion in completions]
            programs = [extract_program(text, prompt.prefill) for text in texts]
            found.append((work, [program for program in programs if program is not None]))
        return found

    def _sample_trial_programs(self, works: Sequence[_Work]) -> None:
        """Keep the programs that can speak: those that run on at least one example."""
        if not self._config.probes.trial_programs:
            return
        sampled = self._programs(works, self._prompts.solve, self._config.probes.trial_programs, "trial")
        tried = crashes([(w.problem, p, w.examples()) for w, p in sampled], self._sandbox, self._config.sandbox)
        for (work, programs), crashed in zip(sampled, tried, strict=True):
            work.programs = [p for p, row in zip(programs, crashed, strict=True) if not row or not all(row)]

    def _sample_checkers(self, works: Sequence[_Work]) -> None:
        """The first checker that accepts every example is believed."""
        sampled = self._programs(works, self._prompts.check, _CHECKERS, "check")
        asked = [(work.problem, program, work.examples()) for work, programs in sampled for program in programs]
        verdicts = iter(validity(asked, self._sandbox, self._config.sandbox))
        for work, programs in sampled:
            good = [program for program in programs if all(next(verdicts))]
            work.checker = good[0] if good else None

    def _mutations(self, work: _Work) -> list[tuple[str, Source]]:
        """Mutated inputs that pass the checks that cost nothing, a few more than are missing."""
        examples = [text for text in map(work.form.read, work.examples()) if text is not None]
        parents: list[tuple[str, Source]] = [(text, "mutated_example") for text in examples]
        # The child of a mutated example is a mutated example still.
        heir: dict[Source, Source] = {"policy": "mutated_probe"}
        parents += [(probe.input, heir.get(probe.source, probe.source)) for probe in work.probes]
        if not parents:
            return []
        missing = self._config.probes.count - len(work.probes)
        palette = Palette.of([text for text, _ in parents], work.rules.low, work.rules.high)
        mutator = Mutator(work.form, palette, work.rng)
        found: list[tuple[str, Source]] = []
        fresh: set[str] = set()
        for _ in range(_MUTATION_TRIES * missing):
            parent, source = work.rng.choice(parents)
            work.mutations += 1
            text, reason = self._look(work, mutator.mutate(parent))
            mark = fingerprint(text, work.problem.mode) if text is not None else ""
            if text is None or mark in fresh:
                work.refuse(source, reason or "known")
                continue
            fresh.add(mark)
            found.append((text, source))
            if len(found) == missing + 2:
                break
        return found

    def _look(self, work: _Work, answer: str) -> tuple[str | None, Reason | None]:
        """The canonical text of a proposal that passes all checks that need no program, or the reason why not."""
        text = work.form.read(answer)
        if text is None:
            return None, "format"
        if not work.rules.obeyed(text):
            return None, "constraints"
        return (None, "known") if fingerprint(text, work.problem.mode) in work.known else (text, None)

    def _judge(self, proposals: Sequence[tuple[_Work, Sequence[tuple[str, Source]]]]) -> None:
        """Accept what passes, in order; count the rest by reason."""
        looked: list[tuple[_Work, list[tuple[str, Source]]]] = []
        for work, texts in proposals:
            passed: list[tuple[str, Source]] = []
            for answer, source in texts:
                text, reason = self._look(work, answer)
                if text is None:
                    work.refuse(source, reason or "format")
                else:
                    passed.append((text, source))
            looked.append((work, passed))
        crashed = crashes(
            [(work.problem, work.programs, [text for text, _ in texts]) for work, texts in looked],
            self._sandbox,
            self._config.sandbox,
        )
        checked = iter(
            validity(
                [(w.problem, w.checker, [text for text, _ in texts]) for w, texts in looked if w.checker is not None],
                self._sandbox,
                self._config.sandbox,
            )
        )
        for (work, texts), rows in zip(looked, crashed, strict=True):
            valid = next(checked) if work.checker is not None else [True] * len(texts)
            self._doubt_checker(work, valid)
            for index, (text, source) in enumerate(texts):
                mark = fingerprint(text, work.problem.mode)
                if work.checker is not None and not valid[index]:
                    work.refuse(source, "constraints")
                elif rows and all(row[index] for row in rows):
                    work.refuse(source, "crashes")
                elif mark in work.known:
                    work.refuse(source, "known")
                elif not self.is_complete(work):
                    work.known.add(mark)
                    work.probes.append(Probe(text, source))

    def _doubt_checker(self, work: _Work, valid: Sequence[bool]) -> None:
        if work.checker is None:
            return
        work.checked.update(valid)
        if not work.checked[True] and work.checked[False] >= _CHECKER_PATIENCE:
            work.checker = None
            work.note = f"the policy's checker refused {work.checked[False]} well-formed inputs and was dropped"


def _is_limited(problem: Problem) -> bool:
    return mentions_limits(f"{problem.statement}\n{problem.starter_code or ''}\n{problem.input_constraints or ''}")


def _seed(seed: int, *parts: str) -> int:
    """A 31-bit seed of a name."""
    return int.from_bytes(hashlib.sha256("/".join([str(seed), *parts]).encode()).digest()[:4], "big") >> 1
