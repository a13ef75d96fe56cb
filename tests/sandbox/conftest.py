"""One sandbox per tier for the whole run, and what tests say about outcomes."""

from collections.abc import Callable, Iterator

import pytest

from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox

TIERS = ("namespaces", "landlock", "seccomp")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--differential", type=int, default=200, help="programs compared with a plain interpreter")


@pytest.fixture(scope="session")
def sandboxes() -> Iterator[Callable[[str], Sandbox]]:
    """A sandbox of the tier asked for, made once."""
    made: dict[str, Sandbox] = {}

    def of(tier: str) -> Sandbox:
        if tier not in made:
            made[tier] = Sandbox(workers=1, tier=tier)
        return made[tier]

    yield of
    for sandbox in made.values():
        sandbox.close()


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def each(sandboxes: Callable[[str], Sandbox], tier: str) -> Sandbox:
    """The sandbox of each tier in turn."""
    return sandboxes(tier)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """The strongest tier, two workers."""
    with Sandbox(workers=2) as made:
        yield made


def one(sandbox: Sandbox, program: str, text: str = "", **limits: float) -> Outcome:
    """The outcome of a program on one input."""
    return sandbox.run([Job(program, (text,), limits=Limits(**limits))])[0][0]  # type: ignore[arg-type]


def call(sandbox: Sandbox, program: str, arguments: str, entry_point: str = "solve", **limits: float) -> Outcome:
    """The outcome of a function on one list of arguments."""
    job = Job(program, (arguments,), "function", entry_point, Limits(**limits))  # type: ignore[arg-type]
    return sandbox.run([job])[0][0]


@pytest.fixture
def run_one() -> Callable[..., Outcome]:
    return one


@pytest.fixture
def run_call() -> Callable[..., Outcome]:
    return call
