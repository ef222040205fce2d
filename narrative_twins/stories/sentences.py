"""Splitting of raw text into sentences: the default splitter and its rules for direct speech, and
headings, which are not sentences of the story."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import syntok.segmenter

Span: TypeAlias = tuple[int, int]
"""A half-open range of characters, or of sentences."""
SplitFunction: TypeAlias = Callable[[str], Iterable[str]]
SplitName: TypeAlias = Literal["sentences", "lines", "paragraphs"]
Splitter: TypeAlias = SplitName | SplitFunction
"""How raw text is split: by a name in `SPLITTERS`, without headings, or by a function, whose pieces
are all scored."""

_BLANK_LINES = re.compile(r"\r?\n(?:[^\S\n]*\n)+")
# syntok knows these abbreviations, but not in capitals, as names are in screenplays and headlines.
_TITLE_IN_CAPITALS = re.compile(r"\b(?:MRS?|MS|DR|PROF|REV|CAPT|COL|GEN|LT|SGT)\.$")
_CLOSING = re.compile(r"\s?”+")
# Ends of Chinese and Japanese sentences, which no space follows. A quotation that ends there may be
# part of a longer sentence, so only another quotation ends it.
_IDEOGRAPHIC_END = re.compile(r"[。！？]+(?:(?![。！？”’」』）…，、])(?=\S)|[”」』]+(?=[“「『]))")


def split_sentences(text: str) -> list[str]:
    """The default splitter: `syntok`, with rules for the direct speech of stories.

    - A sentence is never split after a semicolon, nor after a title in capitals, as in `MRS.
      BENNET`.
    - Speech and the clause that says who spoke are one sentence: `"Stop!" I cried.`, `"Who's
      there?" Mr. Bennet asked.` A longer speech is split into sentences. See `is_tag`.
    - The name of a character in a screenplay, such as `MARTA (V.O.)`, is one sentence with what
      comes after it.
    - `“...”`, `„...“`, `»...«`, `«...»` and `« ... »` are quotations, and an ellipsis may be one
      character.
    - Chinese and Japanese sentences end at 。！？ without a space.

    It needs no model and no network and takes linear time. docs/scoring.md compares it with
    alternatives.
    """
    marked = in_english_marks(text)
    spans: list[Span] = []
    for paragraph in syntok.segmenter.analyze(marked):
        for number, tokens in enumerate(paragraph):
            start, end = tokens[0].offset, tokens[-1].offset + len(tokens[-1].value)
            if number:
                before, stop = spans[-1]
                # syntok leaves a closing mark after a space, as in French, to the next sentence.
                if closing := _CLOSING.match(marked, stop, end):
                    stop = closing.end()
                    start = max(start, stop)
                # It splits after a semicolon if a capital letter follows.
                said = text[max(before, stop - 10) : stop]
                if (
                    said.endswith(";")
                    or is_cue(text[before:stop])
                    or _TITLE_IN_CAPITALS.search(said)
                    or is_tag(said, text[stop : stop + REACH])
                ):
                    stop = end
                spans[-1] = (before, stop)
                start = max(start, stop)
            if text[start:end].strip():
                spans.append((start, end))
    return [sentence for start, end in spans for sentence in _ideographic(text[start:end].strip())]


def _ideographic(sentence: str) -> Iterator[str]:
    """A sentence of syntok, split where a Chinese or Japanese sentence ends."""
    start = 0
    for end in _IDEOGRAPHIC_END.finditer(sentence):
        yield sentence[start : end.end()].strip()
        start = end.end()
    yield sentence[start:].strip()


def split_lines(text: str) -> list[str]:
    """The lines of a text that are not blank, for verse and lists."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def split_paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, which blank lines separate."""
    return [paragraph.strip() for paragraph in _BLANK_LINES.split(text) if paragraph.strip()]


SPLITTERS: dict[str, SplitFunction] = {
    "sentences": split_sentences,
    "lines": split_lines,
    "paragraphs": split_paragraphs,
}
"""The registry: functions by name; the first is the default."""


