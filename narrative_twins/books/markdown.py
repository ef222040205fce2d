"""Books in Markdown, read as the HTML that it stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from narrative_twins.books.blocks import METADATA, Block, wrap_width
from narrative_twins.books.book import Book
from narrative_twins.books.chapters import book_of_blocks
from narrative_twins.books.html import html_blocks
from narrative_twins.books.markup import parse_html
from narrative_twins.stories.front_matter import split_front_matter

_INLINE = frozenset(
    """
    a abbr b bdo big br cite code del dfn em font i img ins kbd mark q rp rt ruby s samp small span
    strike strong sub sup tt u var wbr
    """.split()
)
_FOOTNOTE = re.compile(r"^\[\^[^\]\s]{1,80}\]:.*(?:\n(?:[ \t]+\S.*|\S.*))*", re.MULTILINE)
_FOOTNOTE_MARK = re.compile(r"\[\^[^\]\s]{1,80}\](?!:)")


def markdown_book(text: str) -> Book:
    """Return the book in Markdown, see `read_book`. Raises `ValueError` without a paragraph."""
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    metadata, title, text = split_front_matter(text)
    # Indented paragraphs of stories are no code.
    parser = MarkdownIt("commonmark", {"breaks": True}).disable("code")
    parser.add_render_rule("html_inline", _inline_tag)
    text = _FOOTNOTE.sub(r'<div class="footnote">\n\g<0>\n</div>\n', text)
    tokens = parser.parse(_FOOTNOTE_MARK.sub(r'<sup class="footnote">\g<0></sup>', text))
    for item, line in zip(tokens, tokens[2:], strict=False):
        if item.type == "list_item_open" and item.info and line.type == "inline":
            # A number may be of a chapter, or a year.
            number = Token("text", "", 0, content=f"{item.info}{item.markup} ")
            line.children = [number, *(line.children or ())]
    html = parser.renderer.render(tokens, parser.options, {})
    width = wrap_width(map(len, text.splitlines(keepends=True)))
    front = Block("paragraph", (metadata,)).left_out(METADATA)
    return book_of_blocks([front, *html_blocks(parse_html(html.encode("utf-8")))], title, width)


def _inline_tag(_: Any, tokens: Sequence[Any], at: int, *__: Any) -> str:
    """Return the tag in the token `at` of a line, escaped unless HTML has such an inline tag."""
    tag: str = tokens[at].content
    name = re.match(r"</?([a-z0-9]+)|<!--", tag, re.IGNORECASE)
    is_known = name and (name[1] or "sup").lower() in _INLINE
    return tag if is_known else tag.replace("<", "&lt;")
