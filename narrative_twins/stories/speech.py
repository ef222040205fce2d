"""Direct speech in prose: which marks open and close a quotation, and whether a clause says who
spoke."""

from __future__ import annotations

import re

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
    for found in _MARKS.finditer(text):
        mark = found.group()
        if mark in closing:
            chars[found.start()], closing = "”", ""
        elif mark in _CLOSED_BY:
            # A second mark of the same kind opens a quotation within the quotation, or a new
            # paragraph of speech.
            chars[found.start()], closing = "“", _CLOSED_BY[mark]
        elif mark not in "“”":
            closing = ""  # a quotation ends with its paragraph
    return _ELLIPSIS.sub("?", "".join(chars))


# Verbs of speech without their endings; `snapp?` is for "snaps" and "snapped".
_REGULAR = """add admitt? agre announc answer argu ask assur bark beg?g? bellow bragg? call chant chid chirp command
    comment complain conced conclud confess continu coo correct counter croak crow declar demand drawl echo enquir
    exclaim explain gasp groan growl grumbl grunt hiss holler inquir insist interject interrupt intone? jok moan mumbl
    murmur mutter nagg? object observ offer order persist plead promis prompt protest quer question quipp? remark remind
    repeat report retort roar scoff scold scream shout shriek sigh snapp? sneer sobb? squeak squeal stammer stutter
    suggest teas urg wail warn whimper whin whisper wonder yell"""
_SPEECH = (
    r"(?:(?:"
    + "|".join(_REGULAR.split())
    + r")(?:e?d|e?s)|said|says?|cried|cries|replied|replies|queried|told|tells|"
    r"thinks|thought|swore|(?:began|begins|went on|goes on)(?=\W*[.,!?…])|wants? to know|wanted to"
    r" know)"
)
# "Tom ordered a beer", "Tom said nothing", "Tom called for help" are no tags: what may follow the
# verb is limited.
_MODIFIER = (
    r"(?:\w+ly|again|aloud|back|out|at|in|into|from|to|with|without|as|after|over|through|across|behind|beside|between|"
    r"under|when|while|before|and|but|himself|herself|themselves|myself)\b(?!\s+it\b)"
)
_ENDS = r"(?=\s*(?:[.,;:!?…—–]|-\s|$))"
# Only of these verbs an object may follow: "Tom asked her.", "Tom asked the old man, who ..."; not
# "asked her to go".
_ASKED = r"(?:asked|asks|told|tells|warned|warns|begged|begs|urged|urges|reminded|reminds|assured|assures)"
_NOUNS = r"(?:the|a|an|my|his|their)(?:\s+(?!(?:to|about|for|if)\b)[\w'’-]+){1,3}?"
_OBJECT = rf"\s+(?:me|us|him|her|them|you|{_NOUNS}|[A-Z][\w'’-]+){_ENDS}"
_ADVERBS = r"(?:\s+(?:\w+ly|then|also|just|only|even|almost|at last|had))*"

# Words with a capital letter that begin a sentence rather than name a speaker.
_NO_NAME = """A After All Also Although An And Another As At Because Before Both But By Each Even Every
    Everybody Everyone Everything Finally For From He Her Here His How However I If In It Its Just Later Many
    Maybe Most My Neither Next No Nobody None Nothing Now Of On Once One Only Or Other Others Our People Perhaps
    Quickly She Since Slowly So Some Somebody Someone Something Soon Still Suddenly That The Their Then There
    These They This Those Though Three Through To Two Under Until We What When Where Which While Who Why With
    Without Yet You Your"""
_WORD = r"[A-ZÀ-ÖØ-Þ][\w'’-]*\.?"
_NAME = rf"(?!(?:{'|'.join(_NO_NAME.split())})\b){_WORD}(?:\s+(?:{_WORD}|of|the|de|van|von|and)){{0,5}}?"

_TAG = re.compile(
    rf"(?:{_NAME}|I){_ADVERBS}\s+(?:{_ASKED}{_OBJECT}|{_SPEECH}(?:{_ENDS}|\s+{_MODIFIER}))"
)
# "He said." alone is no sentence, so it belongs to the speech before it whatever ends that.
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
"""Characters behind speech that are read to recognize who spoke."""


def is_tag(speech: str, after: str) -> bool:
    """Whether `after`, the text behind a possible end of a sentence, says who spoke the words in
    `speech`, and so belongs to the same sentence: `"Stop!"` + `I cried.`, `"Who's there?"` + `Mr.
    Bennet asked.`

    A clause with a capital letter is a tag only if the speech ends in a quotation mark after `!`,
    `?` or an ellipsis, and the clause has a name or "I", a verb of speech, and nothing behind it
    that makes it a statement of its own. So `"Stop!"` + `The dog ran.` and `"Stop!"` + `Tom called
    the dog.` are two sentences.
    """
    # A small letter continues the sentence; in Russian, Spanish or Polish behind a dash: `— Кто
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
