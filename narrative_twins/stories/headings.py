"""Headings in a text, which are not sentences of the story.

A heading that is taken for a sentence gets a score; a sentence that is taken for a heading is lost,
which is worse. So every rule asks for a line of its own in one of a few forms; in doubt, a line is
a sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
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
_WORDS = {word: value for value, word in enumerate(_ONES.split(), 1)}
_WORDS |= {word: value for value, word in enumerate(_TEENS.split(), 10)}
_WORDS |= {word: value for value, word in enumerate(_ORDINALS.split()[:-1], 1)}
_WORDS |= {word: value * 10 for value, word in enumerate(_TENS.split(), 2)}
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
    r"(?:[\s.:：　].{0,60}[^\s.。]|\.?)"
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
# "[ 1 ]", "— I —", "* 2 *": marks around a number.
_AROUND = re.compile(r"(?P<open>[\[({*_~=<«|·•—–-]+)\s*(?P<inner>[^\W_]+\.?)\s*[\])}*_~=>»|·•—–-]+")
_UPPER_PART = re.compile(
    r"(?:Part|Book|Act|Epoch|Volume|Teil|Akt|Buch|Partie|Acte|Livre|Parte|Acto|Libro|Atto|Deel|"
    r"Часть)\b",
    re.IGNORECASE,
)
_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_CAPITALS = re.compile(r"[^\W\d_][^\"“”«»!?:;…]*[^\W\d_]{2}[^\"“”«»!?:;…]*")
_FEWEST = 3  # titles, or lines in capitals, that are no chance
_PROSE = 200  # characters after lines in capitals that are headings
_TITLE_MARKS = " .!?…,;:\"'“”‘’«»¿¡()[]*_"  # around a title
_OPENS_TITLE = "\"'“‘«¿¡("
# Lines before a sign, a letter or a telegram in capitals, which is text: "She read the bill:"
_INTRODUCES = re.compile(
    r"[:,—–-]\s*$|\b(?:sign|board|bill|notice|poster|placard|plaque|label|banner|headlines?|note|card|"
    r"telegram|cable|wire|letters?|message|inscription|words|writing|written|wrote|chalk(?:ed)?|"
    r"painted|carved|engraved|printed|said|says|ran|reads?)\b[^.!?]*[.!]?[\"”’]?$",
    re.IGNORECASE,
)
_CLOSED_LINE = re.compile(r"[.!?…:;—–\"'’”»“«)\]*_=~-]\s*$")


class _Line(NamedTuple):
    """A line of a text: its `text` without white space around it, its offset (`start`), whether the
    line before is blank (`opens`), and whether the line after is blank (`closes`)."""

    text: str
    start: int
    opens: bool
    closes: bool


_EDGE = _Line("", 0, True, True)  # before the first line and after the last
_KINDS = ("digit", "roman")  # of numbers without a word before them


class _Number(NamedTuple):
    """A line in the form of a numbered heading, such as `Chapter 2. The Gull`, `4. The Gull`, `IV`.

    Attributes:
        at: the index of the line.
        form: what the headings of a run have in common: the word before the number, or the kind of
            number and the mark around it; and whether they have titles.
        value: the number; 0 if its word is not known.
        title: the title after the number; empty without one.
    """

    at: int
    form: tuple[str, bool]
    value: int
    title: str

    @property
    def is_counted(self) -> bool:
        """Whether no word is before the number."""
        return self.form[0].startswith(_KINDS)

    def goes_on(self, last: _Number) -> bool:
        """Return whether the number follows that of the last heading of a run. Words such as
        `Chapter` may skip numbers."""
        if self.is_counted:
            return self.value == last.value + 1
        return self.value > last.value or 0 in (self.value, last.value)


def find_headings(text: str) -> list[Span]:
    """Return the character spans of the headings in a text, in order.

    - `Chapter 1`, `CHAPTER IV. The Storm`, `Part Two: Home`, `Act I`, and the same in some other
      languages; `Prologue`, `Epilogue` and the like. The line before is blank or ends a sentence,
      and the next line does not continue this one.
    - A title on the same line may end in a mark if its main words have capitals, `Chapter 2. Who
      Took the Map?`, or if it is part of a run of such lines whose numbers go on.
    - The paragraph after a number without a title, if all its main words have capitals, or if most
      numbers have such a title. Both may end in a full stop: `CHAPTER I.`, `The Old Mint.`
    - `INT. HOUSE - DAY`, the slug lines of screenplays, in capital letters.
    - `THE BARN`, paragraphs of one line in capitals, if several have prose after them and the text
      has no other headings than `Prologue` and the like. A line that the text before introduces,
      as a sign or a telegram, is none.
    - `# Title`, if the text is Markdown: it begins so, or has several or `## Title`.
    - `I`, `II`, `III`, `1.`, `2.`, or `[ 1 ]`, `— I —`, in paragraphs of their own, if they count
      from 1 without a gap. With titles, such as `4. The Black Gull`, they may begin with any
      number, and one that begins the text may be the only one. Most of the titles of a run have
      capitals.
    """
    lines = list(_lines(text))
    headings = _headings(lines, {*_numbered(lines), *_of_markdown(lines)})
    if all(_NAMED.fullmatch(heading.text) for heading in headings):
        headings = _headings(lines, set(_in_capitals(lines)))
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
    lines: Sequence[_Line], certain: Collection[_Line], are_titled: bool = False
) -> list[_Line]:
    """Return the headings among the lines of a text: the `certain` ones, lines in the form of a
    heading, and titles in the paragraph after a number. If `are_titled`, any paragraph after a
    number is a title; the function calls itself in this way if most numbers have titles."""
    headings: list[_Line] = []
    numbers = titles = 0
    for before, line, after in _with_neighbours(lines):
        if len(line.text) > MAX_LENGTH:
            continue
        follows = before in headings[-1:]
        if line in certain or (
            _stands_apart(before, line, after, follows) and _is_heading(line.text)
        ):
            headings.append(line)
        elif follows and _lacks_title(before.text):
            has_place = line.closes and after is not _EDGE
            is_title = has_place and _is_title_after(before.text, line.text, are_titled)
            headings += [line] * is_title
            numbers, titles = numbers + 1, titles + is_title
    if not are_titled and titles >= _FEWEST and titles * 2 >= numbers:
        return _headings(lines, certain, True)
    return headings


def _with_neighbours(lines: Sequence[_Line]) -> Iterator[tuple[_Line, _Line, _Line]]:
    """Yield each line with the line before and the line after."""
    return zip([_EDGE, *lines], lines, [*lines[1:], _EDGE], strict=False)


def _stands_apart(before: _Line, line: _Line, after: _Line, follows: bool) -> bool:
    """Return whether a line neither goes on from the line before, which is a heading if `follows`,
    nor into the line after."""
    begins = line.opens or follows or bool(_CLOSED_LINE.search(before.text))
    return begins and (line.closes or not after.text[:1].islower())


def _is_title_after(number: str, line: str, are_titled: bool) -> bool:
    """Return whether a line after the line of a number is its title."""
    if line[0] in _OPENS_TITLE:
        return are_titled and _has_capitals(line)
    if not line[0].isalnum():
        return False
    title = line.rstrip(".") if number.endswith(".") else line
    is_question = title[-1:] in "?!" and title.count(" ") > 1 and _has_capitals(title)
    return are_titled or is_question or (" " in title and _is_title(title))


def heading_level(heading: str) -> int:
    """Return the depth of a heading of `find_headings`: 1 for a part or an act, 2 for a chapter or
    a scene, `UNKNOWN` for any other line, such as a title. In Markdown it is the number of `#`."""
    if heading.startswith("#"):
        return len(heading) - len(heading.lstrip("#"))
    if not _is_heading(heading) and not _COUNTED.fullmatch(_without_marks(heading)):
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
    if not is_free or _is_title(title):
        return _is_title(title)
    has_no_end = title[0].isupper() and not re.search(r"[.!?…;,:\"”»]$|[.!?…] ", title)
    return has_no_end or (" " in title and _has_capitals(title))


def _lacks_title(line: str) -> bool:
    """Return whether a heading is a number without a title, such as `Chapter 1` or `IV`."""
    form = _NUMBERED.fullmatch(_plain(line)) or _COUNTED.fullmatch(_without_marks(line))
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


def _has_capitals(title: str) -> bool:
    """Return whether the main words of a title have capitals, whatever mark it ends in."""
    return _is_title(title.strip(_TITLE_MARKS))


def _without_marks(line: str) -> str:
    """Return the number of a line such as `[ 1 ]`, and any other line unchanged."""
    around = _AROUND.fullmatch(line)
    return around["inner"] if around else line


def _of_markdown(lines: Sequence[_Line]) -> list[_Line]:
    """Return the lines `# Title` of a text in Markdown. A single one within a text is a sentence:
    `# blessed today`."""
    marked = [line for line in lines if _MARKDOWN.fullmatch(line.text)]
    texts = [line.text for line in marked]
    is_begin = marked[:1] == list(lines[:1])
    is_several = sum(text.lstrip("# ")[:1].isupper() for text in texts) > 1
    return marked if is_begin or is_several or any(text[1] == "#" for text in texts) else []


def _in_capitals(lines: Sequence[_Line]) -> list[_Line]:
    """Return the lines in capitals, each a paragraph by itself, that are headings. Returns `[]`
    unless several of them have prose after them, and if most recur, as names do in a play."""
    sections = [(run, prose) for run, prose in _sections(lines) if run]
    counts = Counter(run[-1].text for run, _ in sections)
    recurring = sum(count for count in counts.values() if count > 1)
    places = [run for run, prose in sections if prose >= _PROSE]
    is_play = recurring * 2 > len(sections)
    return [] if is_play or len(places) < _FEWEST else [line for run in places for line in run]


def _sections(lines: Sequence[_Line]) -> Iterator[tuple[list[_Line], int]]:
    """Yield adjacent lines in capitals, with the number of characters of the prose after them."""
    run, prose = list[_Line](), 0
    for before, line, _ in _with_neighbours(lines):
        is_apart = line.opens and line.closes and len(line.text) <= MAX_LENGTH
        if is_apart and _is_in_capitals(line.text) and not _is_introduced(before, line):
            if prose:
                yield run, prose
                run, prose = [], 0
            run.append(line)
        elif not (is_apart and _NAMED.fullmatch(line.text)):
            prose += len(line.text)
    yield run, prose


def _is_in_capitals(line: str) -> bool:
    """Return whether a line is in capitals, and without a mark of speech."""
    return line.isupper() and _CAPITALS.fullmatch(line) is not None


def _is_introduced(before: _Line, line: _Line) -> bool:
    """Return whether the line before introduces a sign or a telegram."""
    is_prose = line.start > 0 and not before.text.isupper()
    return is_prose and _INTRODUCES.search(before.text) is not None


def _numbered(lines: Sequence[_Line]) -> Iterator[_Line]:
    """Yield the lines that are headings as parts of runs: lines of one form whose numbers go on.
    Numbers alone, `I`, `II`, count from 1. Numbers with titles, `4. The Gull`, count from any
    number; a single one must begin the text. Numbers in adjacent paragraphs are a list, and not
    headings."""
    runs: dict[tuple[str, bool], list[_Number]] = {}
    ended: list[list[_Number]] = []
    for at, (before, line, after) in enumerate(_with_neighbours(lines)):
        if len(line.text) > MAX_LENGTH:
            continue
        number = _number_after_word(at, before, line, after) or _number_alone(at, before, line)
        if number is None:
            continue
        run = runs.setdefault(number.form, [])
        if run and not number.goes_on(run[-1]):
            ended.append(run)
            run = runs[number.form] = []
        run.append(number)
    for run in (*ended, *runs.values()):
        if _is_run(run):
            yield from (lines[number.at] for number in run)


def _number_after_word(at: int, before: _Line, line: _Line, after: _Line) -> _Number | None:
    """Return a line such as `Chapter 2. Who?` as a number of a run; None for another line."""
    form = _NUMBERED.fullmatch(_plain(line.text))
    if form is None or not _stands_apart(before, line, after, False):
        return None
    title, (first, *_) = form["title"] or "", line.text.split()
    is_free = form["mark"].strip() or first.isupper()
    # "Scene 1. A mill. Otto weeps." and "Part two was hard" are no titles.
    is_title = _has_capitals(title) or (is_free and not re.search(r"[.!?…] \w", title))
    is_whole = line.closes or _CLOSED_LINE.search(line.text)
    if title and not (is_title and is_whole):
        return None
    word = "".join(filter(str.isalpha, first)).casefold()
    return _Number(at, (word, bool(title)), _value_of_words(line.text), title)


def _number_alone(at: int, before: _Line, line: _Line) -> _Number | None:
    """Return a line such as `IV`, `[ 4 ]` or `4. The Gull` as a number of a run; None for another
    line."""
    number = _without_marks(line.text)
    form = _COUNTED.fullmatch(number) if line.opens and line.closes else None
    mark = "" if number == line.text else line.text[0]
    if form is None or (mark and not _ends_sentence(before)):
        return None
    title = form["title"] or ""
    if title and not (title[0].isupper() or title[0].isdigit() or title[0] in _OPENS_TITLE):
        return None
    kind = _KINDS[not form["number"].isdecimal()] + mark
    return _Number(at, (kind, bool(title)), _value_of_numeral(form["number"]), title)


def _ends_sentence(line: _Line) -> bool:
    """Return whether a line ends a sentence, or is no line of the text."""
    return not line.text or _CLOSED_LINE.search(line.text) is not None


def _is_run(run: Sequence[_Number]) -> bool:
    """Return whether numbers that go on are headings."""
    first, last = run[0], run[-1]
    if len(run) == 1:
        is_question = first.title[-1:] in ("?", "!") and _has_capitals(first.title)
        is_title = _is_title(first.title) or (" " in first.title and is_question)
        return first.at == 0 and first.is_counted and is_title
    if last.at - first.at == len(run) - 1:
        return False  # a list
    if not first.is_counted:
        return True
    if not first.title:
        return first.value == 1
    return sum(_has_capitals(number.title) for number in run) * 2 >= len(run)


def _value_of_words(line: str) -> int:
    """Return the first number of a line, in digits, Roman numerals or English words; 0 without."""
    words = re.findall(r"\w+", line)
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.isdecimal() or (len(words) > 1 and re.fullmatch(_ROMAN, word)):
            return _value_of_numeral(word)
        if word.casefold() in _WORDS:
            ones = _WORDS.get(after.casefold(), 0)
            value = _WORDS[word.casefold()]
            return value + ones if value >= 20 and ones < 10 else value
    return 0


def _value_of_numeral(number: str) -> int:
    """Return the value of a number in digits or Roman numerals."""
    if number.isdecimal():
        return int(number)
    digits = [_DIGITS[digit] for digit in number]
    return sum(-a if a < b else a for a, b in zip(digits, [*digits[1:], 0], strict=True))
