"""From outcomes to rewards: output equality, probe consensus, public tests, and what the signal looks like."""

from erpo_jax.reward.consensus import Consensus, ProbeSignal, consensus
from erpo_jax.reward.diagnostics import HISTOGRAM_EDGES, probe_summary, reward_histogram, reward_summary
from erpo_jax.reward.equality import has_verdict, json_key, outcome_key, output_key, value_key
from erpo_jax.reward.majority import majority
from erpo_jax.reward.public import expected_keys, public_reward

__all__ = [
    "HISTOGRAM_EDGES",
    "Consensus",
    "ProbeSignal",
    "consensus",
    "expected_keys",
    "has_verdict",
    "json_key",
    "majority",
    "outcome_key",
    "output_key",
    "probe_summary",
    "public_reward",
    "reward_histogram",
    "reward_summary",
    "value_key",
]
