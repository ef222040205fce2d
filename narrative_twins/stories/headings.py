"""Headings in a text, which are not sentences of the story.

A heading that is taken for a sentence gets a score; a sentence that is taken for a heading is lost,
which is worse. So every rule asks for a line of its own in one of a few forms; in doubt, a line is
a sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from narrative_twins.stories.sentences import Span

MAX_LENGTH = 100
"""Characters of the longest heading."""
UNKNOWN = 3
"""The level of headings of no known form, such as titles after a number."""

_ROMAN = r"(?=[IVXLC])C{0,3}(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ONES = "one two three four five six seven eight nine"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth last"
_SPELLED = (
    rf"(?i:(?:{'|'.join(_TENS.split())})(?:[- ](?:{'|'.join(_ONES.split())}))?|"
    rf"{'|'.join((_TEENS + ' ' + _ONES).split())}|the (?:{'|'.join(_ORDINALS.split())})|[1I]er|"
    r"eins|zwei|drei|vier|fünf|premi(?:er|ère)|prim(?:er|eir)?[oa]|deuxième|second[oae]|первая)"
)
# "The First Act", "Zweites Kapitel", "Première partie", "3. Kapitel"
_ORDINAL = (
    rf"(?i:(?:the )?(?:{'|'.join(_ORDINALS.split())})|(?:erst|zweit|dritt|viert|fünft|sechst|"
    r"sieb(?:en)?t|acht|neunt|zehnt|letzt)e[rs]?|\w{3,9}ième|premi(?:er|ère)|primera?|\d{1,3}\.)"
)
_PARTS = (
    "Chapter Chap. Part Book Act Scene Canto Epoch Stave Volume Letter Kapitel Teil Akt Szene Buch"
    " Chapitre Partie Acte Livre Capítulo Parte Acto Libro Capitolo Atto Hoofdstuk Deel Kapittel"
    " Rozdział Kapitola Luku Bölüm Глава Часть Розділ Κεφάλαιο"
).split()
_PART = "|".join(sorted({re.escape(form) for part in _PARTS for form in (part, part.upper())}))
_WHOLE = (
    "Prologue Epilogue Foreword Afterword Preface Interlude Prolog Epilog Vorwort Nachwort Épilogue"
    " Prólogo Epílogo"
)
_WHOLE += " Пролог Эпилог"

# "Chapter 1", "PART TWO.", "Act III: The Storm", "CHAPTER IV. The Storm", "Chapter 5 - What the sea
# left"
_NUMBERED = re.compile(
    rf"(?:(?:{_PART}) (?:\d{{1,4}}[a-z]?|{_ROMAN}|{_SPELLED})|{_ORDINAL} (?i:{_PART}))(?!\w)"
    rf"(?P<mark>\.|\s*[:—–]|\s+-(?=\s)|)(?:(?:\s+|(?<=[:—–]))(?P<title>\S.*))?"
)
_NAMED = re.compile(
    rf"(?:{'|'.join(form for name in _WHOLE.split() for form in (name, name.upper()))})\.?|"
    r"(?:第\s?[\d〇零一二三四五六七八九十百千两]{1,7}\s?[章回节節話话部卷幕]|제?\s?\d{1,4}\s?[장화회부])"
    r"(?:[\s.:：　].{0,60}[^\s.!?。！？]|\.?)"
)
_MARKDOWN = re.compile(r"#{1,6}\s+\S.*")
# The slug lines of screenplays: "INT. HOUSE - DAY", "12 EXT. ROCKS - NIGHT 12"
_SLUG = re.compile(
    r"(?:\d+[A-Z]?\.? +)?(?:INT\.?\s?/\s?EXT|EXT\.?\s?/\s?INT|INT|EXT|I/E)\. ?(?P<place>.*\w.*)"
)
# "IV", "12.", "4. The Black Gull", which are headings if others count with them.
_COUNTED = re.compile(
    rf"(?P<number>{_ROMAN}|\d{{1,3}})(?:\.?|(?:[.:)]|(?=\s+[—–-]\s))[\s—–-]+(?P<title>\S.*))"
)
_UPPER_PART = re.compile(
    r"(?:Part|Book|Act|Epoch|Volume|Teil|Akt|Buch|Partie|Acte|Livre|Parte|Acto|Libro|Atto|Deel|"
    r"Часть)\b",
    re.IGNORECASE,
)
_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_CAPITALS = re.compile(r"[^\W\d_][^\"“”«»!?:;…]*[^\W\d_]{2}[^\"“”«»!?:;…]*")
_FEWEST = 3  # titles, or lines in capitals, that are no chance
_PROSE = 200  # characters after lines in capitals that are headings
_CLOSED_LINE = re.compile(r"[.!?…:;—–\"'’”»“«)\]*_=~-]\s*$")


class _Line(NamedTuple):
    """A line of a text: its `text` without white space around it, its offset (`start`), whether the
    line before is blank (`opens`), and whether the line after is blank (`closes`)."""

    text: str
    start: int
    opens: bool
    closes: bool


def find_headings(text: str) -> list[Span]:
    """Return the character spans of the headings in a text, in order.

    - `Chapter 1`, `CHAPTER IV. The Storm`, `Part Two: Home`, `Act I`, and the same in some other
      languages; `Prologue`, `Epilogue` and the like. The line before is blank or ends a sentence,
      and the next line does not continue this one. A title on the same line has no full stop.
    - The paragraph after a number without a title, if all its main words have capitals, or if most
      numbers have such a title. Both may end in a full stop: `CHAPTER I.`, `The Old Mint.`
    - `INT. HOUSE - DAY`, the slug lines of screenplays, in capital letters.
    - `THE BARN`, paragraphs of one line in capitals, if several have prose after them and the text
      has no other headings than `Prologue` and the like.
    - `# Title` of Markdown.
    - `I`, `II`, `III` or `1.`, `2.`, `3.`, in paragraphs of their own, if they count from 1 without
      a gap. With titles, such as `4. The Black Gull`, they may begin with any number, and one that
      begins the text may be the only one.
    """
    lines = list(_lines(text))
    headings = _headings(lines, _counted(lines))
    if all(_NAMED.fullmatch(heading.text) for heading in headings):
        headings = _headings(lines, _in_capitals(lines))
    return [(line.start, line.start + len(line.text)) for line in headings]


def regions_between_headings(text: str) -> list[Span]:
    """Return the spans of a text between its headings; the complete text is the only span if it has
    nothing but headings."""
    edges = [0, *(edge for heading in find_headings(text) for edge in heading), len(text)]
    regions = [
        (lo, hi)
        for lo, hi in zip(edges[::2], edges[1::2], strict=True)
        if any(map(str.isalnum, text[lo:hi]))
    ]
    return regions or [(0, len(text))]


def _headings(
    lines: Sequence[_Line], certain: Sequence[_Line], are_titled: bool = False
) -> list[_Line]:
    """Return the headings among the lines of a text: the `certain` ones, lines in the form of a
    heading, and titles in the paragraph after a number. If `are_titled`, any paragraph after a
    number is a title; the function calls itself in this way if most numbers have titles."""
    starts = {line.start for line in certain}
    headings: list[_Line] = []
    numbers = titles = 0
    edge = _Line("", 0, True, True)
    for before, line, after in zip([edge, *lines], lines, [*lines[1:], edge], strict=False):
        if len(line.text) > MAX_LENGTH:
            continue
        follows = before in headings[-1:]
        begins = line.opens or follows or bool(_CLOSED_LINE.search(before.text))
        is_apart = begins and (line.closes or not after.text[:1].islower())
        has_form = (is_apart and _is_heading(line.text)) or _MARKDOWN.fullmatch(line.text)
        if line.start in starts or has_form:
            headings.append(line)
        elif follows and _lacks_title(before.text):
            title = line.text.rstrip(".") if before.text.endswith(".") else line.text
            is_first = line.closes and after is not edge and line.text[0].isalnum()
            is_title = is_first and (are_titled or (" " in title and _is_title(title)))
            headings += [line] * is_title
            numbers, titles = numbers + 1, titles + is_title
    if not are_titled and titles >= _FEWEST and titles * 2 >= numbers:
        return _headings(lines, certain, True)
    return headings


def heading_level(heading: str) -> int:
    """Return the depth of a heading of `find_headings`: 1 for a part or an act, 2 for a chapter or
    a scene, `UNKNOWN` for any other line, such as a title. In Markdown it is the number of `#`."""
    if heading.startswith("#"):
        return len(heading) - len(heading.lstrip("#"))
    if not _is_heading(heading) and not _COUNTED.fullmatch(heading):
        return UNKNOWN
    return 1 if _UPPER_PART.match(_plain(heading)) else 2


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines of a text that are not blank."""
    lines, position = [], 0
    for line in re.split(r"(?<=\n)", text):
        lines.append((line.strip(), position + len(line) - len(line.lstrip())))
        position += len(line)
    blank = [True, *(not line for line, _ in lines), True]
    for at, (line, start) in enumerate(lines):
        if line:
            yield _Line(line, start, blank[at], blank[at + 2])


