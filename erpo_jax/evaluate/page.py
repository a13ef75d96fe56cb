"""One HTML page that needs nothing beside it: the style, the frame around a body, tables, lists of names and values.

Colours follow light and dark; plots take theirs from the same variables. Left out: what a page says, which is its
report's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5d6778; --rule: #dde2ea; --page: #ffffff; --panel: #f6f8fb;
  --base: #4a6fa5; --adapted: #c2410c; --good: #15803d; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa4b5; --rule: #303846; --page: #12161d;
  --panel: #1a202a; --base: #8fb1e3; --adapted: #fb923c; --good: #4ade80; --bad: #f87171; } }
body { margin: 0 auto; max-width: 60rem; padding: 2.5rem 1.5rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; } p.lead { color: var(--soft); margin: 0 0 1.5rem; }
.verdict { background: var(--panel); border-left: 4px solid var(--base); padding: .9rem 1.2rem;
  border-radius: 0 8px 8px 0; }
.verdict.above { border-color: var(--good); } .verdict.below { border-color: var(--bad); }
.verdict p { margin: .2rem 0; } .verdict p:first-child { font-weight: 600; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .38rem .9rem .38rem 0; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; font-size: .85rem; } td.who { font-weight: 500; }
tr.adapted td { color: var(--adapted); } tr.difference td { color: var(--soft); }
tr.difference td.who { padding-left: 1.2rem; font-weight: 400; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; font-size: .9rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .85rem; }
svg { width: 100%; height: auto; max-width: 44rem; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg .label { font-size: 13px; } svg .grid { stroke: var(--rule); }
svg .base { stroke: var(--base); } svg .adapted { stroke: var(--adapted); } svg .line { fill: none; stroke-width: 2; }
svg .bar { opacity: .38; stroke-width: 1.5; }
svg .base.dot { fill: var(--base); } svg .adapted.dot { fill: var(--adapted); }
svg text.name { stroke: none; font-weight: 600; }
svg text.base { fill: var(--base); } svg text.adapted { fill: var(--adapted); }
svg .diagonal { stroke: var(--soft); stroke-dasharray: 4 4; } svg .bubble { opacity: .6; }
svg .gain { fill: var(--good); } svg .loss { fill: var(--bad); } svg .same { fill: var(--soft); }
svg .count { fill: var(--rule); }
"""


def page(title: str, lead: str, body: Iterable[str]) -> str:
    """The whole page: `title` and `lead` are texts, `body` is HTML."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    content = "\n".join([f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(lead)}</p>', *body])
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{content}\n</body></html>\n'


def table(heads: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """A table of texts. A row is its CSS class and its cells, the first of which says who it is about."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    lines = [
        f'<tr class="{kind}"><td class="who">{escape(who.strip())}</td>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for kind, (who, *cells) in rows
    ]
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def figure(drawing: str, caption: str) -> str:
    """A drawing (HTML) with words below it."""
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def definitions(tree: Mapping[str, Any]) -> str:
    """The names and values of a tree as a definition list; nested names are joined, empty values left out."""
    pairs = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in _flat(tree))
    return f"<dl>{pairs}</dl>"


def write_whole(file: Path, content: str) -> None:
    """The file is the old one or the whole new one; its folder is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_text(content, encoding="utf-8")
    part.replace(file)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name} ")
        elif value not in (None, {}, [], ""):
            shown = (
                " to ".join(map(str, value))
                if name == "dates"
                else ", ".join(map(str, value))
                if isinstance(value, list)
                else value
            )
            yield f"{prefix}{name}".replace("_", " "), str(shown)
