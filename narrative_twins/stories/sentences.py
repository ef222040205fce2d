"""Splitting of raw text into sentences. `speech.py` has the patterns of direct speech."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

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
_RECURS = 3  # names in small letters that are no chance
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
_STRAIGHT = ('"', "'")
_OF_QUOTATION = {"“": "“", "”": "”", "``": "“" + HIDDEN, "''": "” "}
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


class _Quotations:
    """Replaces the quotation marks of a text, one after another, by “ and ”, and remembers which
    quotations are open."""

    def __init__(self) -> None:
        self._closing = ""  # what closes the quotation of `_CLOSED_BY` that is open
        self._open: set[str] = set()  # straight marks

    def replacement(self, match: re.Match[str]) -> str:
        """Return what stands for a match of `_MARKS`, with the same length."""
        mark = match[0]
        if mark in self._closing:
            self._closing = ""
            return "”"
        if mark in _CLOSED_BY:
            # A second mark of the same kind opens a quotation within the quotation, or a new
            # paragraph of speech.
            self._closing = _CLOSED_BY[mark]
            return "“"
        if mark in _STRAIGHT:
            return self._straight(match)
        if mark not in _OF_QUOTATION:  # a blank line: quotations end with the paragraph
            self._closing, self._open = "", set()
        return _OF_QUOTATION.get(mark, mark)

    def _straight(self, match: re.Match[str]) -> str:
        """Return what stands for a straight mark: the mark itself, unless spaces are around it."""
        mark, text, at = match[0], match.string, match.start()
        before, after = text[at - 1 : at].strip(), text[at + 1 : at + 2].strip()
        is_open, is_detached = mark in self._open, not before and not after
        if is_detached and mark == "'" and not is_open:
            last = text[max(0, at - 3) : at].rstrip()[-1:]
            if last not in '"“.,:;!?—-':
                return mark  # "the boys ' hats"
        opens = not is_open if bool(before) == bool(after) else not before
        self._open = self._open | {mark} if opens else self._open - {mark}
        if not is_detached:
            return mark
        return "”" if is_open else "“"


def in_english_marks(text: str) -> str:
    """Return a text of the same length whose marks `syntok` splits correctly. Quotation marks of
    other languages become “ and ”. Spaces and emphasis inside the end of a sentence move behind it.
    `!` and `…` become `?` there. Everywhere, `;` becomes `,` and `Mr.` becomes `Mr·`."""
    marked = _MARKS.sub(_Quotations().replacement, text)
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
