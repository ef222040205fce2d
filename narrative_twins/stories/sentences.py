"""Splitting of raw text into sentences: the default splitter, and headings, which are not sentences
of the story. `speech.py` has the patterns of direct speech."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from syntok.segmenter import segment
from syntok.tokenizer import Tokenizer

from narrative_twins.extras import check_extra
from narrative_twins.stories.speech import (
    BARE_TAG,
    CUE,
    DIRECTION,
    INTRODUCES,
    MAX_CUE,
    NAME,
    NO_NAME,
    SMALL_LETTER,
    SPEECH_END,
    TAG,
)

Span: TypeAlias = tuple[int, int]
"""A half-open range of characters, or of sentences."""
SplitFunction: TypeAlias = Callable[[str], Iterable[str]]
Splitter: TypeAlias = str | SplitFunction
"""How raw text is split: by a name in `SPLITTERS` or the code of a language, without headings, or
by a function, whose pieces are all scored."""

_BLANK_LINES = re.compile(r"\r?\n(?:[^\S\n]*\n)+")
# Ends of Chinese and Japanese sentences, which no space follows. A quotation that ends there may be
# part of a longer sentence, so only another quotation ends it.
_IDEOGRAPHIC_END = re.compile(r"[。！？]+(?:(?![。！？”’」』）…，、])(?=\S)|[”」』]+(?=[“「『]))")
_RECURS = 3  # names in small letters, titles, or lines in capitals that are no chance
_NEAR = 40  # paragraphs in which names in small letters recur
_TOKENIZER = Tokenizer(replace_not_contraction=False)


def split_sentences(text: str, language: str | None = None) -> list[str]:
    """Split a text into sentences by the library `syntok`, and by rules for the direct speech of
    stories. With the code of a `language`, such as `"de"`, the library `sentencex` takes the place
    of `syntok`; `sentencex` splits unknown languages as English.

    - A sentence is never split after a semicolon, nor after a title, as in `Lt. Brook`.
    - Speech and the clause that says who spoke are one sentence: `"Stop!" I cried.`,
      `"Who's there?" Mr. Bennet asked.` A longer speech is split into sentences. See `is_tag`.
    - Closing marks, emphasis (`*`, `_`, tags) and marks of notes (`[3]`) belong to the sentence
      before them, also after spaces as in tokenized text: `" Not me ! " said Otto .`
    - A dash that cuts off speech ends a sentence, `“But I—” He left.` An ellipsis may have spaces.
    - The name of a character in a play, `RUNA.` or `MARTA (V.O.)`, is one sentence with what comes
      after it. See `is_cue` and `with_cues`.
    - `“...”`, `„...“`, `»...«`, `«...»` and `« ... »` are quotations.
    - A text without capital letters is split at its full stops.
    - Chinese and Japanese sentences end at 。！？ without a space.
    """
    marked = in_english_marks(text)
    edges = [0, *(edge for blank in _BLANK_LINES.finditer(text) for edge in blank.span())]
    paragraphs = [
        [
            (lo + start, lo + stop)
            for start, stop in _sentences(marked[lo:hi], text[lo:hi], language)
        ]
        for lo, hi in zip(edges[::2], [*edges[1::2], len(text)], strict=True)
    ]
    return [
        piece
        for start, end in with_cues(text, paragraphs)
        for piece in _split_ideographic(text[start:end].strip())
        if piece
    ]


def with_cues(text: str, paragraphs: Iterable[Sequence[Span]]) -> list[Span]:
    """Return the spans of all sentences of a text as one list; `paragraphs` has these spans by
    paragraph. A cue (the name of who speaks, such as `RUNA.`) that begins a paragraph is joined to
    the sentence after it, also to one in the next paragraph."""
    paragraphs = [sentences for sentences in paragraphs if sentences]
    firsts = [text[slice(*sentences[0])].strip() for sentences in paragraphs]
    cues = _cues(firsts, [len(sentences) == 1 for sentences in paragraphs])
    spans: list[Span] = []
    is_open = False
    for at, sentences in enumerate(paragraphs):
        for number, (start, stop) in enumerate(sentences):
            is_joined = is_open and not text[spans[-1][1] : start].strip()
            spans.append((spans.pop()[0] if is_joined else start, stop))
            is_direction = is_joined and DIRECTION.fullmatch(text, start, stop)
            is_open = bool(is_direction) or (at in cues and not number)
    return spans


def _cues(firsts: Sequence[str], alone: Sequence[bool]) -> set[int]:
    """Return the indices of the paragraphs that begin with a cue, the name of a character: in
    capitals if the name recurs, `RUNA`, or has a direction, `OTTO (softly)`; in other letters,
    `Witch.`, if such names are frequent nearby. For each paragraph, `firsts` has the first
    sentence, and `alone` whether the paragraph has no other sentence."""
    matches = ((at, NAME.fullmatch(first[:MAX_CUE])) for at, first in enumerate(firsts))
    forms = {at: form for at, form in matches if form}
    # A name alone may be a sentence, or the end of a letter; a cast speaks again and again.
    counts = Counter(form["name"] for form in forms.values())
    cast = {form["name"] for form in forms.values() if form["capitals"]}
    cast = {name for name in cast if counts[name] > 1}
    small = [at for at, form in forms.items() if counts[form["name"]] >= _RECURS]
    runs = zip(*(small[start:] for start in range(_RECURS + 1)), strict=False)
    near = {at for run in runs if run[-1] - run[0] <= _NEAR for at in run}
    return {
        at
        for at, form in forms.items()
        if not form["speech"]
        and len(firsts[at]) <= MAX_CUE
        and (alone[at] or form["mark"] or form["direction"])
        and (
            at in near
            or (form["capitals"] and (form["direction"] or form["name"] in cast))
            or (len(cast) > 1 and form["capitals"] and form["mark"] and " " not in form["name"])
        )
    }


def _starts(marked: str, paragraph: str, language: str | None) -> set[int]:
    """Return the offsets in a paragraph at which a sentence may start. `marked` is the paragraph
    after `in_english_marks`, `language` a code for `sentencex` or None for `syntok`."""
    if language is None:
        starts = {tokens[0].offset for tokens in segment(_TOKENIZER.tokenize(marked)) if tokens}
        return starts | {end.end() for end in _SURE_END.finditer(marked)}
    from sentencex import get_sentence_boundaries

    # Quotation marks are hidden, as it would not split within them.
    pairs = zip(paragraph, marked, strict=True)
    hidden = "".join(HIDDEN if mark in _QUOTES else char for char, mark in pairs)
    starts = {bound["start_index"] for bound in get_sentence_boundaries(language, hidden)}
    return {next(_CLOSED.finditer(marked, start)).end() for start in starts}


def _sentences(marked: str, paragraph: str, language: str | None) -> Iterator[Span]:
    """Yield the spans of the sentences of a paragraph. `marked` is the paragraph after
    `in_english_marks`, `language` is as for `split_sentences`."""
    starts = _starts(marked, paragraph, language)
    begin = line = 0
    for start in (*sorted(starts)[1:], len(marked)):
        while start < len(marked) and marked[start - 1] == HIDDEN and start > begin:
            start -= 1
        sentence = marked[begin:start].strip()
        if start < len(marked) and sentence:
            is_led = marked[line] in "—–―"  # by the dash of speech
            is_first = not marked[line:begin].strip()
            after = marked[start : start + REACH]
            if (is_first and is_cue(sentence)) or is_tag(sentence[-10:], after, is_led):
                continue
        if start > begin:
            yield begin, start
        line = marked.rfind("\n", begin, start) + 1 or line
        begin = start


def _split_ideographic(sentence: str) -> Iterator[str]:
    """Yield the parts of a text that is split after each Chinese or Japanese sentence."""
    start = 0
    for end in _IDEOGRAPHIC_END.finditer(sentence):
        yield sentence[start : end.end()].strip()
        start = end.end()
    yield sentence[start:].strip()


REACH = 200
"""Characters after speech that are read to recognize who spoke."""


def is_tag(speech: str, after: str, is_led: bool = False) -> bool:
    """Return whether the text `after` begins with a tag: a clause that says who spoke the words
    before it, as in `"Stop!"` + `I cried.` Both are then one sentence.

    `speech` is the end of the text before `after`. A clause that begins with a small letter is
    always a tag. A clause that begins with a capital letter is a tag under three conditions:

    - The speech ends in `!`, `?` or an ellipsis, and then a quotation mark. No quotation mark is
      needed if a dash begins the line (`is_led`).
    - The clause has a name or "I", and a verb of speech. At the end of the clause, any verb counts
      that is not in `_ACTIONS` of `speech.py`.
    - The clause is no statement by itself: `"Stop!"` + `Tom called the dog.` are two sentences.
    """
    # A small letter continues the sentence; in Russian, Spanish or Polish after a dash: `— Кто
    # там?` + `— спросил он.`
    letter = SMALL_LETTER.match(after)
    if letter and letter.group(1).islower():
        return True
    end = SPEECH_END.search(speech) or (re.search(r"([!?…])$", speech) if is_led else None)
    after = after.lstrip(" \t\r\n\u200b")
    if end is None or INTRODUCES.match(after):
        return False
    if end.group(1) != "." and TAG.match(after):
        return True
    bare = BARE_TAG.match(after)
    return bare is not None and not after[bare.end() :].lstrip()[:1].islower()


def is_cue(sentence: str) -> bool:
    """Return whether a sentence is only the name of a character in capitals, as before speech in a
    play, perhaps with a direction: `RUNA.`, `MARTA (V.O.)`."""
    return len(sentence) <= MAX_CUE and CUE.fullmatch(sentence) is not None


def split_lines(text: str) -> list[str]:
    """Return the lines of a text that are not blank."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def split_paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, which is split at blank lines."""
    return [paragraph.strip() for paragraph in _BLANK_LINES.split(text) if paragraph.strip()]


