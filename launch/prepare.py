"""Split published benchmark files into problems.jsonl (training's view), hidden.jsonl and solutions.jsonl
(evaluation's).

    python launch/prepare.py humaneval HumanEval.jsonl.gz data/humaneval
    python launch/prepare.py mbpp sanitized-mbpp.json data/mbpp
    python launch/prepare.py codecontests hub:test data/codecontests         from the Hugging Face hub
    python launch/prepare.py livecodebench hub data/lcb --release release_v6 --start 2025-02-01 --end 2025-04-30
    python launch/prepare.py taco test-00000-of-00001.parquet data/taco --special-judge output_spj.jsonl
    python launch/prepare.py codeforces hub:test data/codeforces --generated-tests generated_tests
    python launch/prepare.py own mine.jsonl data/mine

docs/benchmarks.md says what each set is, where its files come from, and by which rule it is judged.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

from erpo_jax import command
from erpo_jax.errors import UserError
from erpo_jax.evaluate.benchmarks import BENCHMARKS, prepare, special_judge

SHOWN = 5


def _day(text: str | None, flag: str) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise UserError(f"{flag} {text}: must be a day such as 2024-08-01") from error


def main(argv: list[str]) -> int:
    parser = command.parser(__doc__ or "", keys=False)
    add = parser.add_argument
    add("benchmark", help=f"one of {', '.join(BENCHMARKS)}")
    add(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="the published file, or its parts in order (JSON Lines, JSON list, parquet; .gz too); hub or hub:SPLIT",
    )
    add("out", type=Path, metavar="OUT", help="folder for problems.jsonl, hidden.jsonl, solutions.jsonl, prepared.json")
    add("--release", default="", help="what the publisher calls these files; kept in the problems and the report")
    add("--start", metavar="DAY", help="first day of the date window, itself inside")
    add("--end", metavar="DAY", help="last day of the date window, itself inside")
    add("--drop-known-bad", action="store_true", help="leave out problems that are known to be faulty")
    add("--special-judge", type=Path, metavar="FILE", help="TACO's list of test rows that comparison cannot judge")
    add("--generated-tests", type=Path, metavar="FOLDER", help="CodeForces' test_cases_NNNN.parquet files")
    found = parser.parse_args(argv)
    command.check_writable("OUT", found.out / "problems.jsonl")
    summary = prepare(
        found.benchmark,
        found.sources,
        found.out,
        release=found.release,
        start=_day(found.start, "--start"),
        end=_day(found.end, "--end"),
        drop_known_bad=found.drop_known_bad,
        faulty=special_judge(found.special_judge) if found.special_judge else None,
        generated_tests=found.generated_tests,
    )
    print(f"{summary.written} problems and their hidden tests: problems.jsonl and hidden.jsonl in {found.out}")
    if summary.solutions:
        print(f"{summary.solutions} programs with verdicts: solutions.jsonl")
    if summary.outside_window:
        print(f"{summary.outside_window} outside the date window")
    for what, rows in (
        ("left out, known to be faulty", summary.left_out),
        ("kept, although known to be faulty (--drop-known-bad leaves them out)", summary.known_bad_kept),
        ("could not be used", summary.bad),
    ):
        if rows:
            print(f"{len(rows)} {what}:")
            print("\n".join(f"  {name}: {why}" for name, why in list(rows.items())[:SHOWN]))
            if len(rows) > SHOWN:
                print(f"  and {len(rows) - SHOWN} more, all named in {found.out / 'prepared.json'}")
    return 0


if __name__ == "__main__":
    command.run(main)
