"""From YAML files and `key=value` words to a checked configuration."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from erpo_jax.config.checks import check
from erpo_jax.config.keys import ConfigError
from erpo_jax.config.sections import Config
from erpo_jax.config.tree import FIELDS, SECTIONS

_ODD_NUMBER = r"[-+]?(\d[\d_]*(:\d+)+(\.\d*)?|0[\d_]+)"


def load(files: Sequence[str | Path], overrides: Sequence[str] = ()) -> Config:
    """Defaults, then each YAML file, then each `key=value` word; checked. Raises ConfigError with one line."""
    merged = OmegaConf.structured(Config)
    for file in files:
        merged = _merge(merged, _read_yaml(Path(file)), str(file))
    for word in overrides:
        if "=" not in word:
            raise ConfigError(f"'{word}' is neither a YAML file nor key=value (for example train.steps=10)")
        _refuse_odd_numbers(word.split("=", 1)[1], f"override '{word}'")
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


def sets(file: str | Path, name: str) -> bool:
    """Whether a YAML file gives the dotted key `name` a value. Raises ConfigError when it cannot be read."""
    return OmegaConf.select(_read_yaml(Path(file)), name) is not None


def _read_yaml(path: Path) -> DictConfig:
    if not path.is_file():
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.yaml")], n=1)
        hint = f"; did you mean {path.parent / near[0]}?" if near else ""
        raise ConfigError(f"there is no configuration file {path}{hint}")
    _refuse_odd_numbers(path.read_text(encoding="utf-8", errors="replace"), str(path))
    try:
        layer = OmegaConf.load(path)
    except Exception as error:
        raise ConfigError(f"{path} is not valid YAML: {_said(error)}") from error
    if not isinstance(layer, DictConfig):
        raise ConfigError(f"{path} must hold sections of keys, such as 'train:' with 'steps: 10' below it")
    return layer


def _refuse_odd_numbers(text: str, where: str) -> None:
    """YAML reads 1:30 in base 60 and 010 in base 8. Nobody who writes them here means that."""
    try:
        events = list(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError:
        return  # whoever reads it next says so
    for event in events:
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and re.fullmatch(_ODD_NUMBER, event.value):
            raise ConfigError(f"{where}: YAML reads {event.value} in another base than 10; write the number in base 10")


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
    _refuse_odd_values(layer, where)
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


def _refuse_odd_values(layer: DictConfig, where: str) -> None:
    """What OmegaConf takes without a word: ??? as no value at all, and any number as a boolean."""
    given: Any = OmegaConf.to_container(layer)
    for name, item in FIELDS.items():
        section, leaf = name.split(".")
        value = (given.get(section) or {}).get(leaf)
        if value == "???":
            raise ConfigError(f"{where}: {name} is ???, which is no value; leave it out to keep its default")
        if item.type == "bool" and isinstance(value, (int, float)) and not isinstance(value, bool):
            raise ConfigError(f"{where}: {name}={value} must be true or false")


def _flat_keys(tree: Any, prefix: str = "") -> list[str]:
    if not isinstance(tree, dict):
        return [prefix]
    return [
        name
        for child, value in tree.items()
        for name in _flat_keys(value, f"{prefix}.{child}" if prefix else str(child))
    ]
