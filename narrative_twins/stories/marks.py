"""Marks of any script and typography, written as the library `syntok` expects them."""

from __future__ import annotations

import re

HIDDEN = "\u200b"
"""In place of marks that belong to the next word, such as an opening `*`; a space for syntok."""
# A mark that opens a quotation if none is open, with the marks that close it. In English “ opens
# too, and in German it closes; in French « opens, and in German books it closes.
_CLOSED_BY = {"„": "“”", "«": "»", "»": "«", "‹": "›", "›": "‹"}
_STRAIGHT = ('"', "'")
_OF_QUOTATION = {"“": "“", "”": "”", "``": "“" + HIDDEN, "''": "” "}
_MARKS = re.compile(r"[„“”«»‹›\"]|``|''|(?<!\S)'(?!\S)|(?<=[.,!?…])'(?!\S)|\n[ \t\r]*\n")
# Characters that are not seen: of format, of direction, and variants of the one before.
_UNSEEN = r"\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"
_AT_EDGE = re.compile(rf"(?<!\w)[{_UNSEEN}]+|[{_UNSEEN}]+(?!\w)")  # not within a word
_JOINER = "\u2060"  # in place of characters that are not seen
_UNSEEN_SPACE = re.compile(rf"{_JOINER}(?![—–])")
# Full stops and question marks of other scripts: of Devanagari (also around the number of a verse),
# Arabic, Urdu, Syriac, Armenian, Ethiopic, Burmese, Khmer, Tibetan, Mongolian, Ol Chiki, Meetei.
_FULL_STOP = re.compile(
    r"॥\s?\d{1,4}\s?॥|[।॥؟۔܀-܂։።፧፨။។៕༎᠃᠉᱾᱿꫰꫱꯫⸮‼⁇⁈⁉‽．｡？！](?!\d)|፡፡|"
    r"(?<=[\u0370-\u03ff\u1f00-\u1fff]{2})[;\u037e](?!\w)"
)
_EMOJI = (
    r"(?:(?:[\u2300-\u23ff\u25a0-\u275a\u2761-\u2767\u2794-\u27bf\u2b00-\u2bff\u3030\u303d"
    r"\U0001f000-\U0001faff\U000e0020-\U000e007f]|[#*0-9]\u2060?\u20e3)\u2060?|"
    r"(?<!\S)(?:[:;=8]['’]?-?[()DPp/|]|<3)(?![^\s.!?…]))"
)
_GAP = rf"(?:[^\S\n]|{_JOINER})"
_NOTE = (
    r"\[(?:\d{1,3}|[a-z*†‡]|(?i:(?:foot)?note|citation)\b[^\]\n]{0,20})\]|[¹²³⁰-⁹]+|[†‡]|"
    r"<sup\b[^<>]{0,100}>[^<>]{0,20}</sup>|(?<=[a-z][.!?])\d{1,2}(?=\s+[\"“]?[A-Z])"
)
# The end of a sentence: its mark, perhaps with spaces or emoji before it, or the dash of speech
# that is cut off; and what closes after it. Not ".45".
_END = re.compile(
    rf"(?P<mark>(?:{_GAP}?[—–-]{{1,3}})?(?:(?:{_GAP}?{_EMOJI}){{0,8}}+{_GAP}{{0,4}}[.!?…])++|"
    rf"{_GAP}?(?:[—–]|--?)(?=[”’\"'*_]|{_GAP}[”’](?!\S)))"
    rf"(?P<closing>(?:[\"'”’*_~]|{_JOINER}(?![—–])|{_GAP}[”’](?!\S)|</\w{{1,10}}>|{_NOTE}|"
    rf"{_GAP}{{0,2}}{_EMOJI})*)"
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
# Ordinals before a month or another noun, and abbreviations, in German: "am 3. Oktober", "im 19.
# Jahrhundert", "z. B. heute".
_AFTER_ORDINALS = """Januar Jänner Februar März April Mai Juni Juli August September Oktober
    November Dezember Jahrhunderts? Jahrhunderten Weltkriege?s? Stock Stockwerk Etage Lebensjahr
    Geburtstage?s? Jahrestage?s?""".split()
_DOT_WITHIN = re.compile(
    rf"(?<=\d)\.(?=\s(?:{'|'.join(_AFTER_ORDINALS)})\b)|(?<=\b[zZ])\.(?=\s?B\.)|(?<=\b[dD])\.(?=\s?h\.)|"
    r"(?<=\b[uU])\.(?=\s?a\.)|(?<=\b[zZ]\.B)\.|(?<=\b[zZ]\. B)\."
)
_TITLE = rf"(?<!\w)({'|'.join([*_TITLES, *map(str.upper, _TITLES)])})\."
_NO_MARK = re.compile(rf"{_EMOJI}|{_JOINER}")
# Where a sentence begins in a text without capitals.
_SMALL_START = re.compile(r"(?<!\.[. ]\.)(?<!\.\.)(?<=[.!?])\s+[\"“‘'(*_]?[^\W\d_]")


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
        before = text[at - 1 : at].strip().strip(_JOINER)
        after = text[at + 1 : at + 2].strip().strip(_JOINER)
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
    other languages become “ and ”. What belongs to the end of a sentence, such as emphasis, emoji
    and spaces inside it, moves behind it as spaces. `!` and `…` become `?` there, and full stops of
    other scripts do everywhere, `;` becomes `,` and `Mr.` becomes `Mr·`."""
    marked = _AT_EDGE.sub(lambda match: _JOINER * len(match[0]), text)
    marked = _MARKS.sub(_Quotations().replacement, marked)
    marked = _FULL_STOP.sub(lambda match: "?".ljust(len(match[0])), marked)
    if is_small := text.islower():
        marked = _SMALL_START.sub(lambda match: match[0][:-1] + match[0][-1].upper()[:1], marked)
    marked = _OPENING.sub(lambda match: HIDDEN * len(match[0]), marked)
    marked = _MARK_IN_BRACKETS.sub(lambda match: match[2].ljust(len(match[0])), marked)
    marked = _UNSEEN_SPACE.sub(HIDDEN, _END.sub(_plain_end, marked))
    marked = _BRACKETS.sub(lambda match: f"{HIDDEN}{match[0][1:-1]} ", marked)
    marked = re.sub(_TITLE, r"\1·", marked, flags=re.IGNORECASE if is_small else 0)
    return _DOT_WITHIN.sub("·", marked).replace(";", ",")


def _plain_end(match: re.Match[str]) -> str:
    """Return a match of `_END`, the end of a sentence, in its simplest form: `.` or `?`, a
    quotation mark if the match has one, and spaces up to the same length."""
    mark = match["mark"].strip()
    is_stop = mark.endswith(".") and "".join(_NO_MARK.sub("", mark).split()) == "."
    quote = re.search("[\"'”’]", match["closing"])
    return (("." if is_stop else "?") + (quote[0] if quote else "")).ljust(len(match[0]))
