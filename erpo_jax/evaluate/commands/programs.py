"""Flags and files that `signal` and `select` share: which programs, and which probes they run on."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from erpo_jax.errors import UserError
from erpo_jax.evaluate.generations import is_generations, load_generations
from erpo_jax.evaluate.given import load_given
from erpo_jax.evaluate.groups import ProgramGroup, dealt, of_answers, of_rollouts, of_solutions
from erpo_jax.evaluate.hidden import load_hidden
from erpo_jax.evaluate.probing import from_file, from_store, from_tests
from erpo_jax.evaluate.provenance import file_hash
from erpo_jax.evaluate.session import Session
from erpo_jax.evaluate.solutions import load_solutions
from erpo_jax.probes import ProbeStore, settings_of


def add_flags(parser: argparse.ArgumentParser, *, needs_probes: bool) -> None:
    """--rollouts, --generations or --solutions; --probes-from, --probes, --seed."""
    add = parser.add_argument
    files = parser.add_argument_group("programs (one of these)").add_mutually_exclusive_group(required=True)
    files.add_argument("--rollouts", type=Path, metavar="PATH", help="a run's rollouts folder, or one file of it")
    files.add_argument(
        "--generations",
        type=Path,
        metavar="FILE",
        help="programs that --generations kept, or samples from elsewhere (erpo_jax/evaluate/given.py)",
    )
    files.add_argument("--solutions", type=Path, metavar="FILE", help="programs that came with a data set")
    add(
        "--probes-from",
        metavar="recorded | store | hidden | FOLDER | FILE" + ("" if needs_probes else " | none"),
        help="recorded: those of the rollouts (their default); store: probes.store (the others' default); hidden: "
        "inputs drawn from the hidden tests; a folder that launch/prepare.py made: drawn from the hidden tests there, "
        'by id; a file of yours: {"id": problem, "inputs": [...]} a line'
        + ("" if needs_probes else "; none: only what needs no probes"),
    )
    add("--probes", type=int, metavar="K", help="use at most so many probes a problem; default: probes.count")
    add("--seed", type=int, default=0, help="of everything drawn here; default 0")


def check_flags(arguments: argparse.Namespace, *, needs_probes: bool) -> None:
    """Raises UserError for flags that do not go together, and for numbers below 1."""
    for name in ("probes", "group_size", "draws"):
        value = getattr(arguments, name, None)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} {value}: must be at least 1")
    if arguments.probes_from == "recorded" and not arguments.rollouts:
        raise UserError("--probes-from recorded needs --rollouts: other files hold no probes")
    words = ("recorded", "store", "hidden", *(() if needs_probes else ("none",)))
    if arguments.probes_from not in (None, *words) and not Path(arguments.probes_from).exists():
        raise UserError(
            f"--probes-from {arguments.probes_from}: must be {', '.join(words)}, or a folder or file that exists"
        )


def read(arguments: argparse.Namespace, session: Session) -> tuple[list[ProgramGroup], dict[str, Any]]:
    """The groups with their probes, and where both are from. Says which problems have programs but no probes."""
    groups, provenance = _programs(arguments, session)
    if getattr(arguments, "group_size", None):
        groups = dealt(groups, arguments.group_size, arguments.seed)
    probes = arguments.probes_from or ("recorded" if arguments.rollouts else "store")
    config, count = session.config, arguments.probes or session.config.probes.count
    if probes == "none":
        return [replace(group, probes=(), sources=()) for group in groups], provenance
    if probes == "hidden" or Path(probes).is_dir():
        hidden = session.hidden if probes == "hidden" else load_hidden(Path(probes) / "hidden.jsonl")
        groups = from_tests(groups, hidden, count, arguments.seed)
    elif probes == "store":
        store = ProbeStore(config.probes.store, settings_of(config, config.train.seed))
        groups = from_store(groups, {problem.id: problem for problem in session.problems}, store.load())
    elif probes != "recorded":
        groups = from_file(groups, probes)
        provenance["probes_hash"] = file_hash(probes)
    bare = list(dict.fromkeys(group.problem for group in groups if not group.probes))
    if bare:
        print(f"{len(bare)} problem(s) left out, without a probe: {', '.join(bare[:5])}{' ...' if bare[5:] else ''}")
    groups = [
        replace(group, probes=group.probes[:count], sources=group.sources[:count]) for group in groups if group.probes
    ]
    return groups, provenance | {"probes_from": probes, "probes_at_most": count, "seed": arguments.seed}


def _programs(arguments: argparse.Namespace, session: Session) -> tuple[list[ProgramGroup], dict[str, Any]]:
    """The programs of the session's problems; those of other problems are left out and counted."""
    file: Path = arguments.rollouts or arguments.generations or arguments.solutions
    provenance: dict[str, Any] = {"programs": str(file)}
    if arguments.rollouts:
        groups = of_rollouts(file)
    elif arguments.generations and not is_generations(file):
        groups = of_solutions(load_given(file, {problem.id: problem for problem in session.problems}))
    elif arguments.generations:
        header, answers = load_generations(file)
        groups = of_answers(answers, drop_truncated=session.config.reward.truncated == "drop")
        provenance |= {f"programs_{name}": value for name, value in header.items() if name != "format"}
    else:
        groups = of_solutions(load_solutions(file))
    if file.is_file():
        provenance["programs_hash"] = file_hash(file)
    known = {problem.id for problem in session.problems}
    inside = [group for group in groups if group.problem in known]
    others = len({group.problem for group in groups if group.problem not in known})
    if not inside:
        raise UserError(f"{file} has no program for a problem of {session.config.evaluate.problems}")
    if others:
        print(f"{others} problem(s) of {file} left out: not in {session.config.evaluate.problems}")
    return inside, provenance
