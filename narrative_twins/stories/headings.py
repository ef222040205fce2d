"""Headings in raw text, which are no sentences of the story.

A heading that is taken for a sentence costs a score; a sentence that is taken for a heading is
lost. So every rule asks for a line of its own that has one of a few forms, and a line of which none
is certain stays a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from narrative_twins.stories.windows import Span

MAX_LENGTH = 100
"""Characters of the longest heading."""
UNKNOWN = 3
"""The level of headings of no known form, such as titles behind a number."""

_ROMAN = r"(?=[IVXLC])(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ONES = "one two three four five six seven eight nine"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth last"
_SPELLED = (
    rf"(?i:(?:{'|'.join(_TENS.split())})(?:[- ](?:{'|'.join(_ONES.split())}))?|"
    rf"{'|'.join((_TEENS + ' ' + _ONES).split())}|the (?:{'|'.join(_ORDINALS.split())}))"
)
_PARTS = (
    "Chapter Part Book Act Scene Canto Stave Volume Letter Kapitel Teil Akt Szene Buch Chapitre"
    " Partie Acte Livre Capítulo Parte Acto Libro Capitolo Atto Hoofdstuk Deel Глава Часть"
).split()
_PART = rf"(?:{'|'.join(sorted({form for part in _PARTS for form in (part, part.upper())}))})"
_WHOLE = (
    "Prologue Epilogue Foreword Afterword Preface Interlude Prolog Epilog Vorwort Nachwort Épilogue"
    " Prólogo Epílogo"
)
_WHOLE += " Пролог Эпилог"

# "Chapter 1", "PART TWO.", "Act III: The Storm", "CHAPTER IV. The Storm", "Chapter 5 - What the sea
# left"
_NUMBERED = re.compile(
    rf"{_PART}"
    rf" (?:\d{{1,4}}|{_ROMAN}|{_SPELLED})\b(?P<mark>\.|\s*[:—–]|\s+-(?=\s)|)(?:\s+(?P<title>.+))?"
)
_NAMED = re.compile(
    rf"(?:{'|'.join(form for name in _WHOLE.split() for form in (name, name.upper()))})\.?"
)
_MARKDOWN = re.compile(r"#{1,6}\s+\S.*")
# The slug lines of screenplays: "INT. HOUSE - DAY", "12 EXT. ROCKS - NIGHT 12"
_SLUG = re.compile(
    r"(?:\d+[A-Z]?\.? +)?(?:INT\.?\s?/\s?EXT|EXT\.?\s?/\s?INT|INT|EXT|I/E)\. ?(?P<place>.*\w.*)"
)
_BARE_NUMBER = re.compile(rf"(?P<roman>{_ROMAN})\.?|(?P<digits>\d{{1,3}})\.?")
_UPPER_PART = re.compile(
    r"(?:Part|Book|Act|Volume|Teil|Akt|Buch|Partie|Acte|Livre|Parte|Acto|Libro|Atto|Deel|Часть)\b",
    re.IGNORECASE,
)
_CLOSED = re.compile(r"[.!?…:;—–\"'’”»“«)\]*_=~-]\s*$")
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


class _Line(NamedTuple):
    """A line without the white space around it, its span, and whether the lines before and after it
    are blank."""

    text: str
    start: int
    opens: bool
    closes: bool


def find_headings(text: str) -> list[Span]:
    """The character spans of the headings in a text, in order.

    - `Chapter 1`, `CHAPTER IV. The Storm`, `Part Two: Home`, `Act I`, and the same in some other
      languages; `Prologue`, `Epilogue` and the like. The line before ends a sentence or is blank,
      and the next does not continue this one. A title ends without a full stop. One in the
      paragraph behind is a heading too, if all its main words have capitals.
    - `INT. HOUSE - DAY`, the slug lines of screenplays, in capital letters.
    - `# Title` of Markdown.
    - `I`, `II`, `III` or `1.`, `2.`, `3.`, in paragraphs of their own, if they count from 1 without
      a gap.
    """
    lines = list(_lines(text))
    found: list[_Line] = []
    for at, line in enumerate(lines):
        if len(line.text) > MAX_LENGTH:
            continue
        before, after = (
            lines[at - 1] if at else None,
            (lines[at + 1] if at + 1 < len(lines) else None),
        )
        is_apart = (
            line.opens
            or before is None
            or before in found[-1:]
            or bool(_CLOSED.search(before.text))
        ) and (line.closes or after is None or not after.text[:1].islower())
        follows = before is not None and before in found[-1:] and _lacks_title(before.text)
        if _MARKDOWN.fullmatch(line.text) or (is_apart and _is_heading(line.text)):
            found.append(line)
        elif (
            follows
            and line.closes
            and after is not None
            and " " in line.text
            and _is_title(line.text)
        ):
            found.append(line)
    return sorted(
        {(line.start, line.start + len(line.text)) for line in [*found, *_counted(lines)]}
    )


def heading_level(heading: str) -> int:
    """How deep a heading of `find_headings` is: 1 for a part or an act, 2 for a chapter or a scene,
    3 for a title in the line behind such a number; of Markdown the number of its `#`."""
    if heading.startswith("#"):
        return len(heading) - len(heading.lstrip("#"))
    if not _is_heading(heading) and not _BARE_NUMBER.fullmatch(heading):
        return UNKNOWN
    return 1 if _UPPER_PART.match(heading.strip("*_ ")) else 2


def _lines(text: str) -> Iterator[_Line]:
    """The lines of a text that are not blank."""
    lines, position = [], 0
    for line in re.split(r"(?<=\n)", text):
        lines.append((line.strip(), position + len(line) - len(line.lstrip())))
        position += len(line)
    blank = [True, *(not line for line, _ in lines), True]
    for at, (line, start) in enumerate(lines):
        if line:
            yield _Line(line, start, blank[at], blank[at + 2])


def _is_heading(line: str) -> bool:
    line = line.strip("*_ ")  # bold or italic in Markdown and in plain text
    if _NAMED.fullmatch(line):
        return True
    slug = _SLUG.fullmatch(line)
    if slug is not None and line == line.upper():
        return True
    numbered = _NUMBERED.fullmatch(line)
    if numbered is None:
        return False
    title = numbered["title"]
    if title is None:
        return True
    # "Part two was harder" and "Part 2. It was harder." are sentences.
    is_free = numbered["mark"].strip() or line.split()[0].isupper()
    return _is_title(title) or bool(
        is_free and title[0].isupper() and not re.search(r"[.!?…;,:\"”»]$|[.!?…] ", title)
    )


def _lacks_title(line: str) -> bool:
    """Whether a heading is only a number, so that its title may come in the next line or
    paragraph."""
    numbered = _NUMBERED.fullmatch(line.strip("*_ "))
    return numbered is not None and numbered["title"] is None


def _is_title(line: str) -> bool:
    """Whether a line is a title: few words, of which the main ones have capitals, and no mark at
    the end."""
    words = line.strip("*_ ").split()
    main = [word for word in words if len(word) > 3] or words
    starts = [word.lstrip("\"'“‘«([")[:1] for word in (words[0], *main)]
    return (
        len(words) <= 12
        and all(start.isupper() or start.isdigit() for start in starts)
        and not _CLOSED.search(line)
    )


def _counted(lines: list[_Line]) -> list[_Line]:
    """Paragraphs that are numbers only and count from 1: 1, 2, 3 ... or I, II, III ..."""
    runs: dict[str, list[_Line]] = {"roman": [], "digits": []}
    for line in lines:
        number = _BARE_NUMBER.fullmatch(line.text) if line.opens and line.closes else None
        if number is not None:
            kind = "roman" if number["roman"] else "digits"
            value = _roman_value(number["roman"]) if number["roman"] else int(number["digits"])
            if value == len(runs[kind]) + 1:
                runs[kind].append(line)
    return [line for run in runs.values() if len(run) > 1 for line in run]


def _roman_value(number: str) -> int:
    values = [_VALUES[letter] for letter in number]
    return sum(
        -value if value < after else value
        for value, after in zip(values, [*values[1:], 0], strict=True)
    )
