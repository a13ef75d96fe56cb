"""The making of probes, end to end: a scripted policy, the real sandbox, the real store."""

import dataclasses
import json
import warnings

import pytest

from erpo_jax.probes import SOURCES, Probe, ProbeStore, make_probes, settings_of
from erpo_jax.problems import Example, Problem

SUM = Problem(
    "sum",
    "Read a line of integers and print their sum.",
    public_tests=(Example("1 2 3\n", "6\n"),),
    input_constraints="one line with 2 to 6 integers from -50 to 50",
)
PROGRAM = "print(sum(map(int, input().split())))"


@pytest.fixture
def make(prompts, sandbox, config):
    def run(problems, engine, seed=0, **changes):
        for name, value in changes.items():
            setattr(config.probes, name, value)
        return make_probes(problems, engine=engine, prompts=prompts, sandbox=sandbox, config=config, seed=seed)

    return run


def policy(probes, program=PROGRAM, check="I do not know."):
    """Answers probe requests from a list (the last again and again), and the others with one text each."""

    def answer(text, number):
        if text.startswith("solve"):
            return program
        return check if text.startswith("check") else probes[min(number, len(probes) - 1)]

    return answer


def test_accepts_what_is_well_formed_valid_new_and_runs(make, scripted):
    engine = scripted(
        policy(
            [
                "5 -5",  # accepted
                "five",  # format
                "```\n9 9 9 9\n```",  # accepted, fenced
                "60 1",  # constraints
                "6 -6",  # known: the structure of the first
                None,  # lost
                "1 1 1 1 1 1 1",  # constraints: seven of them
                "7 " * 40,  # cut
            ]
        )
    )
    with pytest.warns(UserWarning, match=r"fewer than 4 probes: sum \(2\)"):
        found = _without_mutation(make, engine)
    assert found.probes == (Probe("5 -5\n", "policy"), Probe("9 9 9 9\n", "policy"))
    statistics = found.statistics
    assert statistics.asked == 8
    assert dict(statistics.refused) == {"format": 1, "constraints": 2, "known": 1, "lost": 1, "cut": 1}
    assert statistics.checker == "rules"
    assert "2 to 6 items" in statistics.rules
    assert statistics.trial_programs == 2
    assert found.by_source() == {"policy": 2, "mutated_example": 0, "mutated_probe": 0}


def _without_mutation(make, engine):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("erpo_jax.probes.make._MUTATION_ROUNDS", 0)
        return make([SUM], engine)["sum"]


def test_mutation_fills_up_and_says_so(make, scripted):
    found = make([SUM], scripted(policy(["2 40", "no idea"])), count=8)["sum"]
    assert len(found.probes) == 8
    sources = found.by_source()
    assert sources["policy"] == 1
    assert sources["mutated_example"] + sources["mutated_probe"] == 7
    assert sources["mutated_example"] > 0
    for text in found.inputs:
        values = list(map(int, text.split()))
        assert 2 <= len(values) <= 6
        assert all(-50 <= value <= 50 for value in values)
    assert len({probe.input for probe in found.probes}) == 8
    assert found.statistics.mutations >= 7


def test_rounds_ask_all_unfinished_problems_at_once(make, scripted):
    other = dataclasses.replace(SUM, id="other")
    good = ["5 -5", "9 9 9 9", "0 0", "-1 -2 -3"]
    answers = {"sum": good, "other": ["bad"]}
    engine = scripted(
        lambda text, number: (
            PROGRAM
            if text.startswith("solve")
            else answers[text.split()[1]][number % 4 % len(answers[text.split()[1]])]
        )
    )
    found = make([SUM, other], engine)
    probe_calls = [(texts, n) for texts, n, _ in engine.calls if texts[0].startswith("probe")]
    assert probe_calls[0] == (["probe sum accepted 0", "probe other accepted 0"], 2)
    assert probe_calls[1] == (["probe sum accepted 2", "probe other accepted 0"], 2)
    assert probe_calls[2] == (["probe other accepted 0"], 2)  # the first is done
    assert len(probe_calls) == 4  # attempts * count / batch
    assert found["sum"].by_source()["policy"] == 4
    assert found["other"].by_source()["policy"] == 0
    assert list(found) == ["sum", "other"]


