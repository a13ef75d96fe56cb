"""Running the sandbox as a user without rights, whoever runs the tests."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import erpo_jax

NOBODY = 65534


@contextmanager
def readable_copy() -> Iterator[str]:
    """A folder with the package and the hostile programs, which every user can read."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(erpo_jax.__file__).parent
        shutil.copytree(source / "sandbox", Path(folder) / "erpo_jax" / "sandbox")
        shutil.copy(source / "__init__.py", Path(folder) / "erpo_jax")
        for name in ("hostile.py", "hostile.txt"):
            shutil.copy(Path(__file__).with_name(name), folder)
        for path in (Path(folder), *Path(folder).rglob("*")):
            path.chmod(0o755)
        yield folder


def run_without_rights(folder: str, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """An interpreter with these arguments, as nobody if we are root (and nobody can run one), with `folder` as the
    place of the package."""
    python = interpreter_for_everybody() if os.geteuid() == 0 else None
    rights = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if python else {}
    return subprocess.run(
        [python or sys.executable, *words],
        env={"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        **rights,  # type: ignore[call-overload]
    )


def interpreter_for_everybody() -> str | None:
    """One of 3.11 or newer that nobody may run; ours may stand in a home directory closed to others."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            check = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
            if subprocess.run(check, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True).returncode == 0:
                return python
        except OSError:
            continue
    return None