def _plain(line: str) -> str:
    """Return a line without brackets or marks of emphasis around it, and with single spaces."""
    return " ".join(line.strip("*_[] ").split())


def _is_heading(line: str) -> bool:
    """Return whether a line has the form of a heading, such as `Chapter 1` or `Prologue`."""
    line = _plain(line)
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
    """Return whether a heading is a number without a title, such as `Chapter 1` or `IV`."""
    form = _NUMBERED.fullmatch(_plain(line)) or _COUNTED.fullmatch(line)
    return form is not None and form["title"] is None


def _is_title(line: str) -> bool:
    """Return whether a line looks like a title: few words, capitals, and no mark at the end."""
    words = line.strip("*_ ").split()
    main = [*words[:1], *([word for word in words if len(word) > 3] or words)]
    starts = [word.lstrip("\"'“‘«([")[:1] for word in main]
    return (
        0 < len(words) <= 12
        and all(start.isupper() or start.isdigit() for start in starts)
        and not _CLOSED_LINE.search(line)
    )


def _in_capitals(lines: Sequence[_Line]) -> list[_Line]:
    """Return the lines in capitals, each a paragraph by itself, that are headings. Returns `[]`
    unless several of them have prose after them, and no line recurs, as names do in a play."""
    counts = Counter(line.text for line in lines if line.text.isupper())
    places: list[list[_Line]] = []
    run, prose = list[_Line](), 0  # lines in capitals, and characters after them
    for line in [*lines, _Line("THE END", 0, True, True)]:
        is_apart = line.opens and line.closes and len(line.text) <= MAX_LENGTH
        if is_apart and line.text.isupper() and _CAPITALS.fullmatch(line.text):
            if prose:
                places += [run] * bool(run and prose >= _PROSE)
                run, prose = [], 0
            run.append(line)
        elif not (is_apart and _NAMED.fullmatch(line.text)):
            prose += len(line.text)
    is_repeated = any(counts[line.text] > 1 for run in places for line in run)
    return [] if is_repeated or len(places) < _FEWEST else [line for run in places for line in run]


