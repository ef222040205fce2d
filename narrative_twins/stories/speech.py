"""Patterns of direct speech: clauses that say who spoke, and names of characters before their
speech. Both are one sentence with the speech."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

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
# What may follow the verb of a tag: not as in "Tom said nothing", "Tom called for help".
_MODIFIER = (
    r"(?:\w+ly|again|aloud|back|out|at|in|into|from|to|with|without|as|after|over|through|"
    r"across|behind|beside|between|under|when|while|before|and|but|himself|herself|themselves|"
    r"myself)\b(?!\s+it\b)"
)
_ENDS = r"(?=\s*(?:[.,;:!?…—–]|-\s|$))"
# Only of these verbs an object may follow: "Tom asked her.", "Tom asked the old man, who ..."; not
# "asked her to go".
_ASKED = (
    r"(?:asked|asks|told|tells|warned|warns|begged|begs|urged|urges|reminded|reminds|assured"
    r"|assures)"
)
_NOUNS = r"(?:the|a|an|my|his|their)(?:\s+(?!(?:to|about|for|if)\b)[\w'’-]+){1,3}?"
_ANYBODY = r"(?:no|any|every|some)[ -]?(?:one|body)(?:\s+in\s+\w+(?:\s+\w+)?)?"
_OBJECT = rf"\s+(?:me|us|him|her|them|you|{_ANYBODY}|{_NOUNS}|[A-Z][\w'’-]+){_ENDS}"
_ADVERBS = r"(?:\s+(?:\w+ly|then|also|just|only|even|almost|at last|had))*"

# Words with a capital letter that begin a sentence rather than name a speaker.
NO_NAME = """A After All Also Although An And Another As At Because Before Both But By Each Even
    Every Everybody Everyone Everything Finally For From He Her Here His How However I If In It Its
    Just Later Many Maybe Most My Neither Next No Nobody None Nothing Now Of On Once One Only Or
    Other Others Our People Perhaps Quickly She Since Slowly So Some Somebody Someone Something Soon
    Still Suddenly That The Their Then Thus There These They This Those Though Three Through To Two
    Under Until We What When Where Which While Who Why With Without Yet You Your""".split()
_WORD = r"[A-ZÀ-ÖØ-Þ][\w'’-]*[.·]?"
_NAME = (
    rf"(?!(?:{'|'.join(NO_NAME)})\b){_WORD}"
    rf"(?:\s+(?:{_WORD}|of|the|de|van|von|and)){{0,5}}?"
)

# What somebody did after speech. Any other verb in "-ed" or "-s" that ends the clause of a name is
# taken for one of speech: "Tom snarled.", "Tom mused aloud."
_ACTIONS = """appear arriv blink blush bolt bow charg climb collaps cough crash dart dash die
    disappear div dodg duck enter escap faint follow glar grinn happen hesitat hurri jump kick
    land lean leap limp listen look lung march mov nodd obey pass paus point rac relax retreat
    return roll rush scrambl shiver shrugg shudder slump smil stagger star start stepp stiffen
    stopp stumbl swallow tens trembl tripp tumbl turn vanish wait walk wav winc wink""".split()
_NO_VERB = (
    rf"(?:(?:{'|'.join(_ACTIONS)})p?(?:e?d|e?s)|fled|sped|bled|led|fed|"
    r"was|is|has|this|his|its|as|us|across|always|goes|does|comes|runs|stands|sits|leaves)\b"
)
_MANNER = r"(?:\s+(?:\w+ly|again|aloud|back|in turn|out|together|(?:in|with) (?:an?|his|her) \w+))?"
_SPOKE = (
    rf"(?!{_NO_VERB})(?:[a-z]{{2,}}(?:ed|s)|began|(?:broke|cut|put) in|quoth|sang|spat|spoke|swore)"
    rf"{_MANNER}(?=\s*(?:[.!?…]|,\s))"
)
# "Otto", "Otto's old teacher", "Otto and his aunt", "Otto, who was old,"
_SPEAKER = (
    rf"(?:I|{_NAME}(?:['’]s?(?:\s+(?!was|is|were|are|ha[ds])[a-z]+){{1,2}}?)?"
    r"(?:,\s[^.!?…\"“”]{3,60},|\s+and\s+(?:(?:his|her|my|the)\s+)?\w+)?)"
)
_SOMEBODY = r"(?:The|An?|One of|Both|My|His|Her)(?:\s+[\w'’-]+){1,3}?"
TAG = re.compile(
    rf"{_SPEAKER}{_ADVERBS}\s+(?:{_ASKED}{_OBJECT}|{_SPEECH}(?:{_ENDS}|\s+{_MODIFIER})|{_SPOKE})|"
    rf"{_SOMEBODY}\s+{_SPEECH}(?=\s*[.!?…])|"
    rf"(?i:{_SPEECH})\s+(?:I|he|she|they|{_NAME}|{_NOUNS}){_ENDS}"
)
# "He said." alone is not a sentence, so it belongs to the speech before it whatever ends that.
BARE_TAG = re.compile(
    rf"(?:I|He|She|They|We|{_NAME}|(?:The|My|His|Her)(?:\s+[\w'’-]+){{1,3}}?)\s+"
    rf"(?:said|says|asked|asks|replied|replies)(?:\s+\w+ly)?\s*[.!?…]"
)
# Verbs of speech in languages whose letters or word order the rules above do not know.
_VERBS = {
    "ar": "قال(?:ت|وا)? يقول تقول سأل(?:ت|وا)? يسأل تسأل صاحت? صرخت? أجابت? ردت? همست? هتفت?",
    "fa": "گفت(?:ند)? پرسید(?:ند)? داد فریاد زد",
    "ur": "کہا پوچھا بول[اےی] چلّ?ای[اےی]? دیا",
    "hi": "कहा पूछा बोल[ाीे] चिल्ला(?:या|यी|ई|ए) फुसफुसा(?:या|यी|ई|ए) दिया",
    "bn": "বলল(?:েন)? বললো জিজ্ঞেস জিজ্ঞাসা চিৎকার",
    "ko": r"(?:이?라고|하고)[^.!?…]* \S*(?:말[했한]|[물묻]|대답|[외소리]쳤|속삭|중얼|했)\S*",
    "vi": "nói hỏi đáp kêu hét thầm gào la lời",
    "tr": "ded[ii]\\w* diye sor(?:du|ar)\\w* bağır\\w* fısılda\\w* cevapla\\w*",
}
_ALL_VERBS = "|".join(verb for verbs in _VERBS.values() for verb in verbs.split(" "))
OTHER_TAG = re.compile(
    rf"(?=[^\W\d_])(?:[^\s.!?…:\n\"“”«»]+[^\S\n]+){{0,5}}?(?:{_ALL_VERBS})"
    r"(?=[.!?…]|[^\S\n][^.!?…:\n\"“”«»]{1,40}[.!?…])"
)
# "Stop!" Tom shouted: "Come!" and "Stop!" Tom shouted, "Come!": the clause belongs to the speech
# that follows.
INTRODUCES = re.compile(r"[^.!?…]{0,80}(?::|[,—–-]\s*[\"“‘'«»„][A-ZÀ-ÖØ-Þ])")
SPEECH_END = re.compile(r"([.!?…]+)\s?[\"'’”“»«›‹]+$")
# A hyphen at the beginning of a line is a bullet.
SMALL_LETTER = re.compile(r"(?:[^\S\n]*-\s|[\s\u200b]*)(?:[,;:—– ]|--+)*([^\W\d_])")

MAX_CUE = 100
"""Characters of the longest name before a speech."""
_DIRECTION = r"(?:\s*[\[(][^\n()\[\]]{1,80}[\])]\.?)"
DIRECTION = re.compile(rf"{_DIRECTION}\s*")
# "MARCH 3.", "HARBOUR TOWN, 1912." and "IV." are no names.
_DATE = (
    r"(?i:january|february|march|april|may|june|july|august|september|october|november|december)"
    r"\W+\d|[^\n:]{0,40}\d{3}|[IVX]+\b"
)
_NO_CUE = (
    rf"(?!{_DATE}|(?:{'|'.join([*NO_NAME, *map(str.upper, NO_NAME)])}|(?i:no|yes|oh|stop|well))\b)"
)
_CAPITALS = r"[A-ZÀ-ÖØ-Þ][A-ZÀ-ÖØ-Þ0-9'’.,& -]{1,40}"
_CAPITALIZED = r"[A-ZÀ-ÖØ-Þ][\w'’-]*(?:\.? [A-ZÀ-ÖØ-Þ][\w'’-]*){0,2}"
# "RUNA.", "OTTO. [Aside.]", "MARTA (V.O.)", "_Witch._", "RUNA", perhaps with the speech; not "NO."
NAME = re.compile(
    rf"(?P<emphasis>[_*]*){_NO_CUE}(?P<name>(?P<capitals>{_CAPITALS}?)|{_CAPITALIZED})"
    rf"(?P<mark>[.:]?)[_*]*(?P<direction>{_DIRECTION}?)"
    r"(?P<speech>(?:(?<=[.:_*\])])[^\S\n]+(?=[\[(“\"‘']*(?:[A-Z]?[a-z]|[AIO]\s))|(?<=[A-Z.:)])\n)"
    r"[^\0]*)?"
)
_RECURS = 3  # names in small letters that are no chance
_NEAR = 40  # lines in which names in small letters recur
_ALL_CAPITALS = re.compile(r"\W*[A-ZÀ-ÖØ-Þ][A-ZÀ-ÖØ-Þ'’]+\W+[A-ZÀ-ÖØ-Þ][A-ZÀ-ÖØ-Þ'’]+\b")

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
    if end.group(1) != "." and (TAG.match(after) or OTHER_TAG.match(after)):
        return True
    bare = BARE_TAG.match(after)
    return bare is not None and not after[bare.end() :].lstrip()[:1].islower()


class _LineStart(NamedTuple):
    """A sentence that begins a line, and perhaps is the name of who speaks after it.

    Attributes:
        form: the sentence as a match of `NAME`; None if it does not match.
        is_alone: whether the next sentence begins a line, too.
        after: the beginning of the next sentence.
    """

    form: re.Match[str] | None
    is_alone: bool
    after: str

    @property
    def name(self) -> str:
        """The name, empty without one."""
        return self.form["name"] if self.form else ""

    @property
    def is_distinct(self) -> bool:
        """Whether the name is in capitals, or emphasized."""
        return bool(self.form and (self.form["capitals"] or self.form["emphasis"]))

    @property
    def is_directed(self) -> bool:
        """Whether a direction follows the name: `OTTO (softly)`, `OTTO. [Aside.]`."""
        is_next = self.form and self.form["mark"] and DIRECTION.match(self.after)
        return bool(is_next or (self.form and self.form["direction"]))

    @property
    def is_marked(self) -> bool:
        """Whether a mark or a direction follows the name."""
        return bool(self.form and (self.form["mark"] or self.form["direction"]))

    @property
    def is_short(self) -> bool:
        """Whether the name is one word, or emphasized."""
        return " " not in self.name or bool(self.form and self.form["emphasis"])

    @property
    def is_before_speech(self) -> bool:
        """Whether the sentence is only a name, and text that is not in capitals follows."""
        has_end = self.form is not None and not self.form["speech"] and self.form.end() <= MAX_CUE
        return has_end and (self.is_marked or self.is_alone) and not _ALL_CAPITALS.match(self.after)


def with_cues(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans of the sentences of a text, with each cue joined to the sentence after it,
    also across a blank line. A cue is the name of who speaks, such as `RUNA.`, at the beginning of
    a line."""
    cues = _cues(text, spans)
    joined: list[tuple[int, int]] = []
    is_open = False
    for at, (start, stop) in enumerate(spans):
        is_joined = is_open and not text[joined[-1][1] : start].strip()
        joined.append((joined.pop()[0] if is_joined else start, stop))
        is_open = at in cues or bool(is_joined and DIRECTION.fullmatch(text, start, stop))
    return joined


