"""Salience to look at: a table for the terminal, one self-contained page of HTML. Every text is data: it is escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from html import escape

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.style import Style
from rich.table import Table
from rich.text import Text

from narrative_twins.operations import OPERATIONS
from narrative_twins.result import StorySalience

INK = (0x1B, 0x1B, 0x1F)
PALE = (0xFF, 0xFF, 0xFF)
STRONG = (0xF2, 0x9E, 0x4C)
"""Text colour, and the shades of the least and the most salient sentence; ink on any shade between has a contrast of at
least 7.5 to 1."""

MARK = "★"
BARS = "▁▂▃▄▅▆▇█"


def marked(result: StorySalience, operation: str) -> set[int]:
    """The sentences that stand out by an operation: the most salient fifth, at least one."""
    return {one.index for one in result.top(max(1, round(len(result) / 5)), operation)}


def shares(scores: list[float]) -> NDArray[np.float64]:
    """Where each score lies between the lowest of the story, 0, and the highest, 1; all 0 where they are equal."""
    values = np.asarray(scores, np.float64)
    spread = np.ptp(values)
    return (values - values.min()) / spread if spread > 0 else np.zeros_like(values)


def shades(scores: list[float]) -> list[tuple[int, int, int]]:
    """A colour for each score, from the lowest of the story to the highest."""
    share = shares(scores)
    colours = np.outer(1 - share, PALE) + np.outer(share, STRONG)
    return [(int(red), int(green), int(blue)) for red, green, blue in np.rint(colours)]


def cautions(result: StorySalience) -> list[str]:
    """What to know before trusting the scores of a story, in sentences: that they are approximate, that it was cut."""
    found = []
    if result.approximate is not None:
        found.append(f"The scores are approximate ({result.approximate}).")
    if result.truncated:
        found.append(
            f"The story was cut: it does not fit the encoder's context of {result.context_tokens} tokens, and up to "
            f"{result.cut_tokens} of its tokens were not read together with a window."
        )
    return found


def to_table(result: StorySalience, top: int | None = None) -> Table:
    """A `rich` table of a story: a row a sentence, a column an operation, windows apart and named. Readable on dark and
    light terminals and without colour: bars grow with salience, the most salient scores have a star on a coloured
    ground, and by the lead operation the most salient sentences are bold, the lower half dim.

    Args:
        result: what `score_stories` gave.
        top: show only so many sentences, the most salient by the lead operation, in story order.
    """
    table = Table(title=_title(result), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, expand=True)
    table.caption, table.caption_justify, table.padding, table.pad_edge = _caption(result), "left", (0, 1, 0, 0), False
    table.add_column("#", justify="right", no_wrap=True)
    for name in result.scores:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("sentence", ratio=1)
    stars, shown = {name: marked(result, name) for name in result.scores}, _shown(result, top)
    bars = {name: [BARS[round(share * 7)] for share in shares(scores)] for name, scores in result.scores.items()}
    lower_half = {i for i, rank in enumerate(result.rank()) if rank > (len(result) + 1) / 2}
    for w, (lo, hi) in enumerate(result.windows):
        if shown.isdisjoint(range(lo, hi)):
            continue
        if len(result.windows) > 1:
            table.add_row(*[""] * (len(result.scores) + 1), Text(_window(w, lo, hi), Style(dim=True, italic=True)))
        for i in (i for i in range(lo, hi) if i in shown):
            row = [Text(str(i + 1))]
            for name, scores in result.scores.items():
                starred = i in stars[name]
                style = Style(bold=True, color=_hex(INK), bgcolor=_hex(STRONG)) if starred else Style.null()
                row.append(Text(f"{MARK if starred else ' '} {scores[i]:.3f} {bars[name][i]}", style))
            row.append(Text(_line(result, i), Style(bold=i in stars[result.lead], dim=i in lower_half)))
            table.add_row(*row)
        table.add_section()
    return table


def to_html(results: Iterable[StorySalience], top: int | None = None) -> Iterator[str]:
    """A page of HTML in pieces, one a story: no script, nothing from elsewhere.

    Args:
        results: what `score_stories` gave; read lazily.
        top: show only so many sentences of each story, as in `to_table`.
    """
    yield _HEAD
    for result in results:
        yield _section(result, top)
    yield "</main></body></html>\n"


def _section(result: StorySalience, top: int | None) -> str:
    """One story as HTML."""
    colours = {name: shades(scores) for name, scores in result.scores.items()}
    stars, shown = {name: marked(result, name) for name in result.scores}, _shown(result, top)
    meanings = {name: OPERATIONS[name].meaning if name in OPERATIONS else "" for name in result.scores}
    names = "".join(
        f'<th scope="col" class="name" title="{escape(meaning)}">{escape(name)}</th>'
        for name, meaning in meanings.items()
    )
    parts = [
        f"<section><h2>{escape(_title(result))}</h2><table><thead><tr><th>#</th>{names}<th>sentence</th></tr></thead>"
    ]
    for w, (lo, hi) in enumerate(result.windows):
        if shown.isdisjoint(range(lo, hi)):
            continue
        parts.append("<tbody>")
        if len(result.windows) > 1:
            span = len(result.scores) + 2
            parts.append(f'<tr class="window"><th colspan="{span}">{_window(w, lo, hi)}</th></tr>')
        for i in (i for i in range(lo, hi) if i in shown):
            cells = "".join(
                f'<td class="score" data-name="{escape(name)}" style="background:{_hex(colours[name][i])}">'
                f"{MARK + ' ' if i in stars[name] else ''}{scores[i]:.3f}</td>"
                for name, scores in result.scores.items()
            )
            lead = result.lead
            shade = f'style="background:{_hex(colours[lead][i])}"' + (' class="top"' if i in stars[lead] else "")
            parts.append(f"<tr><td>{i + 1}</td>{cells}<td {shade}>{escape(_line(result, i))}</td></tr>")
        parts.append("</tbody>")
    return "".join([*parts, f"</table><p>{escape(_caption(result))}</p></section>\n"])


def _shown(result: StorySalience, top: int | None) -> set[int]:
    """The sentences that are shown."""
    return set(range(len(result))) if top is None else {one.index for one in result.top(top)}


def _window(w: int, lo: int, hi: int) -> str:
    return f"window {w + 1}: sentences {lo + 1} to {hi}"


def _title(result: StorySalience) -> str:
    name = f"story {result.index + 1}" if result.story.id is None else _printable(str(result.story.id))
    sentences, windows = len(result), len(result.windows)
    return f"{name}: {sentences} sentence{'s' * (sentences > 1)}, {windows} window{'s' * (windows > 1)}"


def _caption(result: StorySalience) -> str:
    text = (
        f"{MARK} the most salient fifth by each operation; bars and shades go from the lowest score of the story to "
        f"the highest; sentences stand out by {result.lead}."
    )
    return " ".join([text, *cautions(result)])


def _line(result: StorySalience, i: int) -> str:
    """A sentence in one line."""
    return _printable(" ".join(result.sentences[i].split()))


def _printable(text: str) -> str:
    """Text without control characters, which would steer a terminal and are no part of HTML. What joins letters or
    turns their direction belongs to the text."""
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) == "Cc" else char for char in text)


def _hex(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


_HEAD = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Narrative salience</title><style>
:root {{ color-scheme: light; }}
body {{ margin: 0; background: #fafafa; color: {_hex(INK)}; font: 16px/1.5 Georgia, "Times New Roman", serif; }}
main {{ max-width: 68rem; margin: 0 auto; padding: 1rem; }}
h1, h2, th, .score, section p {{ font-family: system-ui, sans-serif; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.1rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }}
table {{ width: 100%; border-collapse: collapse; background: #fff; }}
th, td {{ padding: .3rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #e4e4e8; }}
th {{ font-size: .8rem; }} td {{ overflow-wrap: anywhere; }}
.score {{ font-size: .85rem; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
.name {{ text-align: right; }} td:first-child {{ overflow-wrap: normal; }}
.window th {{ background: #ececf1; }} .top {{ font-weight: bold; }}
section p {{ font-size: .8rem; color: #55555f; }}
@media (max-width: 48rem) {{
  thead {{ display: none; }}
  tr {{ display: flex; flex-wrap: wrap; border-bottom: 1px solid #c8c8d0; }}
  td, th {{ border: 0; }} td:first-child, td:last-child, .window th {{ flex: 1 1 100%; box-sizing: border-box; }}
  td:first-child {{ padding-bottom: 0; font-size: .8rem; }}
  .score {{ flex: 1 1 40%; order: 2; text-align: left; font-size: .75rem; }}
  .score::before {{ content: attr(data-name) " "; }}
}}
</style></head><body><main><h1>Narrative salience</h1>
"""
