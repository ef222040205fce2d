"""Patterns of direct speech: clauses that say who spoke, and names of characters before their
speech. `is_tag` and `is_cue` in `sentences.py` use them."""

from __future__ import annotations

import re

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
# "RUNA.", "OTTO. [Aside.]", "MARTA (V.O.)", "_Witch._" (whose marks of emphasis are hidden); not
# "NO."
_NO_CUE = rf"(?!(?:{'|'.join([*NO_NAME, *map(str.upper, NO_NAME)])}|(?i:no|yes|oh|stop|well))\b)"
_CAPITALS = r"[A-ZÀ-ÖØ-Þ][A-ZÀ-ÖØ-Þ0-9'’.,& -]{1,40}"
_CAPITALIZED = r"[A-ZÀ-ÖØ-Þ][\w'’-]*(?:\.? [A-ZÀ-ÖØ-Þ][\w'’-]*){0,2}"
CUE = re.compile(
    rf"{_NO_CUE}(?:{_CAPITALS}(?:[.:]{_DIRECTION}?|\s{_DIRECTION})|"
    rf"\u200b{_NO_CUE}{_CAPITALIZED}[.:]{_DIRECTION}?)"
)
# The same, also without the mark, and perhaps with the speech.
NAME = re.compile(
    rf"[_*]*{_NO_CUE}(?P<name>(?P<capitals>{_CAPITALS}?)|{_CAPITALIZED})"
    rf"(?P<mark>[.:]?)[_*]*(?P<direction>{_DIRECTION}?)"
    r"(?P<speech>(?:(?<=[.:_*\])])[^\S\n]+(?=[\[(“\"‘']*(?:[A-Z]?[a-z]|[AIO]\s))|(?<=[A-Z.:)])\n)"
    r"[^\0]*)?"
)
