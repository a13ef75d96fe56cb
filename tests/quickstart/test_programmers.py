"""Fallible programmers: each kind of fault in its documented share, and the noise of agreement that comes of it."""

import itertools
from collections import Counter
from random import Random

import numpy as np
import pytest

from erpo_jax.quickstart import WRITERS, hidden_cases, tasks, write
from erpo_jax.quickstart import inputs as grammar
from erpo_jax.quickstart.language import runner
from erpo_jax.quickstart.measure import area_under_curve
from erpo_jax.reward import consensus, output_key

CORPUS = list(itertools.islice(tasks(5, "corpus"), 250))


@pytest.fixture(scope="module")
def drafts():
    rng = Random(0)
    return [(task, write(task, rng)) for task in CORPUS for _ in range(8)]


def run(program, texts):
    """Keys of the outputs, None where the program gives none."""
    try:
        function = runner(program)
    except SyntaxError:
        return [None] * len(texts)
    keys = []
    for text in texts:
        try:
            keys.append(output_key(function(text)))
        except Exception:
            keys.append(None)
    return keys


def test_a_draft_without_faults_is_right(drafts):
    for index, (task, draft) in enumerate(drafts):
        if not draft.faults:
            cases = hidden_cases(task, str(index), 0, count=6)
            assert run(draft.text, [c.input for c in cases]) == [output_key(c.output) for c in cases]


def test_faults_have_their_documented_shares(drafts):
    share = {
        name: np.mean([name in draft.faults for _, draft in drafts])
        for name in ("misreading", "slip", "meddling", "broken")
    }
    # half hasty: 0.5 * 0.55 + 0.5 * 0.02, 0.25 * 0.10 + 0.25 * 0.12 + 0.5 * 0.12, and 0.5 * 0.03 + 0.5 * 0.09
    assert share["meddling"] == pytest.approx(0.285, abs=0.04)
    assert share["slip"] == pytest.approx(0.115, abs=0.03)
    assert share["broken"] == pytest.approx(0.06, abs=0.02)
    assert 0.5 < share["misreading"] < 0.8
    gross = np.mean([bool({"slip", "meddling", "broken"} & set(draft.faults)) for _, draft in drafts])
    assert 0.28 < gross < 0.45


def test_broken_code_does_not_compile_and_other_code_does(drafts):
    broken = [draft for _, draft in drafts if "broken" in draft.faults]
    refused = 0
    for _, draft in drafts:
        try:
            compile(draft.text, "<draft>", "exec")
        except SyntaxError:
            refused += 1
            assert "broken" in draft.faults
    assert refused == len(broken)


def test_writers_have_their_own_style_and_hasty_ones_err_more(drafts):
    faults = {writer.name: [] for writer in WRITERS}
    for _, draft in drafts:
        faults[draft.writer].append(bool({"slip", "meddling"} & set(draft.faults)))
        assert (" = " in draft.text) == (draft.writer != "hasty")
    assert np.mean(faults["hasty"]) > np.mean(faults["plain"]) + 0.3
    counts = Counter(draft.writer for _, draft in drafts)
    assert counts["hasty"] / len(drafts) == pytest.approx(0.5, abs=0.05)


def test_a_misreading_is_shared_and_its_chance_belongs_to_the_wording():
    task = next(t for t in CORPUS if any(s.operation.name == "running" and s.phrase == 1 for s in t.steps))
    rng = Random(1)
    texts = [write(task, rng).text.replace(" ", "") for _ in range(300)]
    assert np.mean(["[:i])" in text for text in texts]) > 0.6  # said with chance 0.90, by careful writers 0.85 of that


def test_agreement_among_programmers_is_a_lopsided_signal():
    rng = Random(2)
    rewards, right = [], []
    for index, task in enumerate(itertools.islice(tasks(7, "adapt"), 120)):
        probes = [grammar.typical(task.source.name, rng) for _ in range(10)]
        cases = hidden_cases(task, str(index), 0)
        programs = [write(task, rng).text for _ in range(16)]
        rewards.append(consensus([run(program, probes) for program in programs]).pcr_g)
        expected = [output_key(case.output) for case in cases]
        right.append([run(program, [case.input for case in cases]) == expected for program in programs])
    pcr, ok = np.asarray(rewards, float), np.asarray(right)
    assert 0.25 < ok.mean() < 0.6
    assert ok.any(axis=1).mean() > ok.mean() + 0.25
    assert 0.2 < 1 - ok[pcr == 1].mean() < 0.55
    assert 1 - ok[pcr <= 0.5].mean() > 0.85
    assert area_under_curve(pcr.ravel(), ok.ravel()) > 0.65


def test_area_under_curve_by_hand():
    # pairs (right, wrong): (1.0, 0.5) above, (1.0, 1.0) tie, (0.2, 0.5) below, (0.2, 1.0) below
    assert area_under_curve(np.array([1.0, 0.2, 0.5, 1.0]), np.array([True, True, False, False])) == pytest.approx(
        1.5 / 4
    )
