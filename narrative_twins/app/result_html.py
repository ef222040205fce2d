"""Results as HTML for the page: what the reader of `show` makes of them, and what to do next."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from narrative_twins.books.result import BookSalience
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.formats import FORMATS, book_formats
from narrative_twins.show.pages import book_reading, story_reading, templates
from narrative_twins.stories.language import is_other_language


def part(name: str, *values: Any) -> str:
    """Return the HTML that the macro `name` of `parts.html` makes of `values`, escaping them."""
    macro = getattr(templates("narrative_twins.app").get_template("parts.html").module, name)
    return str(macro(*values))


def reading(
    result: StorySalience | BookSalience, key: str, encoder_is_english: bool = False
) -> str:
    """Return a result as HTML, with links to download it by its key, and a warning if the text is
    not English but the encoder is."""
    is_book = isinstance(result, BookSalience)
    texts = result.sentences.texts if isinstance(result, BookSalience) else result.sentences
    is_foreign = encoder_is_english and is_other_language(texts)
    warning = part("not_english") if is_foreign else ""
    if isinstance(result, BookSalience):
        html = book_reading(result)
    else:
        html = story_reading(result, title="Your story", is_advised=not is_foreign)
    return warning + str(html) + part("next_steps", key, downloads(result), is_book)


def downloads(result: StorySalience | BookSalience) -> list[str]:
    """Return the names of the installed formats in which a result can be downloaded."""
    names = []
    for name in book_formats() if isinstance(result, BookSalience) else FORMATS:
        with suppress(ImportError):
            FORMATS[name].check()
            names += [name] if FORMATS[name].download else []
    return names