def _cues(text: str, spans: Sequence[tuple[int, int]]) -> set[int]:
    """Return the indices of the sentences that are cues, see `_Cast`."""
    starts = [at for at, span in enumerate(spans) if _begins_line(text, span[0])]
    sentences = [text[slice(*span)].strip() for span in (*spans, (0, 0))]
    begin = {*starts, len(spans)}
    lines = [
        _LineStart(
            NAME.fullmatch(sentences[at][: MAX_CUE + 1]),
            at + 1 in begin,
            sentences[at + 1][:MAX_CUE],
        )
        for at in starts
    ]
    cast = _Cast(lines)
    return {at for number, at in enumerate(starts) if cast.speaks(number, lines[number])}


class _Cast:
    """The names of who speaks in a text. A name alone may be a sentence, a date or a place; a cast
    speaks again and again:

    - names in capitals, `RUNA.`, that come again or have a direction, `OTTO (softly)`;
    - where these are several, or have directions, also one word, or emphasis, that comes once;
    - names in other letters, `Witch.`, if such names are frequent nearby.
    """

    def __init__(self, lines: Sequence[_LineStart]) -> None:
        counts = Counter(filter(None, (line.name for line in lines)))
        distinct = [line for line in lines if line.is_distinct]
        self.names = {line.name for line in distinct if counts[line.name] > 1}
        self.is_of_play = len(self.names) > 1 or any(line.is_directed for line in distinct)
        often = [at for at, line in enumerate(lines) if counts[line.name] >= _RECURS]
        runs = zip(*(often[start:] for start in range(_RECURS + 1)), strict=False)
        self.near = {at for run in runs if run[-1] - run[0] <= _NEAR for at in run}

    def speaks(self, number: int, line: _LineStart) -> bool:
        """Return whether a line, the one with this number, is a cue."""
        if not line.is_before_speech:
            return False
        is_single = self.is_of_play and line.is_marked and line.is_short
        is_of_cast = line.is_directed or line.name in self.names or is_single
        return number in self.near or (line.is_distinct and is_of_cast)


def _begins_line(text: str, start: int) -> bool:
    """Return whether only white space is before a place in its line."""
    return not text[text.rfind("\n", 0, start) + 1 : start].strip()
