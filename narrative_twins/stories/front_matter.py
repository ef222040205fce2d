"""Front matter: metadata in YAML or TOML at the beginning of a text file."""

from __future__ import annotations

import re
from typing import NamedTuple

_LONGEST = 20_000  # characters
_FORMS = {
    "---": (
        # "title: The Salt Road", items of lists, values on lines of their own, comments
        re.compile(
            r"[A-Za-z_][\w.-]*[ \t]*:(?:[ \t].*)?|[ \t]+\S.*|[-\]}](?:[ \t,].*)?|#.*|[ \t]*"
        ),
        re.compile(r"^(?:[a-z_][\w.-]*|(?i:title|author|date|language))[ \t]*:", re.MULTILINE),
    ),
    "+++": (
        re.compile(r"[\w.\"'-]+[ \t]*=.*|\[.*|[ \t]+\S.*|[\]}\"'].*|#.*|[ \t]*"),
        re.compile(r"^[\w.\"'-]+[ \t]*=", re.MULTILINE),
    ),
}
"""By the mark: the form of all lines, and what one of them begins with."""
_TITLE = re.compile(
    r"^title[ \t]*[:=][ \t]*(?P<mark>[\"']?)(?P<title>.*\S)(?P=mark)[ \t]*$", re.M | re.I
)


class FrontMatter(NamedTuple):
    """The beginning of a text file: its metadata as `text`, empty without any, the `title` in it,
    None without one, and the rest of the file, which is the story."""

    text: str
    title: str | None
    story: str


def split_front_matter(text: str) -> FrontMatter:
    """Divide a text, with line feeds, into front matter and story. Front matter is between lines
    `---` in YAML, which may also end in `...`, or between lines `+++` in TOML, as in Markdown of
    Jekyll, Hugo and Pandoc. Between other lines of marks is text of the story."""
    lines = text[:_LONGEST].lstrip("\n").split("\n")
    mark = lines[0].rstrip()
    if mark not in _FORMS:
        return FrontMatter("", None, text)
    ends = (mark, "...") if mark == "---" else (mark,)
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() in ends), 0)
    form, key = _FORMS[mark]
    fields = "\n".join(lines[1:end])
    if not key.search(fields) or not all(map(form.fullmatch, lines[1:end])):
        return FrontMatter("", None, text)
    title = _TITLE.search(fields)
    front = "\n".join(lines[: end + 1])
    story = text.lstrip("\n")[len(front) :].lstrip("\n")
    return FrontMatter(front, title["title"] if title else None, story)
