"""Every test runs on 8 virtual CPU devices under strict dtype and rank promotion."""

import os
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
