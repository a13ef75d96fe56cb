"""From YAML files and `key=value` words to a checked configuration."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from erpo_jax.config.checks import check
from erpo_jax.config.keys import ConfigError
from erpo_jax.config.sections import Config
from erpo_jax.config.tree import FIELDS, SECTIONS


def load(files: Sequence[str | Path], overrides: Sequence[str] = ()) -> Config:
    """Defaults, then each YAML file, then each `key=value` word; checked. Raises ConfigError with one line."""
    merged = OmegaConf.structured(Config)
    for file in files:
        merged = _merge(merged, _read_yaml(Path(file)), str(file))
    for word in overrides:
        if "=" not in word:
            raise ConfigError(f"'{word}' is neither a YAML file nor key=value (for example train.steps=10)")
        try:
            layer = OmegaConf.from_dotlist([word])
        except Exception as error:  # the YAML parser's own errors span many lines
            raise ConfigError(
                f"cannot read the override '{word}': {_said(error)}; a text with braces or colons needs quotes: "
                f"'key=\"...\"'"
            ) from error
        merged = _merge(merged, layer, f"override '{word}'")
    try:
        config = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise ConfigError(str(error).splitlines()[0]) from error
    assert isinstance(config, Config)
    check(config)
    return config


def _read_yaml(path: Path) -> DictConfig:
    if not path.is_file():
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.yaml")], n=1)
        hint = f"; did you mean {path.parent / near[0]}?" if near else ""
        raise ConfigError(f"there is no configuration file {path}{hint}")
    try:
        layer = OmegaConf.load(path)
    except Exception as error:
        raise ConfigError(f"{path} is not valid YAML: {_said(error)}") from error
    if not isinstance(layer, DictConfig):
        raise ConfigError(f"{path} must hold sections of keys, such as 'train:' with 'steps: 10' below it")
    return layer


def _said(error: Exception) -> str:
    """A YAML error in one line, with its place."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})" if mark else str(problem)


def _merge(config: DictConfig, layer: DictConfig, where: str) -> DictConfig:
    for name in _flat_keys(OmegaConf.to_container(layer)):
        if name not in FIELDS and name not in SECTIONS:
            known = [*FIELDS, *SECTIONS]
            near = (
                difflib.get_close_matches(name, known, n=1, cutoff=0.5)
                or [
                    full
                    for full in known
                    if full.rsplit(".", 1)[-1]
                    in difflib.get_close_matches(
                        name.rsplit(".", 1)[-1], [k.rsplit(".", 1)[-1] for k in known], n=1, cutoff=0.6
                    )
                ][:1]
            )
            hint = f"; did you mean {near[0]}?" if near else "; --help lists every key"
            raise ConfigError(f"{where}: unknown key {name}{hint}")
    for name in SECTIONS:
        if layer.get(name) is not None and not isinstance(layer[name], DictConfig):
            first = next(full for full in FIELDS if full.startswith(f"{name}."))
            raise ConfigError(f"{where}: {name} is a section of keys, not a value; set a key of it, such as {first}")
    try:
        merged = OmegaConf.merge(config, layer)
    except OmegaConfBaseException as error:
        listed = [
            name
            for name in _flat_keys(OmegaConf.to_container(layer))
            if name in FIELDS and "list" in str(error).lower()
        ]
        key = getattr(error, "full_key", None) or ", ".join(listed) or "a value"
        hint = "; a list is written [1, 16]" if listed else ""
        raise ConfigError(f"{where}: {key}: {str(error).splitlines()[0]}{hint}") from error
    assert isinstance(merged, DictConfig)
    return merged


def _flat_keys(tree: Any, prefix: str = "") -> list[str]:
    if not isinstance(tree, dict):
        return [prefix]
    return [
        name
        for child, value in tree.items()
        for name in _flat_keys(value, f"{prefix}.{child}" if prefix else str(child))
    ]