SPLITTERS: dict[str, SplitFunction] = {
    "sentences": split_sentences,
    "lines": split_lines,
    "paragraphs": split_paragraphs,
}
"""The registry: functions by name; the first is the default."""


def check_splitter(splitter: Any) -> SplitFunction:
    """Return the function that splits a text as `splitter` says; None is the default splitter.
    Raises a `ValueError` for an unknown name, a `TypeError` for a value of another type, and an
    `ImportError` if a language needs `sentencex`, which is not installed."""
    if callable(splitter):
        return splitter  # type: ignore[no-any-return]
    name = "sentences" if splitter is None else splitter
    if isinstance(name, str) and name in SPLITTERS:
        return SPLITTERS[name]
    if isinstance(name, str) and _LANGUAGE.fullmatch(name):
        check_extra("books")
        split = partial(split_sentences, language=name)
        vars(split).update(__name__=name)  # for the settings of a run
        return split
    names = ", ".join(map(repr, SPLITTERS))
    raise (ValueError if isinstance(name, str) else TypeError)(
        f"splitter={name!r:.60}: choose {names}, the code of a language such as 'de', or a function"
        " from a text to its sentences, in commands MODULE:FUNCTION"
    )


def text_regions(text: str, splitter: Splitter | None) -> list[Span]:
    """Return the spans of a text to split into sentences, which are the parts between headings. The
    complete text is the only span if the splitter is a function, or if all text is in headings."""
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
    """Return whether a text has only white space, control and format characters."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


# Marks, written as `syntok` expects them.

HIDDEN = "\u200b"
"""In place of marks that belong to the next word, such as an opening `*`; a space for syntok."""
_QUOTES = {"“", "”", "‘", HIDDEN}
_CLOSED = re.compile(r"(?:(?<=\S)[”’‘]+)?\s*")
_LANGUAGE = re.compile(r"[a-z]{2,3}")
# A mark that opens a quotation if none is open, with the marks that close it. In English “ opens
# too, and in German it closes; in French « opens, and in German books it closes.
_CLOSED_BY = {"„": "“”", "«": "»", "»": "«", "‹": "›", "›": "‹"}
_MARKS = re.compile(r"[„“”«»‹›\"]|``|''|(?<!\S)'(?!\S)|(?<=[.,!?…])'(?!\S)|\n[ \t\r]*\n")
_GAP = r"(?:[^\S\n]|[\u2060\ufeff])"
_NOTE = (
    r"\[(?:\d{1,3}|[a-z*†‡]|(?i:(?:foot)?note|citation)\b[^\]\n]{0,20})\]|[¹²³⁰-⁹]+|[†‡]|"
    r"<sup\b[^<>]{0,100}>[^<>]{0,20}</sup>|(?<=[a-z][.!?])\d{1,2}(?=\s+[\"“]?[A-Z])"
)
# The end of a sentence: its mark, perhaps with spaces, or the dash of speech that is cut off; and
# what closes after it. Not ".45".
_END = re.compile(
    rf"(?P<mark>(?:{_GAP}?[—–-]{{1,3}})?(?:{_GAP}{{0,4}}[.!?…])++|"
    rf"{_GAP}?(?:[—–]|--?)(?=[”’\"'*_]|{_GAP}[”’](?!\S)))"
    rf"(?P<closing>(?:[\"'”’*_~]|{_GAP}[”’](?!\S)|</\w{{1,10}}>|{_NOTE})*)"
    r"(?=\s|$|[—–(])"
)
_OPENING = re.compile(
    r"(?<![\w*_~>.!?…])[*_~]{1,3}(?=[\w\"“'‘(¿¡—])|<(?!sup\b)[A-Za-z][^<>\n]{0,100}>|"
    r"(?<!\S)(?:\.{2,4}|…)(?=\w)"
)
_MARK_IN_BRACKETS = re.compile(r"(?<=[.!?…])([_*]{1,3})([\])])")
# Not "(he left.) and", nor a bracket that is a sentence of its own.
_BRACKETS = re.compile(
    r"(?<=[\w,”\"’] )\([^()\n]{0,300}[a-z]{2}[.!?…][\"'”’]?\)(?=\s+[\"“‘'(]?[A-ZÀ-ÖØ-Þ]|\s*$)"
)
_TITLES = """Abp Adj Adm Ald Amb Asst Atty Bp Br Brig Capt Cdr Chas Cmdr Col Cmdt Cpl Cpt Dep Det Dr
    Dra Ens Esq Fr Frl Ft Gen Geo Gov Hon Hr Insp Jas Lieut Lt Maj Messrs Mgr Mlle Mme Mmes Mons Mr
    Mrs Ms Msgr Mt Pfc Pres Prof Pte Pvt Rep Rev Rt Sec Sen Sgt Sig Ste Supt Thos Wm""".split()
_TITLE = rf"(?<!\w)({'|'.join([*_TITLES, *map(str.upper, _TITLES)])})\."
_BIG = "A-ZÀ-ÖØ-Þ"
_NEXT = r"\s+(?=[\"“‘']*"
# Where a sentence begins in a text without capitals.
_SMALL_START = re.compile(r"(?<!\.[. ]\.)(?<!\.\.)(?<=[.!?])\s+[\"“‘'(*_]?[^\W\d_]")
_OF_STATE = (
    r"(?:Agents?|Air|Ambassador|Army|Attorney|Congress|Constitution|Department|Embassy|Forces|"
    r"Government|House|Mail|Marines?|Marshals?|Military|Navy|Open|President|Senat|Soldiers?|"
    r"Supreme|Treasury|Troops|\w+day\b)"
)
_PAST = (
    "(?:[a-z]+ed|came|did|drove|fell|felt|found|gave|got|had|held|kept|knew|left|lost|made|met|ran|"
    "rode|said|sang|sat|saw|slept|spoke|stood|swam|took|thought|told|was|went|were|wept|woke|wrote)"
)
# Where syntok expects more: "so did I. She", "got a B. Then", "plan A. Otto knew", "the U.S. They",
# "to the U.S. Otto stayed", "his cap. Tom"; not "the U.S. Army", "by J. Smith", "by I. J. Low".
_SURE_END = re.compile(
    rf"(?<![\w'’-])(?!(?:by|of)\b)[a-z]+,?\sI\.[\"”’]?{_NEXT}[{_BIG}\"“](?!\.))|"
    rf"(?<![\w'’-])(?!(?:and|as|by|for|from|named|of|to|with)\b)"
    rf"(?:an?\s[A-Z]|[a-z]{{3,}}\s[A-ESXZ])\.[\"”’]?{_NEXT}[{_BIG}][\w’']*\s+[a-z])|"
    rf"(?:(?<=[A-Za-z][a-z])(?<!\bvs)(?<!\bSt)|(?<=[a-z]\s[A-Z])|(?<=\.[A-Za-z]))\.[\"”’]?"
    rf"{_NEXT}(?:{'|'.join(NO_NAME)})\b(?!\.))|"
    r"\b(?:U\.S(?:\.[AR])*|U\.K|U\.N|E\.U|D\.C|L\.A|[ap]\.m|etc|Co|Inc|[JS]r)\.[\"”’]?"
    rf"{_NEXT}(?!{_OF_STATE})[{_BIG}][a-zà-ÿ'’]+\s+{_PAST}\b)|"
    rf"\bSt\.{_NEXT}(?:He|She|It|They|We|The)\b)|"
    rf"\b(?:art|cap|figs?|lit|vie)\.{_NEXT}[{_BIG}][a-zà-ÿ])|(?<=\w)\.[\"”’]{_NEXT}[{_BIG}])"
)


def in_english_marks(text: str) -> str:
    """Return a text of the same length whose marks `syntok` splits correctly. Quotation marks of
    other languages become “ and ”. Spaces and emphasis inside the end of a sentence move behind it.
    `!` and `…` become `?` there. Everywhere, `;` becomes `,` and `Mr.` becomes `Mr·`."""
    chars, closing, is_open = list(text), "", {'"': False, "'": False}
    for match in _MARKS.finditer(text):
        mark, at = match.group(), match.start()
        before, after = text[at - 1 : at].strip(), text[match.end() : match.end() + 1].strip()
        if mark in closing:
            chars[at], closing = "”", ""
        elif mark in _CLOSED_BY:
            # A second mark of the same kind opens a quotation within the quotation, or a new
            # paragraph of speech.
            chars[at], closing = "“", _CLOSED_BY[mark]
        elif mark in ("``", "''"):
            chars[at : match.end()] = "“" + HIDDEN if mark == "``" else "” "
        elif mark in is_open:
            if not before and not after:  # detached: it closes if one is open
                last = text[max(0, at - 3) : at].rstrip()[-1:]
                if mark == "'" and not is_open[mark] and last not in '"“.,:;!?—-':
                    continue  # "the boys ' hats"
                chars[at] = "”" if is_open[mark] else "“"
            is_open[mark] = not is_open[mark] if bool(before) == bool(after) else not before
        elif mark not in "“”":
            closing, is_open = "", dict.fromkeys(is_open, False)  # they end with the paragraph
    marked = "".join(chars)
    if is_small := text.islower():
        marked = _SMALL_START.sub(lambda match: match[0][:-1] + match[0][-1].upper()[:1], marked)
    marked = _OPENING.sub(lambda match: HIDDEN * len(match[0]), marked)
    marked = _MARK_IN_BRACKETS.sub(lambda match: match[2].ljust(len(match[0])), marked)
    marked = _END.sub(_plain_end, marked)
    marked = _BRACKETS.sub(lambda match: f"{HIDDEN}{match[0][1:-1]} ", marked)
    marked = re.sub(_TITLE, r"\1·", marked, flags=re.IGNORECASE if is_small else 0)
    return marked.replace(";", ",")


def _plain_end(match: re.Match[str]) -> str:
    """Return a match of `_END`, the end of a sentence, in its simplest form: `.` or `?`, a
    quotation mark if the match has one, and spaces up to the same length."""
    mark = "".join(match["mark"].split())
    quote = re.search("[\"'”’]", match["closing"])
    return ((mark if mark == "." else "?") + (quote[0] if quote else "")).ljust(len(match[0]))


# Headings. A heading that is taken for a sentence gets a score; a sentence that is taken for a
# heading is lost, which is worse. So every rule asks for a line of its own in one of a few forms;
# in doubt, a line is a sentence.

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
    if not are_titled and titles >= _RECURS and titles * 2 >= numbers:
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
    return [] if is_repeated or len(places) < _RECURS else [line for run in places for line in run]


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