def _counted(lines: Sequence[_Line]) -> list[_Line]:
    """Return the lines that are numbered headings, each a paragraph of its own. Numbers alone, `I`,
    `II`, count from 1. Numbers with titles, `4. The Gull`, count from any number; a single one must
    begin the text. Numbers in adjacent paragraphs are a list, and not headings."""
    runs: dict[tuple[bool, bool], list[tuple[int, int]]] = {}
    headings: list[_Line] = []

    def end(key: tuple[bool, bool]) -> None:
        """End the sequence of numbers `runs[key]`: its lines are headings unless it is a list."""
        run = runs.pop(key, [])
        is_list = len(run) > 1 and run[-1][0] - run[0][0] == len(run) - 1
        if not is_list and (len(run) > 1 or (key[1] and run and run[0][0] == 0)):
            headings.extend(lines[at] for at, _ in run)

    for at, line in enumerate(lines):
        form = _COUNTED.fullmatch(line.text) if line.opens and line.closes else None
        if form is None or len(line.text) > MAX_LENGTH or not _is_title(form["title"] or "A"):
            continue
        key, value = (form["number"].isdecimal(), form["title"] is not None), _value(form["number"])
        run = runs.get(key, [])
        if run and value == run[-1][1] + 1:
            run.append((at, value))
        elif not run or value == 1:
            end(key)
            runs[key] = [(at, value)] * (key[1] or value == 1)
    for key in list(runs):
        end(key)
    return headings


def _value(number: str) -> int:
    """Return the value of a number in digits or Roman numerals."""
    if number.isdecimal():
        return int(number)
    digits = [_DIGITS[digit] for digit in number]
    return sum(-a if a < b else a for a, b in zip(digits, [*digits[1:], 0], strict=True))
