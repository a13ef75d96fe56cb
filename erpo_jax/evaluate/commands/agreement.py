"""How far our grader agrees with the verdicts that a data set itself carries.

    python launch/evaluate.py agreement data/codecontests data/taco [key=value ...]

Each folder was written by launch/prepare.py and has a solutions.jsonl. Its programs are graded on its hidden tests,
and the verdicts compared with the publisher's; every disagreement is named. Keys are the configuration's `sandbox.`
ones.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from erpo_jax import command
from erpo_jax.evaluate.agreement import agreement
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.grade import Grader
from erpo_jax.evaluate.hidden import load_hidden
from erpo_jax.evaluate.progress import ProgressDisplay
from erpo_jax.evaluate.solutions import load_solutions
from erpo_jax.execution import limits_for, open_sandbox
from erpo_jax.problems import load_problems


def main(argv: list[str]) -> int:
    parser = command.parser(__doc__ or "", keys=False)
    parser.add_argument("words", nargs="+", metavar="FOLDER | key=value")
    words = parser.parse_args(argv).words
    folders = [Path(word) for word in words if "=" not in word]
    if not folders:
        raise EvaluationError("name at least one folder that launch/prepare.py has written")
    config = command.load_config([word for word in words if "=" in word]).sandbox
    with open_sandbox(config) as sandbox, ProgressDisplay() as display:
        for folder in folders:
            solutions = load_solutions(folder / "solutions.jsonl")
            problems = [one for one in load_problems(folder / "problems.jsonl") if one.id in solutions]
            grader = Grader(
                sandbox,
                problems,
                load_hidden(folder / "hidden.jsonl", set(solutions)),
                lambda one: limits_for(one, config),
            )
            verdicts = grader.grade(
                {name: [one.program for one in row] for name, row in solutions.items()},
                lambda done, total, name=folder.name: display.progress(name, done, total),  # type: ignore[misc]
            )
            labels = {name: [one.correct for one in row] for name, row in solutions.items()}
            found = agreement(labels, verdicts)
            print(f"{folder.name}: {found['agree']} of {found['labelled']} verdicts agree{_share(found)}")
            by_source: dict[str, list[str]] = defaultdict(list)
            for name, index, label, verdict in found["disagreements"]:
                source = solutions[name][index].source or "a program"
                by_source[source].append(f"{name} #{index} (said {_word(label)}, found {_word(verdict)})")
            for source, which in sorted(by_source.items()):
                print(f"  {source}: {'; '.join(which)}")
    return 0


def _share(found: dict[str, int]) -> str:
    return f" ({found['agree'] / found['labelled']:.2%})" if found["labelled"] else ""


def _word(passed: bool) -> str:
    return "right" if passed else "wrong"
