"""The layout of the part of the web page that scores books, in gradio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narrative_twins.app.book_page import SHARE, BookPage
from narrative_twins.app.page import METHODS, ONE_PASS, Parts, Visitor
from narrative_twins.app.parts import handler, html, set_busy
from narrative_twins.app.requests import MAX_BOOK, MAX_SENTENCES, book_suffixes
from narrative_twins.salience.books.units import LEVELS

_OPEN = """<div class="ways"><label>Open a book<input type="file" accept="{suffixes}" data-limit="{limit}"></label>
</div>
<p class="name" role="status"></p><p class="problem" role="alert"></p>"""
_HINT = """<p class="hint">EPUB, Word (docx), HTML, Markdown or plain text, up to {size} MB and {sentences:,} sentences.
The file is read in memory and not kept. A novel takes minutes in one pass, and hours exactly.</p>"""


def book_input(gr: Any) -> dict[str, Any]:
    """The book and its settings, by name."""
    _open = _OPEN.format(suffixes=",".join(book_suffixes()), limit=MAX_BOOK)
    html(gr, _open, elem_id="open-book")
    # The browser puts the file here; it is hidden by the style sheet.
    parts = {"book": gr.Textbox(label="Book", elem_id="book", lines=2, max_lines=2)}
    with gr.Row():
        parts["score"] = gr.Button("Score", variant="primary", elem_id="score-book")
        parts["cancel"] = gr.Button("Cancel", visible=False, elem_id="cancel-book")
    parts["status"] = html(gr, elem_id="book-status")
    parts["levels"] = gr.CheckboxGroup(
        list(LEVELS), value=list(LEVELS), label="Levels", elem_id="levels"
    )
    parts["method"] = gr.Radio(
        list(METHODS),
        value=ONE_PASS,
        label="Scores of sentences",
        info="One pass is fast but approximate.",
    )
    html(gr, _HINT.format(size=MAX_BOOK // 1_000_000, sentences=MAX_SENTENCES))
    return parts


def book_results(gr: Any) -> dict[str, Any]:
    """The results of a book, by name."""
    parts = {"token": gr.State("")}
    with gr.Column(visible=False, elem_id="book-results") as results:
        parts["downloads"] = html(gr)
        parts["contents"] = html(gr, elem_id="contents")
        parts["share"] = gr.Slider(
            1,
            50,
            SHARE,
            step=1,
            label="Extract (%)",
            info="of the sentences, in their order",
            elem_id="share",
            buttons=[],
        )
        parts["extract"] = html(gr, elem_id="book-extract")
    return parts | {"results": results}


def connect_book_events(gr: Any, page: BookPage, parts: dict[str, Any], others: list[Any]) -> None:
    """Connect the parts for books to `page`; `others` are hidden when there are results."""

    def update(changes: Parts) -> dict[Any, Any]:
        updates = dict(changes)
        set_busy(gr, updates)
        found = {parts[name]: value for name, value in updates.items()}
        if "contents" in updates:
            found |= {parts["results"]: gr.update(visible=True)} | {
                other: gr.update(visible=False) for other in others
            }
        return found

    def score(visitor: Visitor, *inputs: Any) -> Iterator[dict[Any, Any]]:
        yield from map(update, page.score(visitor, *inputs))

    def extract(*inputs: Any) -> dict[Any, Any]:
        return update(page.extract(*inputs))

    options = {"show_progress": "hidden", "api_visibility": "private"}
    inputs = [parts[name] for name in ("book", "levels", "method")]
    outputs = [part for part in parts.values() if part not in inputs] + others
    # gradio has no limit here, since `ScoringQueue` scores one book at a time.
    parts["score"].click(
        handler(gr, score), inputs, outputs, concurrency_limit=None, trigger_mode="once", **options
    )
    parts["cancel"].click(handler(gr, page.page.cancel), **options)
    chosen, shown = [parts["token"], parts["share"]], [parts["extract"], parts["status"]]
    parts["share"].input(extract, chosen, shown, trigger_mode="always_last", **options)
