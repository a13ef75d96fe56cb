"""How far the consensus can be trusted: PCR against hidden tests, by problem, by probe, and under each mask."""

from erpo_jax.evaluate.signal.calibration import Calibration, Share, calibration
from erpo_jax.evaluate.signal.course import Stretch, course
from erpo_jax.evaluate.signal.crowds import Crowd, ProbeRow, crowds, probe_rows, probe_summaries, standings
from erpo_jax.evaluate.signal.judged import JudgedGroup, judged, on_first_probes
from erpo_jax.evaluate.signal.masking import MaskRow, mask_rows
from erpo_jax.evaluate.signal.measuring import Signal, judge, measure_signal
from erpo_jax.evaluate.signal.report import lines, write_signal
from erpo_jax.evaluate.signal.unlabelled import Unlabelled, unlabelled

__all__ = [
    "Calibration",
    "Crowd",
    "JudgedGroup",
    "MaskRow",
    "ProbeRow",
    "Share",
    "Signal",
    "Stretch",
    "Unlabelled",
    "calibration",
    "course",
    "crowds",
    "judge",
    "judged",
    "lines",
    "mask_rows",
    "measure_signal",
    "on_first_probes",
    "probe_rows",
    "probe_summaries",
    "standings",
    "unlabelled",
    "write_signal",
]
