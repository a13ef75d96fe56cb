"""The store: what is written is read back, torn lines are survived, and tables show it."""

import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.console import Console

from erpo_jax.probes import Probe, ProbeSet, ProbeStatistics, ProbeStore, ProbeStoreError, probe_totals, show_probes
from erpo_jax.problems import Problem

ONE, TWO = Problem("one", "First."), Problem("two", "Second.")
STATISTICS = ProbeStatistics(
    asked=7, refused={"format": 3, "known": 1}, mutations=9, mutations_refused={"known": 8}, checker="rules",
    rules=("numbers from 1 to 9",), trial_programs=2, note="proposals ran out",
)  # fmt: skip
FIRST = ProbeSet("one", (Probe("1\u20282\n", "policy"), Probe("3\n", "mutated_example")), STATISTICS)
SECOND = ProbeSet("two", (Probe("[1]\n", "mutated_probe"),))


def test_round_trip(tmp_path):
    store = ProbeStore(tmp_path / "deep" / "store", "abc")
    assert store.load() == {}
    store.append(ONE, FIRST)
    store.append(TWO, SECOND)
    assert store.load() == {ONE.digest(): FIRST, TWO.digest(): SECOND}
    assert ProbeStore(tmp_path / "deep" / "store", "other settings").load() == {}


def test_the_newest_counts(tmp_path):
    store = ProbeStore(tmp_path, "abc")
    store.append(ONE, SECOND)
    store.append(ONE, FIRST)
    assert store.load()[ONE.digest()] == FIRST


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_torn_last_line(tmp_path, kept):
    store = ProbeStore(tmp_path, "abc")
    store.append(ONE, FIRST)
    whole = store.path.read_bytes()
    store.append(TWO, SECOND)
    second = store.path.read_bytes()[len(whole) :]
    store.path.write_bytes(whole + second[: int(kept * len(second))])
    with pytest.warns(UserWarning, match=r"probes\.jsonl:2: the last line is torn"):
        assert store.load() == {ONE.digest(): FIRST}
    store.append(TWO, SECOND)
    assert store.path.read_bytes() == whole + second
    assert len(store.load()) == 2


def test_a_file_of_one_torn_line(tmp_path):
    store = ProbeStore(tmp_path, "abc")
    store.path.write_text('{"problem": "on')
    store.append(ONE, FIRST)
    assert store.load() == {ONE.digest(): FIRST}


def test_a_broken_line_is_named(tmp_path):
    store = ProbeStore(tmp_path, "abc")
    store.append(ONE, FIRST)
    store.path.write_text('{"settings": "abc"}\n' + store.path.read_text())
    with pytest.raises(ProbeStoreError, match=r"probes\.jsonl:1 is not a stored probe set"):
        store.load()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ProbeStoreError, match=r"cannot write the probe store .*file"):
        ProbeStore(tmp_path / "file", "abc").append(ONE, FIRST)


def _append_many(folder, name):
    store = ProbeStore(folder, "abc")
    for number in range(20):
        store.append(Problem(f"{name}-{number}", "s" * 3000), FIRST)


def test_several_writers(tmp_path):
    with ThreadPoolExecutor(2) as writers:
        list(writers.map(_append_many, [tmp_path, tmp_path], "ab"))
    assert len(ProbeStore(tmp_path, "abc").load()) == 40


def test_tables():
    console = Console(width=100, record=True, file=io.StringIO())
    show_probes([(ONE, FIRST), (TWO, SECOND)], 3, console)
    text = console.export_text()
    for part in (
        "one: 2 of 3 (1 policy, 1 mutated_example)",
        "asked 7, refused 3 format, 1 known",
        "mutations 9, refused 8 known",
        "constraints: rules (numbers from 1 to 9)",
        "trial programs: 2",
        "proposals ran out",
        "2 problems, 3 probes wanted of each",
        "[1]",
    ):
        assert part in text, part
    totals = probe_totals([FIRST, SECOND])
    assert totals["policy"] == totals["mutated_probe"] == 1
    assert totals["asked"] == 7
    assert totals["refused_format"] == 3
    assert totals["mutations_refused_known"] == 8
