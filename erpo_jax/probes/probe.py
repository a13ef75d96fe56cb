"""What a probe is, and the set of them that a problem has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Source = Literal["policy", "mutated_example", "mutated_probe"]
SOURCES: tuple[Source, ...] = ("policy", "mutated_example", "mutated_probe")

Reason = Literal["lost", "cut", "format", "constraints", "known", "crashes"]
REASONS: dict[Reason, str] = {
    "lost": "the engine never answered",
    "cut": "the answer hit the length limit",
    "format": "not an input of this problem's form",
    "constraints": "breaks a limit of the statement",
    "known": "same structure as an example or an accepted probe",
    "crashes": "crashes every trial program",
}


@dataclass(frozen=True)
class Probe:
    """One input: a text for standard input, or in function mode a JSON list of arguments. `source` says where it is
    from."""

    input: str
    source: Source


@dataclass(frozen=True)
class ProbeStatistics:
    """How the probes of one problem came to be.

    asked: answers the policy was asked for. refused, mutations_refused: answers and mutations by `Reason`.
    mutations: mutated inputs that were tried. checker: what judged constraints (rules, model, none).
    rules: the constraints read off the statement, in words. trial_programs: how many trial programs had a say.
    note: why there are fewer than K probes, or "".
    """

    asked: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    mutations: int = 0
    mutations_refused: Mapping[str, int] = field(default_factory=dict)
    checker: str = "none"
    rules: tuple[str, ...] = ()
    trial_programs: int = 0
    note: str = ""


@dataclass(frozen=True)
class ProbeSet:
    """The probes of one problem, in the order of their acceptance, at most K of them."""

    problem_id: str
    probes: tuple[Probe, ...]
    statistics: ProbeStatistics = field(default_factory=ProbeStatistics)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs alone, as a sandbox job takes them."""
        return tuple(probe.input for probe in self.probes)

    def by_source(self) -> dict[Source, int]:
        """How many probes each source gave."""
        counts = Counter(probe.source for probe in self.probes)
        return {source: counts[source] for source in SOURCES}
