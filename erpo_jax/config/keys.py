"""One key of the configuration: its default, meaning and range in one place, and the check of the last."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import Field, field
from typing import Any

from erpo_jax.errors import UserError


class ConfigError(UserError):
    """A mistake of the user's in a configuration: one line, with the key, the value, and what is allowed."""


def key(
    default: Any,
    doc: str,
    *,
    choices: Sequence[str] | None = None,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> Any:
    """A dataclass field that carries its comment and its range. `low`/`high` are inclusive, `above` is exclusive."""
    metadata = {"doc": doc, "choices": choices, "low": low, "high": high, "above": above}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def shown_range(item: Field) -> str:
    """The range of a key, in words; empty when any value goes."""
    bounds = item.metadata
    if bounds["choices"]:
        return f" [{' | '.join(bounds['choices'])}]"
    parts = [
        f"> {bounds['above']}" if bounds["above"] is not None else "",
        f">= {bounds['low']}" if bounds["low"] is not None else "",
        f"<= {bounds['high']}" if bounds["high"] is not None else "",
    ]
    shown = ", ".join(part for part in parts if part)
    return f" [{shown}]" if shown else ""


def check_range(name: str, value: Any, item: Field) -> None:
    """Raises ConfigError when the value is none of the choices, or out of range; names the nearest valid one."""
    bounds = item.metadata
    if bounds["choices"] and value not in bounds["choices"]:
        near = difflib.get_close_matches(str(value), bounds["choices"], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"{name}={value} is not one of {', '.join(bounds['choices'])}{hint}")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return
    low, high, above = bounds["low"], bounds["high"], bounds["above"]
    if not (
        math.isfinite(value)
        and (low is None or value >= low)
        and (high is None or value <= high)
        and (above is None or value > above)
    ):
        nearest = low if low is not None and value < low else high if high is not None and value > high else None
        hint = f"; the nearest valid value is {nearest}" if nearest is not None else ""
        raise ConfigError(f"{name}={value} is out of range{shown_range(item)}{hint}")
