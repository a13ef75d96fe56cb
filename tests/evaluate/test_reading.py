"""Published files: formats, damage, memory, and the hub without a network."""

import gzip
import json
import tracemalloc

import pyarrow
import pytest
from pyarrow import parquet

from erpo_jax.evaluate.benchmarks import hub, prepare
from erpo_jax.evaluate.benchmarks.hub import livecodebench_files
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import load_hidden
from erpo_jax.evaluate.reading import read_rows
from tests.evaluate.conftest import write_lines

ROWS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
MEGABYTE = 2**20


def rows(file):
    return [row for _, row in read_rows(file)]


def test_every_format_gives_the_same_rows(tmp_path):
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "rows.jsonl").write_text(lines)
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    for name in ("rows.jsonl", "rows.json", "rows.jsonl.gz", "rows.parquet"):
        assert rows(tmp_path / name) == ROWS
    assert [where for where, _ in read_rows(tmp_path / "rows.jsonl")] == ["rows.jsonl:1", "rows.jsonl:2"]
    assert [where for where, _ in read_rows(tmp_path / "rows.parquet")] == ["rows.parquet[0]", "rows.parquet[1]"]


def test_a_damaged_file_is_named(tmp_path):
    lines = json.dumps(ROWS[0]) + "\n"
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(lines.encode() * 100)[:-12])
    (tmp_path / "cut.json").write_text("[{")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "\xe9"}\n')
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    for name in ("cut.jsonl.gz", "cut.json", "deep.json", "latin.jsonl", "cut.parquet"):
        with pytest.raises(EvaluationError, match=f"{name} cannot be read"):
            rows(tmp_path / name)


def own_row(index):
    tests = [{"input": f"{index}\n", "output": "x" * MEGABYTE}]
    return {"id": str(index), "statement": "s", "hidden_tests": tests}


def peak_of(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_that_of_some_rows_not_of_the_file(tmp_path):
    """48 rows of a megabyte each; a row is held a few times over (line, object, output line)."""
    with (tmp_path / "large.jsonl").open("w") as stream:
        stream.writelines(json.dumps(own_row(index)) + "\n" for index in range(48))
    schema = pyarrow.Table.from_pylist([own_row(0)]).schema
    with parquet.ParquetWriter(tmp_path / "large.parquet", schema, compression="none", use_dictionary=False) as writer:
        for index in range(48):
            writer.write_table(pyarrow.Table.from_pylist([own_row(index)], schema))
    out = tmp_path / "out"
    assert peak_of(lambda: prepare("own", [tmp_path / "large.jsonl"], out)) < 12 * MEGABYTE
    assert (out / "hidden.jsonl").stat().st_size > 48 * MEGABYTE
    hidden = []
    assert peak_of(lambda: hidden.append(load_hidden(out / "hidden.jsonl"))) < 8 * MEGABYTE
    assert peak_of(lambda: [tests.id for tests in hidden[0].values()]) < 8 * MEGABYTE
    assert len(hidden[0]["47"].cases[0].output) == MEGABYTE
    before = pyarrow.total_allocated_bytes()
    held = 0
    for _, row in read_rows(tmp_path / "large.parquet"):
        held = max(held, pyarrow.total_allocated_bytes() - before)
        assert row["statement"] == "s"
    assert held < 24 * MEGABYTE


@pytest.mark.parametrize(
    ("release", "files"),
    [
        ("release_v1", ["test.jsonl"]),
        ("release_v3", ["test.jsonl", "test2.jsonl", "test3.jsonl"]),
        ("v2", ["test2.jsonl"]),
        ("v2_v4", ["test2.jsonl", "test3.jsonl", "test4.jsonl"]),
        ("release_latest", ["test*.jsonl"]),
    ],
)
def test_livecodebench_releases_are_files(release, files):
    assert livecodebench_files(release) == files


@pytest.mark.parametrize("release", ["v0", "release_v0", "v3_v2", "latest"])
def test_unknown_releases(release):
    with pytest.raises(EvaluationError, match=f"--release {release}: LiveCodeBench's are release_v1"):
        livecodebench_files(release)


def test_without_a_network_the_hub_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(EvaluationError, match=r"BAAI/TACO cannot be had from the hub .*name them in place of 'hub'"):
        prepare("taco", ["hub"], tmp_path / "out")
    with pytest.raises(EvaluationError, match="own is not on the hub"):
        prepare("own", ["hub"], tmp_path / "out")


FOLDERS = {
    "humaneval": ("openai_humaneval/test-00000-of-00001.parquet", "humaneval.jsonl.gz"),
    "mbpp": ("sanitized/test-00000-of-00001.parquet", "mbpp_sanitized.json.gz"),
    "codecontests": ("data/test-00000-of-00001-9c49eeff30aacaa8.parquet", "schema_rows/deepmind_code_contests.jsonl"),
    "taco": ("ALL/test-00000-of-00001.parquet", "schema_rows/BAAI_TACO.jsonl"),
    "apps": ("test.jsonl", "schema_rows/codeparrot_apps.jsonl"),
    "livecodebench": ("test6.jsonl", "schema_rows/livecodebench_code_generation_lite.jsonl"),
    "codeforces": ("verifiable/test-00000-of-00001.parquet", "schema_rows/open_r1_codeforces.jsonl"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_repository_as_the_hub_keeps_it(tmp_path, monkeypatch, shared_data, name):
    """Its files under their paths there, and one that is not ours, in place of a download."""
    import huggingface_hub

    path, source = FOLDERS[name]
    file = tmp_path / "hub" / path
    file.parent.mkdir(parents=True)
    found = rows(shared_data / "data" / source)
    if file.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(found), file)
    else:
        write_lines(file, found)
    (file.parent / "README.md").write_text("a card")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path / "hub"))
    assert prepare(name, ["hub"], tmp_path / "out").written == len(found)
    with pytest.raises(EvaluationError, match="on the hub holds no file"):
        prepare(name, ["hub:validation"], tmp_path / "out", release="v9")


def test_a_connection_that_breaks_off(tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import HTTPError

    def broken(*_, **__):
        raise HTTPError("")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", broken)
    with pytest.raises(EvaluationError, match="codeparrot/apps cannot be had from the hub "):
        prepare("apps", ["hub"], tmp_path / "out")


def test_files_of_a_hub_split(tmp_path, monkeypatch, shared_data):
    """The hub's client is replaced by a folder that has what a download leaves behind."""
    import huggingface_hub

    asked = []

    def download(repository, repo_type, allow_patterns):
        asked.append((repository, repo_type, allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    source = shared_data / "data" / "schema_rows" / "codeparrot_apps.jsonl"
    (tmp_path / "train.jsonl").write_bytes(source.read_bytes())
    assert prepare("apps", ["hub:train"], tmp_path / "out").written == 5
    assert asked == [("codeparrot/apps", "dataset", ["train.jsonl"])]
    with pytest.raises(
        EvaluationError, match=r"livecodebench/code_generation_lite on the hub holds no file test2.jsonl"
    ):
        hub.hub_files("livecodebench", "hub", "v2")
