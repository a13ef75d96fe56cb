"""Majority reward (TTRL, Zuo et al., arXiv 2504.16084, on programs): one vote per candidate, for its whole behaviour.

TTRL rewards the answers equal to the most frequent one. A program's answer is its vector of outputs on all K probes:

    reward[i] = 1 when y[i,:] is a vector with the highest count, else 0

Vectors are equal when they are equal on every probe, giving *nothing* there being equal to giving nothing; a candidate
without any output has no vector. Where TTRL takes the first of several most frequent answers, all of them count here,
as in `consensus`: a group in which no two programs agree then teaches nothing. Left out: partial credit, which is PCR.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from erpo_jax.reward.consensus import consensus


def majority(
    keys_gk: Sequence[Sequence[Hashable | None]], *, present_g: Sequence[bool] | None = None
) -> tuple[float | None, ...]:
    """The rewards of G candidates on K probes, from the keys and presences that `consensus` takes.

    1.0 or 0.0; None where a candidate is absent, and for all when K is 0 (with a warning). Raises ValueError when the
    rows of `keys_gk` differ in length.
    """
    if len({len(keys_k) for keys_k in keys_gk}) > 1:
        raise ValueError("every candidate needs one key per probe, but the rows differ in length")
    # A vote on one probe whose output is the vector.
    vectors_g = [tuple(keys_k) if any(key is not None for key in keys_k) else None for keys_k in keys_gk]
    return consensus(
        [[vector] if keys_k else [] for vector, keys_k in zip(vectors_g, keys_gk, strict=True)], present_g=present_g
    ).pcr_g
