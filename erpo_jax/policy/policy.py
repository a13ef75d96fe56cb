"""What the rest of the system holds of a model: its spec, its mesh, its parameters, and the folder it came from."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flax import nnx
from jax.sharding import Mesh

from erpo_jax.policy.spec import CheckpointError, ModelSpec


@dataclass(frozen=True)
class Policy:
    """A model at rest.

    `params` is the nnx.State of the decoder's parameters: float32, stacked, sharded over `mesh`; one matrix serves both
    ends of a tied model. `nnx.merge(policy.graphdef, params)` gives the decoder, also inside jax.jit. `source` is the
    Hugging Face folder that says the rest (tokenizer, dtypes, names of files).
    """

    spec: ModelSpec
    mesh: Mesh
    graphdef: nnx.GraphDef
    params: nnx.State
    source: Path

    def with_params(self, params: nnx.State) -> Policy:
        """The same policy with other weights (after an update)."""
        return dataclasses.replace(self, params=params)

    def tokenizer(self) -> Any:
        """The fast tokenizer of the source folder, as `load_tokenizer` gives it."""
        return load_tokenizer(self.source)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Every id that ends an answer: the eos ids of generation_config.json, else config.json, else the tokenizer."""
        for name in ("generation_config.json", "config.json"):
            file = self.source / name
            found = read_json(file).get("eos_token_id") if file.is_file() else None
            if found is not None:
                return (found,) if isinstance(found, int) else tuple(found)
        found = self.tokenizer().eos_token_id
        if found is None:
            raise CheckpointError(
                f"{self.source}: no eos_token_id in generation_config.json, config.json or the tokenizer"
            )
        return (int(found),)


def load_tokenizer(source: Path) -> Any:
    """The fast tokenizer of a Hugging Face folder, with its chat template.

    Raises CheckpointError naming the file that is missing or cannot be read, and for an empty vocabulary.
    """
    # imported here: it takes a second that most uses do not need
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    # AutoTokenizer may put a family's usual tokenizer around this one's words; tokenizer.json says it all itself
    file, settings = source / "tokenizer.json", source / "tokenizer_config.json"
    own = file.is_file()
    fault = f"{file} {'cannot be used' if own else 'is missing'}"
    if settings.is_file():
        read_json(settings)  # names the file, where the library would only name the character
    kind: Any = PreTrainedTokenizerFast if own else AutoTokenizer
    try:
        tokenizer = kind.from_pretrained(source, local_files_only=True)
    except Exception as error:  # the library has no class of its own for a bad file, and raises many
        raise CheckpointError(f"{fault}: {' '.join(str(error).split()) or type(error).__name__}") from error
    # without its files a family's tokenizer is built all the same, of nothing but special tokens
    if not tokenizer.get_vocab().keys() - tokenizer.get_added_vocab().keys():
        raise CheckpointError(f"{fault}: the tokenizer's vocabulary is empty")
    return tokenizer


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object. Raises CheckpointError naming the file, also when a key stands twice."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=_once)
    except FileNotFoundError as error:
        raise CheckpointError(f"{file.parent} has no {file.name}") from error
    except (ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{file} must hold a JSON object")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice} stands twice")
    return found
