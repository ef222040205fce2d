"""The language of a text, as far as its script and its commonest words tell."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

_SCRIPTS = {
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "HANGUL": "ko",
    "CJK": "zh",
    "HEBREW": "he",
    "ARABIC": "ar",
    "GREEK": "el",
    "THAI": "th",
    "DEVANAGARI": "hi",
}
"""The first word of the names of characters, with the language that most texts in it have."""
# Frequent words of English, and of other languages in Latin script; none is in both.
_ENGLISH = set(
    """the and of to it he she his her him their they them you your we our my with is are was were
    had has have been be but not by from this what when where there who which said would could can
    into out after then got that as at""".split()
)
_OTHER = set(
    """der die das und ist nicht ein eine einen dem den sie er es ich wir von zu im mit sich auf
    le la les et un une des du il elle que qui dans pour pas je se sur au ce est
    el los las y en por con del al su lo una como no era
    di che non per si gli della e ma uno sono nel o os da um uma não com na ao
    het een van dat niet ik je zijn op och att det som på av inte han hon jag og ikke til var
    w z i się nie że na to jest a v ve bir bu için az és hogy nem egy volt
    și să cu nu mai ja ei hän oli se että ne ni ya wa yang dan itu dengan""".split()
) - {"to", "a", "i", "no", "o"}
_LETTERS = 2000  # of the beginning of a text
_FEW = 20
"""So few words are too few to tell that a text is not English."""


def language_of(text: str) -> str:
    """Return the code of the language of a text, such as `"en"` and `"ja"`; empty if neither its
    script nor its commonest words tell. English is told from other languages in Latin script."""
    script = _script(text)
    if script in _SCRIPTS:
        return _SCRIPTS[script]
    words = Counter(re.findall(r"[^\W\d_]+", text[: 5 * _LETTERS].lower()))
    english, other = (sum(words[word] for word in each) for each in (_ENGLISH, _OTHER))
    return "en" if english > max(other, words.total() / 12) else ""


def is_other_language(sentences: Sequence[str]) -> bool:
    """Return whether sentences are in another language than English, as far as their beginning
    tells; False for a few words in Latin script."""
    text = " ".join(sentences[:500])
    language = language_of(text)
    in_latin = _script(text) in ("", "LATIN")
    return language != "en" and bool(language or not in_latin or len(text.split()) > _FEW)


def _script(text: str) -> str:
    """Return the script of most letters of the beginning of a text, as the first word of their
    names; empty if there is none."""
    letters = [char for char in text[: 5 * _LETTERS] if char.isalpha()][:_LETTERS]
    names = (unicodedata.name(char, "") for char in letters)
    scripts = Counter(re.split("[ -]", name)[0] for name in names)
    # Japanese has characters of three scripts, and Chinese those of one.
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > len(letters) / 20:
        return "HIRAGANA"
    script, count = max(scripts.items(), key=lambda item: item[1], default=("", 0))
    return script if count > len(letters) / 2 else ""