def test_a_problems_probes_do_not_depend_on_its_neighbours(make, scripted, config, tmp_path):
    other = dataclasses.replace(SUM, id="other")
    together = scripted(policy(["5 -5", "bad"]))
    first = make([SUM, other], together)
    config.probes.store = str(tmp_path / "elsewhere")
    alone = scripted(policy(["5 -5", "bad"]))
    second = make([other], alone)
    assert first["other"].probes == second["other"].probes
    seeds = {
        text.split(" accepted")[0]: seed
        for texts, _, given in together.calls
        for text, seed in zip(texts, given, strict=True)
    }
    assert alone.calls[-1][2] == [seeds["probe other"]]
    assert len({seed for _, _, given in together.calls for seed in given}) == sum(
        len(given) for _, _, given in together.calls
    )


def test_crashing_all_trial_programs_is_refused(make, scripted):
    engine = scripted(policy(["5 -5", "0 0", "4 4 4"], program="n = sum(map(int, input().split()))\nprint(1 // n)"))
    found = make([SUM], engine, count=2)["sum"]
    assert found.inputs == ("4 4 4\n", *found.inputs[1:])
    assert found.statistics.refused["crashes"] == 2
    assert all(sum(map(int, text.split())) != 0 for text in found.inputs)


def test_trial_programs_that_crash_on_the_examples_say_nothing(make, scripted):
    found = make([SUM], scripted(policy(["5 -5", "0 0"], program="raise SystemExit(1)")), count=2)["sum"]
    assert found.inputs == ("5 -5\n", "0 0\n")
    assert found.statistics.trial_programs == 0


def test_trial_programs_can_be_turned_off(make, scripted):
    engine = scripted(policy(["5 -5", "0 0"]))
    make([SUM], engine, count=2, trial_programs=0)
    assert not any(texts[0].startswith("solve") for texts, _, _ in engine.calls)


ODD = Problem(
    "odd",
    "Double the numbers. All of them are assumed to be odd.",
    "function",
    "double",
    "def double(a: list[int]) -> list[int]:",
    (Example("[[1, 3]]", "[2, 6]"),),
)
CHECK = (
    "```python\nimport json\ndef is_valid(text: str) -> bool:\n    return all(x % 2 for x in json.loads(text)[0])\n```"
)


def test_a_checker_of_the_policy(make, scripted):
    answers = ["[[5, -7, 5]]", "[[2, 4]]", "double([9])", "```json\n[[]]\n```", "[1]", "[[1], 2]"]
    engine = scripted(policy(answers, program="def double(a):\n    return [2 * x for x in a]", check=CHECK))
    found = make([ODD], engine, count=3)["odd"]
    assert found.inputs == ("[[5, -7, 5]]", "[[9]]", "[[]]")
    assert found.statistics.checker == "model"
    assert dict(found.statistics.refused) == {"constraints": 1}


@pytest.mark.parametrize(
    "check", ["def is_valid(text):\n    return False", "def is_valid(text):\n    raise ValueError", "No."]
)
def test_a_checker_that_refuses_an_example_is_not_believed(make, scripted, check):
    found = make([ODD], scripted(policy(["[[5, -7, 5]]", "[[2, 4]]"], check=check)), count=2)["odd"]
    assert found.inputs == ("[[5, -7, 5]]", "[[2, 4]]")
    assert found.statistics.checker == "none"


def test_a_checker_that_accepts_nothing_else_is_dropped(make, scripted):
    engine = scripted(policy(["[[5, -7, 5]]"], check="def is_valid(text):\n    return text == '[[1, 3]]'"))
    found = make([ODD], engine, count=4, attempts=4)["odd"]
    assert len(found.probes) == 4
    assert "the policy's checker refused 12 well-formed inputs and was dropped" in found.statistics.note


@pytest.mark.parametrize(("checker", "asked"), [("auto", False), ("rules", False), ("none", False), ("model", True)])
def test_which_checker_is_asked_for(make, scripted, checker, asked):
    engine = scripted(policy(["60 60", "5 -5"]))
    found = make([SUM], engine, checker=checker, count=1)["sum"]
    assert any(texts[0].startswith("check") for texts, _, _ in engine.calls) is asked
    believed = found.inputs == ("60 60\n",)  # breaks the stated limit
    assert believed is (checker in ("none", "model"))


def test_stored_probes_are_reused(make, scripted, config):
    first = make([SUM], scripted(policy(["5 -5", "bad"])))
    silent = scripted(policy(["9 9"]))
    assert make([SUM], silent) == first
    assert silent.calls == []
    assert (
        make(
            [dataclasses.replace(SUM, statement="Another."), SUM],
            scripted(policy(["8 8"])),
        )["sum"]
        == first["sum"]
    )
    assert make([SUM], scripted(policy(["9 9"])), temperature=0.5) != first
    engine = scripted(policy(["9 9"]))
    make([SUM], engine, seed=1)
    assert engine.calls


