"""Every objective from its file to a policy, and a transfer matrix of two of them: the commands a user types, in
small."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from erpo_jax import config as configuration
from erpo_jax import preflight
from erpo_jax.errors import UserError
from erpo_jax.metrics import read_metrics
from erpo_jax.problems import load_problems
from erpo_jax.run_folder import RunFolder, read_rollouts
from tests.evaluate.conftest import load_command, write_lines

ROOT = Path(__file__).parents[1]
OBJECTIVES = sorted(file.stem for file in (ROOT / "configs" / "objectives").glob("*.yaml"))
AWAY = ROOT / "erpo_jax" / "assets" / "quickstart" / "problems" / "transfer_problems.jsonl"
B, G, STEPS = 2, 6, 2
TESTED = {"some": [{"input": "", "output": "1"}], "none": []}
CACHE_SETTINGS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
SMALL = [
    "problems.limit=4", f"train.steps={STEPS}", f"train.problems_per_step={B}", "optimizer.learning_rate=1e-3",
    "optimizer.warmup_steps=1", f"rollout.group_size={G}", "rollout.batch_rows=12", "update.micro_batch_rows=4",
    "probes.count=3", "probes.attempts=2", "probes.trial_programs=2", "sandbox.workers=1",
    "evaluate.before_and_after=false", "evaluate.limit=4", "evaluate.samples=4", "evaluate.k=[1,4]",
    "evaluate.temperatures=[0.5]",
]  # fmt: skip


@pytest.fixture(scope="module")
def adapt(tmp_path_factory):
    """launch/train.py with an objective's file after the quickstart's; each objective once. What the objectives do not
    change is compiled once."""
    folder = tmp_path_factory.mktemp("baselines")
    main = load_command("train").main
    kept = {name: getattr(jax.config, name) for name in CACHE_SETTINGS}

    def run(objective):
        opened = RunFolder(folder / objective)
        words = [f"run.folder={folder}", f"run.name={objective}", f"probes.store={folder}/probes", *SMALL]
        words += [f"problems.path={home(objective)}", f"run.compilation_cache={folder}/xla"]
        file = ROOT / "configs" / "objectives" / f"{objective}.yaml"
        if not opened.path.exists():
            assert main([str(ROOT / "configs" / "quickstart.yaml"), str(file), *words]) == 0
        return opened

    yield run
    for name, value in kept.items():
        jax.config.update(name, value)


def home(objective):
    """The set that a test adapts to: one of them to the transfer set."""
    return str(AWAY) if objective == "grpo_pcr" else "quickstart"


def by_hand(objective, record, group):
    """(weight, sign of the advantage) that the objective gives a candidate, from the rewards of its group."""
    rewards = [one["reward"] for one in group]
    side = int(np.sign(round(record["reward"] - np.mean(rewards), 9)))
    if objective == "erpo":
        ascending = sorted(range(G), key=lambda index: rewards[index])  # sorted() is stable
        return float(record["candidate"] in ascending[: G // 2]), side
    if objective == "nsr_pcr":
        return float(record["reward"] < 0.5), -1
    return 1.0, side


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_learns_from_what_it_says(adapt, objective):
    run = adapt(objective)
    rows = read_metrics(run.path / "metrics.jsonl")
    assert [row["update/nonfinite"] for row in rows] == [0] * STEPS
    assert not all(row["update/skipped_update"] for row in rows)
    assert (run.exports / str(STEPS) / "model.safetensors").exists()

    found = [record for file in sorted(run.rollouts.iterdir()) for record in read_rollouts(file)]
    groups = [found[start : start + G] for start in range(0, len(found), G)]
    assert len(groups) == STEPS * B
    for group in groups:
        for record in group:
            assert (record["weight"], np.sign(record["advantage"])) == by_hand(objective, record, group)
    problems = {problem.id: problem for problem in load_problems(home(objective))}
    for record in found:
        tests = [test.input for test in problems[record["problem"]].public_tests]
        assert (record["inputs"] == tests) == (objective == "grpo_pub")
        assert (record["clusters"] is None) == (objective == "grpo_pub")
    if objective == "grpo_majority":
        assert {record["reward"] for record in found} == {0.0, 1.0}


def test_a_transfer_matrix_of_two_policies_and_two_sets(adapt, tmp_path, capsys):
    policies = [str(adapt(objective).path) for objective in ("erpo", "grpo_pcr")]
    words = ["--policies", *policies, "--sets", "A=quickstart", f"B={AWAY}", "--out", str(tmp_path)]
    assert load_command("evaluate").main(["transfer", *words]) == 0
    told = capsys.readouterr().out
    assert "pass@1 / pass@4, 4 program(s) a problem, policies at temperature 1" in told
    tree = json.loads((tmp_path / "transfer.json").read_text())
    cells = {(cell["policy"], one["name"]): cell for one in tree["columns"] for cell in one["cells"]}
    assert {place: cell["adapted_on"] for place, cell in cells.items()} == {
        ("erpo", "A"): 4, ("erpo", "B"): 0, ("grpo_pcr", "A"): 0, ("grpo_pcr", "B"): 4,
    }  # fmt: skip
    for column in tree["columns"]:
        assert set(column["base"]) == {"0.5", "1.0"}
        for cell in column["cells"]:
            gain = cell["values"]["1"]["value"] - column["base"]["1.0"]["1"]["value"]
            assert cell["gains"]["1"]["value"] == pytest.approx(gain)
            assert cell["comparison"]["problems"] == 4
    assert len(list(tmp_path.glob("[AB]/*.json"))) == 2 * (2 + 2)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_same_objective_passes_the_check_for_a_model_of_4_b(objective, capsys):
    files = [ROOT / "configs" / "qwen3_4b_livecodebench.yaml", ROOT / "configs" / "objectives" / f"{objective}.yaml"]
    shape = f"model.shape={ROOT / 'configs' / 'models' / 'qwen3_4b.json'}"
    assert load_command("train").main([*map(str, files), shape, "--check"]) == 0
    assert "36 layers, sizes divide over 1 data x 8 fsdp x 1 tensor devices" in capsys.readouterr().out


def test_a_reward_of_public_tests_needs_some(tmp_path):
    problems = [{"id": name, "statement": "Print 1.", "public_tests": tests} for name, tests in TESTED.items()]
    file = write_lines(tmp_path / "problems.jsonl", problems)
    words = ["reward.kind=public", f"problems.path={file}", "train.problems_per_step=1", *SMALL[6:]]
    config = configuration.load([ROOT / "configs" / "quickstart.yaml"], words)
    assert "public tests: 1 of 2 problems have some" in "\n".join(preflight.check(config))
    write_lines(file, problems[1:])
    with pytest.raises(UserError, match=r"no problem of .*problems\.jsonl has public tests"):
        preflight.check(config)
