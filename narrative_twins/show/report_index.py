"""The index of a report: a complete list of stories without JavaScript, which JavaScript can search
and sort."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from narrative_twins.show.html import PAGE_END, page_head


def index_page(rows: Iterable[Mapping[str, Any]], count: int, left_out: int = 0) -> Iterator[str]:
    """The index page in pieces, one per story.

    Args:
        rows: for each story its `page`, `name`, number of `sentences`, `first` words, whether it is
            `truncated`, and its `top` sentence.
        count, left_out: the number of rows, and of stories that could not be scored.
    """
    number = f"{count} stor{'y' if count == 1 else 'ies'}"
    failed = f" {left_out} more could not be scored." if left_out else ""
    yield page_head("Narrative salience", _STYLE, _SCRIPT)
    yield (
        f"<h1>Narrative salience</h1>\n<p>{number}, in the order of the"
        f" input.{failed}</p>\n{_TOOLS}"
    )
    heads = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    yield f'<table class="index"><thead><tr>{heads}</tr></thead><tbody>\n'
    for position, row in enumerate(rows, start=1):
        yield (
            f'<tr><td class="position">{position}</td><th scope="row"><a'
            f' href="stories/{escape(row["page"])}"><bdi>{escape(row["name"])}</bdi></a></th><td'
            f' class="number" data-name="sentences">{row["sentences"]}</td><td'
            f' data-name="begins"><bdi>{escape(row["first"])}</bdi></td><td'
            f' data-name="truncated">{"truncated" if row["truncated"] else ""}</td><td'
            f' data-name="top"><bdi>{escape(row["top"])}</bdi></td></tr>\n'
        )
    yield f"</tbody></table>\n<script>{_SCRIPT}</script>{PAGE_END}"


_COLUMNS = ("#", "story", "sentences", "first words", "truncated", "top sentence")

_TOOLS = """<div class="tools" hidden>
<label>Search <input type="search" id="search" autocomplete="off"></label>
<label>Sort by <select id="order" autocomplete="off">
<option value="position">order of the input</option>
<option value="name">name</option>
<option value="most">sentences, most first</option>
<option value="fewest">sentences, fewest first</option>
<option value="first">first words</option>
<option value="truncated">truncated first</option>
<option value="top">top sentence</option>
</select></label>
<output id="shown" for="search"></output>
</div>
"""

_SCRIPT = """
(() => {
  const body = document.querySelector("tbody"), rows = [...body.rows];
  const [tools, search, order, shown] = [".tools", "#search", "#order", "#shown"].map(
    name => document.querySelector(name));
  const cell = (row, column) => row.cells[column].textContent;
  const texts = rows.map(row => [1, 3, 4, 5].map(column => cell(row, column)).join(" ").toLowerCase());
  const {compare} = new Intl.Collator(undefined, {numeric: true});
  const by = (column, sign = 1) => (a, b) => sign * compare(cell(a, column), cell(b, column));
  const orders = {position: by(0), name: by(1), most: by(2, -1), fewest: by(2), first: by(3), truncated: by(4, -1),
    top: by(5)};
  const find = () => {
    const words = search.value.toLowerCase().split(/\\s+/);
    let count = 0;
    rows.forEach((row, i) => { count += !(row.hidden = !words.every(word => texts[i].includes(word))); });
    shown.textContent = `${count} of ${rows.length} shown`;
  };
  search.addEventListener("input", find);
  order.addEventListener("change", () => body.append(...[...rows].sort(orders[order.value])));
  tools.hidden = false;
  find();
})();
"""

_STYLE = """[hidden] { display: none !important; }
h1 + p, .tools { font-family: system-ui, sans-serif; font-size: .9rem; }
.tools { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center; margin: 1rem 0; }
.tools input, .tools select { font: inherit; padding: .3rem; max-width: 100%; box-sizing: border-box; }
.index th[scope=row] { font-size: 1rem; min-width: 10rem; overflow-wrap: anywhere; } .number { text-align: right; }
.index td { font-size: .9rem; } .position { color: #55555f; }
@media (max-width: 48rem) {
  .index tr { display: block; padding: .5rem 0; } .index td, .index th { display: block; padding: .1rem .6rem; }
  .index td { text-align: left; } .index td[data-name]:not(:empty)::before { content: attr(data-name) ": "; }
  .index td[data-name=truncated]::before { content: none !important; } .index .position { display: none; }
}
"""