def test_settings_that_matter_and_settings_that_do_not(config):
    before = settings_of(config, 0)
    config.probes.store = "elsewhere"
    config.optimizer.learning_rate = 1.0
    config.sandbox.workers = 7
    assert settings_of(config, 0) == before
    assert settings_of(config, 1) != before
    config.prompt.probe = "one more"
    assert settings_of(config, 0) != before


def test_nothing_to_begin_from(make, scripted):
    blind = Problem("blind", "Guess.")
    with pytest.warns(UserWarning, match=r"blind \(0\)"):
        found = make([blind], scripted(policy(["\x00"])))["blind"]
    assert found.probes == ()
    assert found.statistics.note.startswith("no input to begin from")
    assert found.statistics.refused == {"format": 8}


def test_no_example_but_answers(make, scripted):
    found = make([Problem("blind", "Guess.")], scripted(policy(["3 4", "a\nb", "1", "-1", "0"])), trial_programs=0)[
        "blind"
    ]
    assert found.inputs == ("3 4\n", "a\nb\n", "1\n", "-1\n")


def test_zero_probes_ask_nothing(make, scripted):
    engine = scripted(policy(["1 2"]))
    assert make([SUM], engine, count=0)["sum"].probes == ()
    assert engine.calls == []


def test_zero_attempts_leave_all_to_mutation(make, scripted):
    engine = scripted(policy(["1 2"]))
    found = make([SUM], engine, attempts=0)["sum"]
    assert found.by_source() == {"policy": 0, "mutated_example": 4, "mutated_probe": 0}
    assert not any(texts[0].startswith("probe") for texts, _, _ in engine.calls)


def test_a_request_that_is_too_long(make, scripted, config):
    config.rollout.max_prompt_tokens = 12
    found = make([SUM], scripted(policy(["1 2"])), trial_programs=0)["sum"]
    assert len(found.probes) == 4
    assert "longer than rollout.max_prompt_tokens" in found.statistics.note


def test_progress_counts_to_the_end(prompts, sandbox, config, scripted):
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_probes(
            [SUM, Problem("blind", "Guess.")],
            engine=scripted(policy(["5 -5", "\x00"])),
            prompts=prompts,
            sandbox=sandbox,
            config=config,
            seed=0,
            progress=lambda done, total: seen.append((done, total)),
        )
    assert seen[-1] == (8, 8)
    assert seen == sorted(seen)


def test_progress_may_stop_and_finished_problems_are_stored(prompts, sandbox, config, scripted):
    other = dataclasses.replace(SUM, id="other")
    config.probes.count = 1

    def stop(done, total):
        if done == 1:
            raise KeyboardInterrupt

    engine = scripted(lambda text, number: "5 -5" if text.startswith("probe sum") else "bad")
    with pytest.raises(KeyboardInterrupt):
        make_probes([SUM, other], engine=engine, prompts=prompts, sandbox=sandbox, config=config, seed=0, progress=stop)
    assert list(ProbeStore(config.probes.store, settings_of(config, 0)).load()) == [SUM.digest()]


def test_real_problems(make, scripted, shared_data):
    """Hidden inputs of real problems as the policy's proposals; real right programs as trial programs."""
    import gzip

    with gzip.open(shared_data / "data" / "codecontests_stdin.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file][:12]
    problems = [
        Problem(row["id"], row["statement"], public_tests=tuple(Example(**test) for test in row["public_tests"]))
        for row in rows
    ]
    programs = {row["id"]: next(c["code"] for c in row["candidates"] if c["label"] == "correct") for row in rows}
    inputs = {row["id"]: [test["input"] for test in row["hidden_tests"] if len(test["input"]) < 1500] for row in rows}

    def answer(text, number):
        kind, name = text.split(" ")[:2]
        return programs[name] if kind == "solve" else f"```\n{inputs[name][number % len(inputs[name])]}```"

    found = make(problems, scripted(answer), count=6, max_new_tokens=2000, trial_programs=1)
    kinds = {source: sum(made.by_source()[source] for made in found.values()) for source in SOURCES}
    assert sum(kinds.values()) == 12 * 6
    assert kinds["policy"] >= 60
    for row in rows:
        assert {probe.input.split()[0] for probe in found[row["id"]].probes if probe.source == "policy"} <= {
            text.split()[0] for text in inputs[row["id"]]
        }
