"""Probe inputs: made, checked, deduplicated and stored, once per problem. Never an expected output."""

from erpo_jax.probes.make import make_probes, settings_of
from erpo_jax.probes.probe import REASONS, SOURCES, Probe, ProbeSet, ProbeStatistics, Reason, Source
from erpo_jax.probes.showing import probe_totals, show_probes
from erpo_jax.probes.store import ProbeStore, ProbeStoreError
from erpo_jax.probes.structure import fingerprint

__all__ = [
    "REASONS",
    "SOURCES",
    "Probe",
    "ProbeSet",
    "ProbeStatistics",
    "ProbeStore",
    "ProbeStoreError",
    "Reason",
    "Source",
    "fingerprint",
    "make_probes",
    "probe_totals",
    "settings_of",
    "show_probes",
]