def check_splitter(splitter: Any) -> SplitFunction:
    """The function of a splitter, the default one for None. Raises a `TypeError` for anything
    else."""
    if callable(splitter):
        return splitter  # type: ignore[no-any-return]
    name = "sentences" if splitter is None else splitter
    if isinstance(name, str) and name in SPLITTERS:
        return SPLITTERS[name]
    value = repr(splitter) if isinstance(splitter, str) else type(splitter).__name__
    names = ", ".join(map(repr, SPLITTERS))
    raise TypeError(
        f"a splitter is a function from a text to its sentences, or one of {names}; not {value}"
    )


def text_regions(text: str, splitter: Splitter | None) -> list[Span]:
    """The spans of a text that are split into sentences, between which there are headings: the
    complete text if the splitter is a function, or if the text is nothing but headings."""
    if callable(splitter):
        return [(0, len(text))]
    edges = [0, *(edge for heading in find_headings(text) for edge in heading), len(text)]
    regions = [
        (lo, hi)
        for lo, hi in zip(edges[::2], edges[1::2], strict=True)
        if any(map(str.isalnum, text[lo:hi]))
    ]
    return regions or [(0, len(text))]


def is_blank(text: str) -> bool:
    """Whether a text has only white space, control and format characters."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


# Direct speech: which marks open and close a quotation, and whether a clause says who spoke.

# A mark that opens a quotation if none is open, with the marks that close it. In English “ opens
# too, and in German it closes; in French « opens, and in German books it closes.
_CLOSED_BY = {"„": "“”", "«": "»", "»": "«", "‹": "›", "›": "‹"}
_MARKS = re.compile("[„“”«»‹›]|\n[ \t\r]*\n")
# An ellipsis after a word or a quotation; one before a word continues a sentence.
_ELLIPSIS = re.compile(r"(?<=[\w!?\"'’”»«“])…")


def in_english_marks(text: str) -> str:
    """The text, of the same length, with quotation marks of other languages as “ and ”, and an
    ellipsis that may end a sentence as a question mark: the marks after which `syntok` splits
    correctly."""
    chars, closing = list(text), ""
    for match in _MARKS.finditer(text):
        mark = match.group()
        if mark in closing:
            chars[match.start()], closing = "”", ""
        elif mark in _CLOSED_BY:
            # A second mark of the same kind opens a quotation within the quotation, or a new
            # paragraph of speech.
            chars[match.start()], closing = "“", _CLOSED_BY[mark]
        elif mark not in "“”":
            closing = ""  # a quotation ends with its paragraph
    return _ELLIPSIS.sub("?", "".join(chars))


# Verbs of speech without their endings; `snapp?` is for "snaps" and "snapped".
_REGULAR = """add admitt? agre announc answer argu ask assur bark beg?g? bellow bragg? call chant
    chid chirp command comment complain conced conclud confess continu coo correct counter croak
    crow declar demand drawl echo enquir exclaim explain gasp groan growl grumbl grunt hiss holler
    inquir insist interject interrupt intone? jok moan mumbl murmur mutter nagg? object observ offer
    order persist plead promis prompt protest quer question quipp? remark remind repeat report
    retort roar scoff scold scream shout shriek sigh snapp? sneer sobb? squeak squeal stammer
    stutter suggest teas urg wail warn whimper whin whisper wonder yell"""
_SPEECH = (
    r"(?:(?:"
    + "|".join(_REGULAR.split())
    + r")(?:e?d|e?s)|said|says?|cried|cries|replied|replies|queried|told|tells|"
    r"thinks|thought|swore|(?:began|begins|went on|goes on)(?=\W*[.,!?…])|wants? to know|wanted to"
    r" know)"
)
# "Tom ordered a beer", "Tom said nothing", "Tom called for help" are not tags: what may follow the
# verb is limited.
_MODIFIER = (
    r"(?:\w+ly|again|aloud|back|out|at|in|into|from|to|with|without|as|after|over|through|across|behind|beside|between|"
    r"under|when|while|before|and|but|himself|herself|themselves|myself)\b(?!\s+it\b)"
)
_ENDS = r"(?=\s*(?:[.,;:!?…—–]|-\s|$))"
# Only of these verbs an object may follow: "Tom asked her.", "Tom asked the old man, who ..."; not
# "asked her to go".
_ASKED = (
    r"(?:asked|asks|told|tells|warned|warns|begged|begs|urged|urges|reminded|reminds|assured"
    r"|assures)"
)
_NOUNS = r"(?:the|a|an|my|his|their)(?:\s+(?!(?:to|about|for|if)\b)[\w'’-]+){1,3}?"
_OBJECT = rf"\s+(?:me|us|him|her|them|you|{_NOUNS}|[A-Z][\w'’-]+){_ENDS}"
_ADVERBS = r"(?:\s+(?:\w+ly|then|also|just|only|even|almost|at last|had))*"

# Words with a capital letter that begin a sentence rather than name a speaker.
_NO_NAME = """A After All Also Although An And Another As At Because Before Both But By Each Even
    Every Everybody Everyone Everything Finally For From He Her Here His How However I If In It Its
    Just Later Many Maybe Most My Neither Next No Nobody None Nothing Now Of On Once One Only Or
    Other Others Our People Perhaps Quickly She Since Slowly So Some Somebody Someone Something Soon
    Still Suddenly That The Their Then There These They This Those Though Three Through To Two Under
    Until We What When Where Which While Who Why With Without Yet You Your"""
_WORD = r"[A-ZÀ-ÖØ-Þ][\w'’-]*\.?"
_NAME = (
    rf"(?!(?:{'|'.join(_NO_NAME.split())})\b){_WORD}"
    rf"(?:\s+(?:{_WORD}|of|the|de|van|von|and)){{0,5}}?"
)

_TAG = re.compile(
    rf"(?:{_NAME}|I){_ADVERBS}\s+(?:{_ASKED}{_OBJECT}|{_SPEECH}(?:{_ENDS}|\s+{_MODIFIER}))"
)
# "He said." alone is not a sentence, so it belongs to the speech before it whatever ends that.
_BARE_TAG = re.compile(
    rf"(?:I|He|She|They|We|{_NAME}|(?:The|My|His|Her)(?:\s+[\w'’-]+){{1,3}}?)\s+"
    rf"(?:said|says|asked|asks|replied|replies)(?:\s+\w+ly)?\s*[.!?…]"
)
# "Stop!" Tom shouted: "Come!" and "Stop!" Tom shouted, "Come!": the clause belongs to the speech
# that follows.
_INTRODUCES = re.compile(r"[^.!?…]{0,80}(?::|[,—–-]\s*[\"“‘'«»„][A-ZÀ-ÖØ-Þ])")
_SPEECH_END = re.compile(r"([.!?…]+)\s?[\"'’”“»«›‹]+$")
# A hyphen at the beginning of a line is a bullet.
_SMALL_LETTER = re.compile(r"(?:[^\S\n]*-\s|\s*)[,;:—– ]*([^\W\d_])")

REACH = 200
"""Characters after speech that are read to recognize who spoke."""


def is_tag(speech: str, after: str) -> bool:
    """Whether `after`, the text after a possible end of a sentence, says who spoke the words in
    `speech`, and so belongs to the same sentence: `"Stop!"` + `I cried.`, `"Who's there?"` + `Mr.
    Bennet asked.`

    A clause with a capital letter is a tag only if the speech ends in a quotation mark after `!`,
    `?` or an ellipsis, and the clause has a name or "I", a verb of speech, and nothing after it
    that makes it a statement of its own. So `"Stop!"` + `The dog ran.` and `"Stop!"` + `Tom called
    the dog.` are two sentences.
    """
    # A small letter continues the sentence; in Russian, Spanish or Polish after a dash: `— Кто
    # там?` + `— спросил он.`
    letter = _SMALL_LETTER.match(after)
    if letter and letter.group(1).islower():
        return True
    end, after = _SPEECH_END.search(speech[-10:]), after.lstrip()
    if end is None or _INTRODUCES.match(after):
        return False
    if end.group(1) != "." and _TAG.match(after):
        return True
    bare = _BARE_TAG.match(after)
    return bare is not None and not after[bare.end() :].lstrip()[:1].islower()


# "MARTA (V.O.)", the name of a character in a screenplay and how the voice is heard.
_CUE = re.compile(
    r"[^\n(]{1,60} \((?:V\.? ?O|O\.? ?S|O\.? ?C|CONT['’]?D)\b[^\n)]*\)", re.IGNORECASE
)


def is_cue(sentence: str) -> bool:
    """Whether a sentence is only the name of a character with a note such as (V.O.), whose speech
    follows."""
    return sentence.partition("(")[0].isupper() and _CUE.fullmatch(sentence) is not None


# Headings. One that is taken for a sentence costs a score; a sentence that is taken for a heading
# is lost. So every rule asks for a line of its own that has one of a few forms, and a line of which
# none is certain stays a sentence.

MAX_LENGTH = 100
"""Characters of the longest heading."""
UNKNOWN = 3
"""The level of headings of no known form, such as titles after a number."""

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
_BARE_NUMBER = re.compile(rf"(?:{_ROMAN}|\d{{1,3}})\.?")
_UPPER_PART = re.compile(
    r"(?:Part|Book|Act|Volume|Teil|Akt|Buch|Partie|Acte|Livre|Parte|Acto|Libro|Atto|Deel|Часть)\b",
    re.IGNORECASE,
)
_ONES_ROMAN = "- I II III IV V VI VII VIII IX".split()
_TENS_ROMAN = "- X XX XXX XL L LX LXX LXXX XC".split()
_ROMANS = [f"{tens}{ones}".replace("-", "") for tens in _TENS_ROMAN for ones in _ONES_ROMAN]
_CLOSED_LINE = re.compile(r"[.!?…:;—–\"'’”»“«)\]*_=~-]\s*$")


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
      next paragraph is a heading too, if all its main words have capitals.
    - `INT. HOUSE - DAY`, the slug lines of screenplays, in capital letters.
    - `# Title` of Markdown.
    - `I`, `II`, `III` or `1.`, `2.`, `3.`, in paragraphs of their own, if they count from 1 without
      a gap.
    """
    lines = list(_lines(text))
    headings: list[_Line] = []
    edge = _Line("", 0, True, True)
    for before, line, after in zip([edge, *lines], lines, [*lines[1:], edge], strict=False):
        if len(line.text) > MAX_LENGTH:
            continue
        follows = before in headings[-1:]
        begins = line.opens or follows or bool(_CLOSED_LINE.search(before.text))
        is_apart = begins and (line.closes or not after.text[:1].islower())
        is_title = " " in line.text and line.closes and after is not edge and _is_title(line.text)
        if (
            _MARKDOWN.fullmatch(line.text)
            or (is_apart and _is_heading(line.text))
            or (follows and is_title and _lacks_title(before.text))
        ):
            headings.append(line)
    counted = [*_counted(lines, _ROMANS), *_counted(lines, list(map(str, range(1000))))]
    return sorted({(line.start, line.start + len(line.text)) for line in [*headings, *counted]})


def heading_level(heading: str) -> int:
    """How deep a heading of `find_headings` is: 1 for a part or an act, 2 for a chapter or a scene,
    3 for a title in the line after such a number; of Markdown the number of its `#`."""
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
    main = [*words[:1], *([word for word in words if len(word) > 3] or words)]
    starts = [word.lstrip("\"'“‘«([")[:1] for word in main]
    return (
        0 < len(words) <= 12
        and all(start.isupper() or start.isdigit() for start in starts)
        and not _CLOSED_LINE.search(line)
    )


def _counted(lines: list[_Line], numbers: Sequence[str]) -> list[_Line]:
    """Paragraphs that are only numbers and count from 1, given the numbers from 0."""
    run: list[_Line] = []
    for line in lines:
        number = line.text.removesuffix(".") if line.opens and line.closes else ""
        if number and len(run) + 1 < len(numbers) and number == numbers[len(run) + 1]:
            run.append(line)
    return run if len(run) > 1 else []
