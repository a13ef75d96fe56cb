"""What every command in launch/ shares: its words, its help, and how a user's mistake ends (one line, exit code 2).

Also the only place that touches process-wide JAX settings (`place_jax`, `prepare_jax`), because importing the package
sets nothing.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import importlib.metadata
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from erpo_jax import config as configuration
from erpo_jax.config import Config
from erpo_jax.errors import Failure, UserError
from erpo_jax.quiet import quiet

QUICKSTART = Path(__file__).parents[1] / "configs" / "quickstart.yaml"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; --help shows how {self.prog} is called")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Flags may stand between the words."""
        return self.parse_intermixed_args(args, namespace)


_DEFAULTS = """every key, its meaning and its default (the paper's protocol; configs/quickstart.yaml, which comes
first where no file sets model.path, sets others):"""


def parser(description: str, *, keys: bool = True, list_keys: bool = False) -> argparse.ArgumentParser:
    """A parser whose `words`, with `keys`, are YAML files and `key=value`; `list_keys` has --help list every key."""
    listed = f"{_DEFAULTS}\n\n{configuration.describe()}"
    epilog = listed if list_keys else "every key, its meaning and its default: launch/train.py --help"
    made = _Parser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=epilog if keys else None,
        allow_abbrev=False,
    )
    if keys:
        made.add_argument(
            "words",
            nargs="*",
            metavar="CONFIG.yaml | key=value",
            help="merged from left to right; over configs/quickstart.yaml where no file sets model.path",
        )
    return made


def load_config(words: Sequence[str]) -> Config:
    """The configuration that the command line describes; over the quickstart's where no file names a model (an
    objective's alone, say). Raises ConfigError."""
    files = [word for word in words if "=" not in word and word.endswith((".yaml", ".yml"))]
    base = [] if any(configuration.sets(file, "model.path") for file in files) else [QUICKSTART]
    return configuration.load([*base, *files], [word for word in words if word not in files])


def place_jax(config: Config) -> None:
    """Set what JAX reads when it meets the devices: which GPUs are its own, and how much of them.

    Must come before JAX is imported. Raises UserError when it comes too late, or when the environment already says
    something else.
    """
    vllm = config.vllm
    if config.rollout.engine != "vllm" or vllm.placement == "none":
        return
    wanted = {}
    if vllm.placement == "split":
        wanted["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, vllm.train_devices))
    elif vllm.sleep:
        wanted["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        wanted["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"  # the only one that gives memory back
    else:
        wanted["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{vllm.jax_memory_fraction:g}"
    for name, value in wanted.items():
        if os.environ.get(name, value) != value:
            raise UserError(
                f"the environment has {name}={os.environ[name]}, but vllm.placement={vllm.placement} needs {value}; "
                f"unset it, or change the vllm section to agree"
            )
        if name not in os.environ and "jax" in sys.modules:
            raise UserError(f"{name} must be set before JAX is imported, and it is already; start anew")
    os.environ.update(wanted)


def prepare_jax(config: Config) -> None:
    """Process-wide JAX settings, before the first device is touched: compilation cache, quiet logs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import jax

    if config.run.compilation_cache:
        folder = Path(config.run.compilation_cache).expanduser()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"run.compilation_cache={folder} cannot be made: {error.strerror}; null keeps none"
            ) from error
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def prepare_gpu_compiler() -> None:
    """Import jax such that it can compile for GPUs that are not there; this process itself is left the CPU alone.

    XLA's CUDA plugin lies in a folder of its own: JAX would otherwise try to start it wherever there is no GPU. One
    that is installed as usual (`jax[cuda12]`) serves as well. Raises UserError with the command that installs it.
    """
    if "jax" in sys.modules:
        raise RuntimeError("jax looks for the plugin when it is imported, which it was already")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    os.environ["JAX_PLATFORMS"] = "cpu"  # a GPU that is there is left alone
    folder = Path(sys.prefix) / "gpu_compiler"
    sys.path.append(str(folder))  # behind the environment's own packages: an installed plugin goes first
    if not any(point.name.startswith("xla_cuda") for point in importlib.metadata.entry_points(group="jax_plugins")):
        version = importlib.metadata.version("jaxlib")
        raise UserError(
            f"compiling for GPUs needs XLA's CUDA plugin (no GPU); install it with: make gpu-compiler, or "
            f"{sys.executable} -m pip install --no-deps --target {folder} "
            f"jax-cuda12-plugin=={version} jax-cuda12-pjrt=={version} nvidia-cudnn-cu12"
        )
    with quiet():
        importlib.import_module("jax")


def check_writable(flag: str, file: Path | None) -> None:
    """Try it before hours of work, not after them. Raises UserError where `file`, the value of `flag`, cannot be
    written; None passes."""
    if file is None:
        return
    try:
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise UserError(f"{flag} {file} cannot be written: {error.strerror}") from error


def run(main: Callable[[list[str]], int | None]) -> NoReturn:
    """Call `main` with the command's words and exit: 0, its own code, or one line and 2 (a user's mistake) or 1 (a
    failure)."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that torch is missing is no news here
    try:
        code = main(sys.argv[1:])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Failure as failure:
        print(f"failed: {failure}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # a full disk, a folder that went away
        print(f"failed: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # one more ends the process at once, without a traceback
        print("stopped", file=sys.stderr)
        sys.exit(130)
    sys.exit(code or 0)
