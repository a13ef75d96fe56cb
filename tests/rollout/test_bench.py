"""The benchmark against transformers: it samples what it says, reports it, and names a user's mistakes."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from erpo_jax.benchmarks.rollout import RolloutBenchmark, compare
from erpo_jax.benchmarks.timing import BenchmarkError, Timing


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench", Path(__file__).parents[2] / "launch" / "bench.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_compares_both(folder: Path, bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = bench.main(
        [
            "rollout",
            "--model",
            str(folder),
            "--batch",
            "4",
            "--new-tokens",
            "8",
            "--repeats",
            "1",
            "--prompt-tokens",
            "12",
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[1].endswith("float32: 4 prompts of 12 to 12 tokens, 8 new tokens each")
    assert lines[2].startswith("compilation ")
    assert [line.split(":")[0].strip() for line in lines[3:5]] == ["erpo_jax", "transformers"]
    assert lines[5].startswith("erpo_jax samples ")


def test_refresh_prints_each_phase(
    folder: Path, bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["refresh", "--model", str(folder), "--folder", str(tmp_path), "--repeats", "1"]) == 0
    _, copied, phases, whole = capsys.readouterr().out.splitlines()
    assert "cp " in copied
    assert [word for word in phases.split() if word.isalpha() and word != "s"] == ["cast", "write"]
    assert whole.startswith("export + refresh ")
    assert not list(tmp_path.iterdir())
    assert bench.main(["refresh", "--folder", str(tmp_path / "none")]) == 2


def test_the_ratio_is_that_of_the_medians() -> None:
    result = RolloutBenchmark(
        "m",
        "float32",
        32,
        100,
        (5, 9),
        1.0,
        5,
        {
            "erpo_jax": Timing((2.0, 1.0, 9.0), (1.0,) * 3),
            "transformers": Timing((7.0, 6.0, 1.0), (1.0,) * 3),
        },
    )
    assert result.ratio == 3.0
    assert result.tokens == 3200
    assert "wall 1.00 / 2.00 s" in result.lines()[2]
    assert "1,600 tokens/s" in result.lines()[2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("", "is empty"),
        ("not json\n", ":1 is not JSON"),
        ('{"prompt": "a"}\n{"text": "b"}\n', ":2 has neither 'prompt' nor 'statement'"),
    ],
)
def test_a_prompt_file_that_cannot_be_used(
    folder: Path,
    bench: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str | None,
    message: str,
) -> None:
    file = tmp_path / "prompts.jsonl"
    if content is not None:
        file.write_text(content)
    assert bench.main(["rollout", "--model", str(folder), "--prompts", str(file)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_sizes_below_one_are_named(folder: Path) -> None:
    with pytest.raises(BenchmarkError, match="--new-tokens 0 must be at least 1"):
        compare(str(folder), new_tokens=0)


def test_without_torch_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BenchmarkError, match=r"pip install 'erpo_jax\[bench\]'"):
        compare(str(folder))
