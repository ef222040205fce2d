"""Results as one self-contained HTML page, which also has them as data. All text is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from html import escape

from narrative_twins.plots.printable import one_line, shortened
from narrative_twins.plots.shades import shades
from narrative_twins.plots.style import INK, hex_color
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.highlights import MARK, caption, marked, shown_sentences, window_title
from narrative_twins.stories.headings import find_headings

DATA = "data-result"
"""The attribute of an element of a page that has a result as JSON."""


def to_html(results: Iterable[StorySalience], top: int | None = None) -> Iterator[str]:
    """An HTML page without scripts and external resources, in pieces, one per story. Results are
    read lazily, and `top` limits the sentences of each story as in `to_table`."""
    yield page_head("Narrative salience") + "<h1>Narrative salience</h1>\n"
    for result in results:
        yield section(result, top)
    yield PAGE_END


def section(
    result: StorySalience, top: int | None = None, level: int = 2, between: str = ""
) -> str:
    """One story as HTML: a heading of the given level, the HTML in `between`, a table of the
    sentences, and the result as data, which `show.read_results` reads."""
    colours = {name: shades(result.compared(name)) for name in result.scores}
    stars, shown = (
        {name: marked(result, name) for name in result.scores},
        shown_sentences(result, top),
    )
    meanings = {
        name: OPERATIONS[name].meaning if name in OPERATIONS else "" for name in result.scores
    }
    names = "".join(
        f'<th scope="col" class="name" title="{escape(meaning)}">{escape(name)}</th>'
        for name, meaning in meanings.items()
    )
    # An excerpt of the most salient sentences has no headings.
    headings = _headings(result) if len(shown) == len(result) else {}
    heading = (
        f"<section><h{level}><bdi>{escape(result.name)}</bdi>: {result.extent}</h{level}>{between}"
    )
    parts = [f"{heading}<table><thead><tr><th>#</th>{names}<th>sentence</th></tr></thead>"]
    for w, (lo, hi) in enumerate(result.windows):
        if shown.isdisjoint(range(lo, hi)):
            continue
        parts.append("<tbody>")
        if len(result.windows) > 1:
            span = len(result.scores) + 2
            parts.append(
                f'<tr class="window"><th colspan="{span}">{window_title(w, lo, hi)}</th></tr>'
            )
        for i in (i for i in range(lo, hi) if i in shown):
            parts += [_heading_row(line, len(result.scores)) for line in headings.get(i, ())]
            cells = "".join(
                f'<td class="score" data-name="{escape(name)}"'
                f' style="background:{hex_color(colours[name][i])}">'
                f"{MARK + ' ' if i in stars[name] else ''}{scores[i]:.3f}</td>"
                for name, scores in result.scores.items()
            )
            main = result.primary_operation
            shade = f'style="background:{hex_color(colours[main][i])}"' + (
                ' class="top"' if i in stars[main] else ""
            )
            sentence = escape(one_line(result.sentences[i]))
            parts.append(f'<tr><td>{i + 1}</td>{cells}<td {shade} dir="auto">{sentence}</td></tr>')
        parts.append("</tbody>")
    last = "".join(_heading_row(line, len(result.scores)) for line in headings.get(len(result), ()))
    parts.append(f"<tbody>{last}</tbody>" if last else "")
    return "".join([*parts, f"</table><p>{escape(caption(result))}</p>{_data(result)}</section>\n"])


def _data(result: StorySalience) -> str:
    """A result as data, all of its sentences: not in a script, of which these pages have none."""
    return f'<div hidden {DATA}="{escape(json.dumps(result.to_dict()))}"></div>'


def _headings(result: StorySalience) -> dict[int, list[str]]:
    """The headings of the story that are in no sentence, by the index of the sentence behind
    them."""
    found: dict[int, list[str]] = {}
    for lo, hi in find_headings(result.story.text):
        after = bisect_left(result.spans, (lo, 0))
        if (after == len(result) or hi <= result.spans[after][0]) and (
            not after or result.spans[after - 1][1] <= lo
        ):
            found.setdefault(after, []).append(result.story.text[lo:hi])
    return found


def _heading_row(line: str, operations: int) -> str:
    return (
        f'<tr class="heading"><td></td>{"<td></td>" * operations}<td'
        f' dir="auto">{escape(one_line(line))}</td></tr>'
    )


def page_head(title: str, style: str = "", script: str = "") -> str:
    """The beginning of a page, up to its first heading. Its content security policy forbids
    browsers to load external resources, and to run any script but `script`.

    Args:
        title: any text; it is escaped and shortened.
        style: CSS of this page, added to the common CSS.
        script: the text of the script that the page will contain; none by default.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    run = f"'sha256-{digest}'" if script else "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {run}"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(shortened(title, 120))}</title><style>
{_STYLE}{style}</style></head><body><main>
"""


PAGE_END = "</main></body></html>\n"

_STYLE = f""":root {{ color-scheme: light; }}
body {{ margin: 0; background: #fafafa; color: {hex_color(INK)}; font: 16px/1.5 Georgia, "Times New Roman", serif; }}
main {{ max-width: 68rem; margin: 0 auto; padding: 1rem; }}
h1, h2, th, .score, section p {{ font-family: system-ui, sans-serif; }}
h1, h2 {{ overflow-wrap: anywhere; }} h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.1rem; margin: 2rem 0 .5rem; }}
table {{ width: 100%; border-collapse: collapse; background: #fff; }}
th, td {{ padding: .3rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #e4e4e8; }}
th {{ font-size: .8rem; }} td {{ overflow-wrap: anywhere; }}
.score {{ font-size: .85rem; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
.name {{ text-align: right; }} td:first-child {{ overflow-wrap: normal; }}
.window th {{ background: #ececf1; }}
.heading td {{ color: #55555f; font-style: italic; }}
.top {{ font-weight: bold; }}
section p {{ font-size: .8rem; color: #55555f; }}
@media (max-width: 48rem) {{
  thead {{ display: none; }}
  tr {{ display: flex; flex-wrap: wrap; border-bottom: 1px solid #c8c8d0; }}
  td, th {{ border: 0; }} td:first-child, td:last-child, .window th {{ flex: 1 1 100%; box-sizing: border-box; }}
  td:first-child {{ padding-bottom: 0; font-size: .8rem; }}
  .score {{ flex: 1 1 40%; order: 2; text-align: left; font-size: .75rem; }}
  .score::before {{ content: attr(data-name) " "; }}
}}
"""
