"""The folder that ships: complete, small, and what the recipe says."""

import json
from pathlib import Path

import jax
import pytest
from safetensors import safe_open

import erpo_jax
from erpo_jax.evaluate import load_hidden
from erpo_jax.policy import load, make_mesh
from erpo_jax.problems import Prompts, extract_program, load_problems
from erpo_jax.quickstart import Recipe, write_held_out
from erpo_jax.quickstart.corpus import prompt_config
from erpo_jax.quickstart.language import runner
from erpo_jax.quickstart.measure import INPUT_TOKENS, PROGRAM_TOKENS, measure, write_probes
from erpo_jax.quickstart.pretrain import hf_config, spec
from erpo_jax.reward import output_key
from erpo_jax.rollout import JaxEngine, Sampling
from erpo_jax.sandbox import Outcome

FOLDER = Path(erpo_jax.__file__).parent / "assets" / "quickstart"
PROBLEMS = FOLDER / "problems"


@pytest.fixture(scope="module")
def policy():
    return load("quickstart", make_mesh(), remat=False)


@pytest.fixture(scope="module")
def prompts(policy):
    return Prompts(prompt_config(), policy.tokenizer())


class InProcess:
    """Stands in for the sandbox: these programs come from our own policy, and the sandbox has tests of its own."""

    def run(self, jobs):
        return [[self.one(job.program, text) for text in job.inputs] for job in jobs]

    def one(self, program, text):
        try:
            return Outcome("ok", runner(program)(text))
        except Exception as error:
            return Outcome("error", detail=str(error))


def test_the_checkpoint_is_small_and_has_the_documented_shape(policy):
    assert policy.spec == spec()
    assert json.loads((FOLDER / "config.json").read_text()) == hf_config()
    # 768 * 128 + 4 * (q and o 2 * 128 * 128, k and v 2 * 128 * 64, feed-forward 3 * 128 * 384, norms 320) + 128
    assert sum(leaf.size for leaf in jax.tree.leaves(policy.params)) == 98_304 + 4 * 196_928 + 128 == 886_144
    assert (FOLDER / "model.safetensors").stat().st_size < 4_000_000
    with safe_open(FOLDER / "model.safetensors", "np") as file:
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118
        assert file.get_tensor("model.embed_tokens.weight").shape == (768, 128)


def test_its_problems_are_the_recipes(tmp_path):
    made = tmp_path / "problems"
    write_held_out(made, Recipe())
    for name in ("problems.jsonl", "hidden.jsonl", "transfer_problems.jsonl", "transfer_hidden.jsonl"):
        assert (made / name).read_bytes() == (PROBLEMS / name).read_bytes(), name


def test_hidden_tests_are_not_in_the_problem_file():
    for prefix in ("", "transfer_"):
        problems = load_problems(PROBLEMS / f"{prefix}problems.jsonl")
        hidden = load_hidden(PROBLEMS / f"{prefix}hidden.jsonl", [problem.id for problem in problems])
        assert len(problems) == len(hidden) == 64
        for problem in problems:
            shown = {example.input for example in problem.public_tests}
            assert len(hidden[problem.id].cases) == 10
            assert not shown & {case.input for case in hidden[problem.id].cases}


def test_requests_and_answers_are_short(prompts):
    for prefix in ("", "transfer_"):
        for problem in load_problems(PROBLEMS / f"{prefix}problems.jsonl"):
            assert len(prompts.solve(problem).ids) <= 64
            assert len(prompts.probe(problem).ids) <= 64
    assert (PROGRAM_TOKENS, INPUT_TOKENS) == (80, 48)


def test_greedy_answers_are_programs_and_many_are_right(policy, prompts):
    problems = load_problems("quickstart")[:32]
    hidden = load_hidden("quickstart", [problem.id for problem in problems])
    engine = JaxEngine(policy, batch_rows=32, max_prompt_tokens=64)
    answers = engine.generate([prompts.solve(p).ids for p in problems], 1, Sampling(0.0, PROGRAM_TOKENS), [0] * 32)
    right = 0
    for problem, (completion,) in zip(problems, answers, strict=True):
        assert completion.finish_reason == "stop"
        program = extract_program(prompts.text(completion.token_ids))
        cases = hidden[problem.id].cases
        outcomes = [InProcess().one(program, case.input) for case in cases]
        right += [o.output and output_key(o.output) for o in outcomes] == [output_key(case.output) for case in cases]
    assert 8 <= right <= 26


def test_a_fallible_programmer_as_documented(policy, prompts):
    problems = load_problems("quickstart")[:40]
    hidden = load_hidden("quickstart", [problem.id for problem in problems])
    engine = JaxEngine(policy, batch_rows=160, max_prompt_tokens=64)
    probes = write_probes(engine, prompts, problems, 10, seed=1)
    found = measure(engine, prompts, problems, hidden, probes, InProcess(), samples=16)
    assert probes.accepted > 0.6
    assert 0.25 < found.pass_at_1 < 0.6
    assert found.pass_at_n > found.pass_at_1 + 0.25
    assert 0.25 < found.wrong_at_one < 0.6
    assert found.wrong_at_half > 0.8
    assert 0.2 < found.shared_wrong < 0.8
    assert found.auc > 0.6
