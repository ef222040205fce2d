"""Splitting of raw text into sentences. `speech.py` has the patterns of direct speech."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

from syntok.segmenter import segment
from syntok.tokenizer import Tokenizer

from narrative_twins.extras import check_extra
from narrative_twins.stories.marks import HIDDEN, in_english_marks
from narrative_twins.stories.speech import NO_NAME, REACH, is_tag, with_cues

Span: TypeAlias = tuple[int, int]
"""A half-open range of characters, or of sentences."""
SplitFunction: TypeAlias = Callable[[str], Iterable[str]]
Splitter: TypeAlias = str | SplitFunction
"""How raw text is split: by a name in `SPLITTERS` or the code of a language, without headings, or
by a function, whose pieces are all scored."""

_BLANK_LINES = re.compile(r"\r?\n(?:[^\S\n]*\n)+")
# Ends of sentences that no space follows, as in Chinese and Burmese. A Chinese quotation that
# ends there may be part of a longer sentence, so only another quotation ends it.
_UNSPACED_END = re.compile(
    r"[。！？]+(?:(?![。！？”’」』）…，、])(?=\S)|[”」』]+(?=[“「『]))|"
    r"(?:॥\s?\d{1,4}\s?॥|[।॥።፧။។])+(?=[^\W\d_])"
)
_MID_SENTENCE = re.compile(r"[”」』](?<!\s)(?=[^\s“「『])")
_QUOTES = {"“", "”", "‘", HIDDEN}
_CLOSED = re.compile(r"(?:(?<=\S)[”’‘]+)?\s*")
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_TOKENIZER = Tokenizer(replace_not_contraction=False)

_BIG = "A-ZÀ-ÖØ-Þ"
_NEXT = r"\s+(?=[\"“‘']*"
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
    rf"\b(?:art|cap|figs?|lit|vie)\.{_NEXT}[{_BIG}][a-zà-ÿ])|(?<=\w)\.[\"”’]{_NEXT}[{_BIG}])|"
    rf"(?<=\w\s”)\.{_NEXT}[{_BIG}])"
)


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
      after it. See `with_cues`.
    - `“...”`, `„...“`, `»...«`, `«...»` and `« ... »` are quotations.
    - A text without capital letters is split at its full stops.
    - Full stops of other scripts end sentences, such as `।`, `۔`, `።` and `։`; in Chinese, Japanese
      and Burmese no space follows.
    - Emoji and characters that are not seen belong to the sentence before them.
    """
    marked = in_english_marks(text)
    edges = [0, *(edge for blank in _BLANK_LINES.finditer(text) for edge in blank.span())]
    spans = [
        (lo + start, lo + stop)
        for lo, hi in zip(edges[::2], [*edges[1::2], len(text)], strict=True)
        for start, stop in _sentences(marked[lo:hi], text[lo:hi], language)
    ]
    return [
        piece
        for start, end in with_cues(text, spans)
        for piece in _split_unspaced(text[start:end].strip())
        if piece
    ]


def _starts(marked: str, paragraph: str, language: str | None) -> set[int]:
    """Return the offsets in a paragraph at which a sentence may start. `marked` is the paragraph
    after `in_english_marks`, `language` a code for `sentencex` or None for `syntok`."""
    if language is None:
        starts = {tokens[0].offset for tokens in segment(_TOKENIZER.tokenize(marked)) if tokens}
        return starts | {end.end() for end in _SURE_END.finditer(marked)}
    from sentencex import get_sentence_boundaries

    # Hidden are quotation marks, as it would not split within them, and the full stops of ordinals.
    pairs = zip(paragraph, marked, strict=True)
    hidden = "".join(
        HIDDEN if mark in _QUOTES else mark if mark == "·" else char for char, mark in pairs
    )
    starts = {bound["start_index"] for bound in get_sentence_boundaries(language, hidden)}
    starts = {next(_CLOSED.finditer(marked, start)).end() for start in starts}
    return {start for start in starts if not _MID_SENTENCE.match(paragraph, max(0, start - 1))}


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
            if is_tag(sentence[-10:], marked[start : start + REACH], is_led):
                continue
        if start > begin:
            yield begin, start
        line = marked.rfind("\n", begin, start) + 1 or line
        begin = start


def _split_unspaced(sentence: str) -> Iterator[str]:
    """Yield the parts of a text that is split after each end of a sentence without a space."""
    start = 0
    for end in _UNSPACED_END.finditer(sentence):
        yield sentence[start : end.end()].strip()
        start = end.end()
    yield sentence[start:].strip()


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
    """Return the function that splits a text as `splitter` says; None and `"auto"` are the default.
    Raises a `ValueError` for an unknown name, a `TypeError` for a value of another type, and an
    `ImportError` if a language needs `sentencex`, which is not installed."""
    if callable(splitter):
        return splitter  # type: ignore[no-any-return]
    name = "sentences" if splitter in (None, "auto") else splitter
    if isinstance(name, str) and name in SPLITTERS:
        return SPLITTERS[name]
    if isinstance(name, str) and _LANGUAGE.fullmatch(name):
        check_extra("books")
        split = partial(split_sentences, language=name)
        vars(split).update(__name__=name)  # for the settings of a run
        return split
    names = ", ".join(map(repr, ("auto", *SPLITTERS)))
    raise (ValueError if isinstance(name, str) else TypeError)(
        f"splitter={name!r:.60}: choose {names}, the code of a language such as 'de', or a function"
        " from a text to its sentences, in commands MODULE:FUNCTION"
    )


def is_blank(text: str) -> bool:
    """Return whether a text has only white space, control and format characters."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)
