"""Every test runs on 8 virtual CPU devices under strict dtype and rank promotion."""

import os
from collections.abc import Iterator
from pathlib import Path

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data and programs; tests that need it say so by asking for this fixture."""
    folder = os.environ.get("ERPO_TEST_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the real data: set ERPO_TEST_DATA to the folder that holds data/ and sandbox/")
    return Path(folder)


@pytest.fixture(scope="session")
def _compilations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("xla")


@pytest.fixture(scope="module")
def compiled_once(_compilations: Path) -> Iterator[None]:
    """Runs of one configuration, in any test that asks for this, compile the same programs once."""
    import jax

    jax.config.update("jax_compilation_cache_dir", str(_compilations))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    yield
    jax.config.update("jax_compilation_cache_dir", None)
