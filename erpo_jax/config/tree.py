"""The configuration as dotted names: every key, its value, and the help text that lists them all."""

from __future__ import annotations

import dataclasses
from dataclasses import Field
from typing import Any

from erpo_jax.config.keys import shown_range
from erpo_jax.config.sections import Config


def _walk(cls: type, prefix: str = "") -> dict[str, Field]:
    found: dict[str, Field] = {}
    for item in dataclasses.fields(cls):
        factory = item.default_factory
        if isinstance(factory, type) and dataclasses.is_dataclass(factory):
            found |= _walk(factory, f"{item.name}.")
        else:
            found[prefix + item.name] = item
    return found


FIELDS = _walk(Config)
SECTIONS = [item.name for item in dataclasses.fields(Config)]


def names() -> list[str]:
    """Every dotted key."""
    return list(FIELDS)


def get(config: Config, name: str) -> Any:
    """The value of the dotted key `name`."""
    section, leaf = name.split(".")
    return getattr(getattr(config, section), leaf)


def describe() -> str:
    """Every key with its default, below a comment with its meaning and range."""
    lines = []
    section = ""
    for name, item in FIELDS.items():
        head, leaf = name.split(".")
        if head != section:
            section = head
            lines.append(f"\n{section}:")
        default = get(Config(), name)
        shown = "null" if default is None else str(default).lower() if isinstance(default, bool) else default
        lines += [f"  # {item.metadata['doc']}{shown_range(item)}", f"  {leaf}: {shown}"]
    return "\n".join(lines).lstrip()
