"""The configuration: mistakes are one clear line, every key is commented, and every key is read somewhere."""

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from erpo_jax import command
from erpo_jax import config as configuration
from erpo_jax.config import ConfigError

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("learnig_rate=1", "unknown key learnig_rate; did you mean optimizer.learning_rate?"),
        ("trian.steps=1", "unknown key trian.steps; did you mean train.steps?"),
        ("mask.kind=rnk", "mask.kind=rnk is not one of rank, none, below, soft, calibrated; did you mean rank?"),
        ("optimizer.learning_rate=-1", "optimizer.learning_rate=-1.0 is out of range [> 0.0]"),
        ("mask.percent=101", "mask.percent=101 is out of range [>= 0, <= 100]; the nearest valid value is 100"),
        ("train.steps=soon", "train.steps"),
        ("optimizer.learning_rate=nan", "optimizer.learning_rate=nan is out of range"),
        ("rollout.top_p=0.9", "rollout.top_p=0.9 is out of range"),
        ("rollout.top_k=50", "rollout.top_k=50 is out of range"),
        ("steps", "'steps' is neither a YAML file nor key=value"),
        ("train=3", "train is a section of keys, not a value; set a key of it, such as train.steps"),
        ("evaluate.k=8", "evaluate.k"),
        ("update.minibatches=20", "is more than train.problems_per_step=16"),
        ("run.name=../x", "must be one folder name"),
        ("run.name=..", "must be one folder name"),
        ("mask.calibration=[0.5,1.5]", "must be at least two weights in [0, 1]"),
        ("train.steps=1:30", "YAML reads 1:30 in another base than 10"),
        ("train.steps=010", "YAML reads 010 in another base than 10"),
        ("model.path=???", "model.path is ???, which is no value"),
        ("model.remat=2", "model.remat=2 must be true or false"),
        ("evaluate.k=[1,17]", "evaluate.k has 17: pass@k needs 1 <= k <= evaluate.samples = 16"),
    ],
)
def test_a_mistake_is_one_line_with_the_key_and_the_nearest_choice(override, said):
    with pytest.raises(ConfigError) as error:
        configuration.load([], [override])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_sizes_that_do_not_divide_name_the_formula_and_both_neighbours():
    with pytest.raises(ConfigError) as error:
        configuration.load([], ["mesh.fsdp=8", "update.micro_batch_rows=12"])
    assert "update.micro_batch_rows must be a multiple of mesh.data * mesh.fsdp: 12 % 8 = 4" in str(error.value)
    assert "the nearest valid values are 8 or 16" in str(error.value)


def test_a_row_must_hold_the_longest_candidate():
    with pytest.raises(ConfigError, match="1024 \\+ 4096 = 5120; use 0 or at least 5120"):
        configuration.load([], ["update.row_tokens=4096"])


def test_later_words_win_over_earlier_ones(tmp_path):
    file = tmp_path / "one.yaml"
    file.write_text("train:\n  steps: 7\nmask:\n  kind: none\n")
    config = configuration.load([file], ["train.steps=9"])
    assert (config.train.steps, config.mask.kind, config.rollout.group_size) == (9, "none", 16)


def test_an_objective_is_a_file_that_follows_the_runs_own():
    def with_objective(name):
        return configuration.load([ROOT / "configs" / "quickstart.yaml", ROOT / "configs" / "objectives" / name])

    plain = configuration.load([ROOT / "configs" / "quickstart.yaml"])
    assert with_objective("erpo.yaml") == plain
    grpo, public, nsr = (with_objective(name) for name in ("grpo_pcr.yaml", "grpo_pub.yaml", "nsr_pcr.yaml"))
    assert [c.mask.kind for c in (grpo, public, nsr)] == ["none", "none", "below"]
    assert [c.reward.kind for c in (grpo, public, nsr)] == ["pcr", "public", "pcr"]
    assert [c.loss.advantage for c in (grpo, public, nsr)] == ["group", "group", "minus_one"]
    for config in (grpo, public, nsr):
        assert config.loss.entropy_coefficient == 0
        assert config.train == plain.train


def test_a_file_that_names_no_model_goes_over_the_quickstart():
    objective, model = (
        str(ROOT / "configs" / name) for name in ("objectives/nsr_pcr.yaml", "qwen3_4b_livecodebench.yaml")
    )
    small = command.load_config([objective, "run.name=nsr"])
    assert (small.mask.kind, small.run.name, small.optimizer.learning_rate) == ("below", "nsr", 1e-4)
    large = command.load_config([model, objective])
    assert (large.mask.kind, large.model.path, large.optimizer.learning_rate) == ("below", "Qwen/Qwen3-4B", 5e-7)
    assert large.prompt.solve is None


def test_a_missing_file_names_its_neighbour():
    with pytest.raises(ConfigError, match=r"did you mean .*quickstart\.yaml"):
        configuration.load([ROOT / "configs" / "quikstart.yaml"])


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.name)
def test_shipped_configs_load_and_comment_every_key(file):
    configuration.load([file])
    lines = file.read_text().splitlines()
    for number, line in enumerate(lines):
        if (
            line.startswith("  ")
            and ":" in line
            and not line.strip().startswith(("#", "{", "<", "-"))
            and line[2] != " "
        ):
            assert lines[number - 1].strip().startswith("#"), f"{file.name}:{number + 1} has no comment above it"


def test_help_lists_every_key_with_its_comment():
    shown = configuration.describe()
    parsed = OmegaConf.to_container(OmegaConf.create(shown))
    listed = {f"{section}.{leaf}" for section, leaves in parsed.items() for leaf in leaves}
    assert listed == set(configuration.names())
    assert "learning_rate: 5e-07" in shown


def test_every_key_is_read_somewhere():
    """A key nobody reads is a promise nobody keeps."""
    read = set()
    for file in [*(ROOT / "erpo_jax").rglob("*.py"), *(ROOT / "launch").glob("*.py")]:
        if file.parent.name == "config":
            continue
        read |= {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
    # two keys whose only valid value is "off": their range check is the reader
    unread = {name for name in configuration.names() if name.split(".")[1] not in read} - {
        "rollout.top_p",
        "rollout.top_k",
    }
    assert not unread


@pytest.mark.parametrize("word", ["learnig_rate=1", "update.micro_batch_rows=0", "rollout.temperature=0"])
def test_a_mistake_ends_the_command_with_code_2_before_any_model_loads(word):
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, ROOT / "launch" / "train.py", word], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1
    assert "Traceback" not in ended.stderr
    assert time.monotonic() - began < 30  # the machine's load decides the rest; nothing heavy is imported


def test_the_configuration_imports_neither_jax_nor_transformers():
    code = "import sys, erpo_jax.config, erpo_jax.command; assert not {'jax', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
