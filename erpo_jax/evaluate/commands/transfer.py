"""Transfer matrix: a base and policies adapted from it, on the sets they were adapted on and on others.

    python launch/evaluate.py transfer --policies runs/paper/* --sets data/livecodebench data/taco --out transfer

POLICY is a run folder (its newest export), an export, or any checkpoint. SET is a folder that launch/prepare.py made, a
file of problems with its hidden tests beside it, or quickstart. Either may be NAME=PATH. The base is model.path, with
its temperature curve on every set. Without a YAML file the configuration is that of the first run. Cells are kept in
OUT: the same command goes on where it was stopped, and measures only what is new.
"""

from __future__ import annotations

from pathlib import Path

from erpo_jax import command
from erpo_jax.config import Config
from erpo_jax.errors import UserError
from erpo_jax.evaluate.measurement import Evaluation
from erpo_jax.evaluate.progress import ProgressDisplay
from erpo_jax.evaluate.transfer import BASE, Matrix
from erpo_jax.evaluate.transfer_report import write_transfer_report
from erpo_jax.evaluate.transfer_table import lines, table


def main(argv: list[str]) -> int:
    """Measure what is missing, print the matrix, write OUT/transfer.html and OUT/transfer.json."""
    parser = command.parser(__doc__ or "")
    parser.add_argument("--policies", nargs="+", default=[], metavar="POLICY", help="the rows below the base")
    parser.add_argument("--sets", nargs="+", required=True, metavar="SET", help="the columns")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where cells and reports are kept")
    found = parser.parse_args(argv)
    command.check_writable("--out", found.out / "transfer.html")
    matrix = Matrix.of(_config(found.words, found.policies), found.sets, found.policies, found.out)
    command.prepare_jax(matrix.config)
    base: dict[str, Evaluation] = {}
    adapted: dict[str, dict[str, Evaluation]] = {}
    with ProgressDisplay() as display:
        for row, column, evaluation in matrix.measure(display.progress):
            (base if row.name == BASE else adapted.setdefault(row.name, {}))[column.name] = evaluation
    unknown = [row.name for row in matrix.contenders if row.trained is None]
    result = table(base, adapted, matrix.config.rollout.temperature, unknown)
    print("\n".join(lines(result)))
    print(f"report: {write_transfer_report(found.out / 'transfer.html', result, base, adapted)}")
    return 0


def _config(words: list[str], policies: list[str]) -> Config:
    for word in (*words, *policies):
        if word in policies and word.endswith((".yaml", ".yml")):
            raise UserError(f"{word} stands among the policies; configuration words go before --policies and --sets")
    if not any(word.endswith((".yaml", ".yml")) for word in words):
        runs = [Path(word.rpartition("=")[2]) / "config.yaml" for word in policies]
        words = [*(str(file) for file in runs if file.is_file())][:1] + words
    return command.load_config(words)
