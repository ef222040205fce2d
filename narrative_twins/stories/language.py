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
_ENGLISH = set("the and of to a in was he she it that his her i for on with had as at".split())
_LETTERS = 2000  # of the beginning of a text
_FEW = 20
"""So few words are too few to tell that a text is not English."""


def language_of(text: str) -> str:
    """Return the code of the language of a text, such as `"en"` and `"ja"`; empty if neither its
    script nor its commonest words tell. English is told from other languages in Latin script."""
    letters = [char for char in text[: 5 * _LETTERS] if char.isalpha()][:_LETTERS]
    names = (unicodedata.name(char, "") for char in letters)
    scripts = Counter(re.split("[ -]", name)[0] for name in names)
    # Japanese has characters of three scripts, and Chinese those of one.
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > len(letters) / 20:
        return "ja"
    script, count = max(scripts.items(), key=lambda item: item[1], default=("", 0))
    if count > len(letters) / 2 and script in _SCRIPTS:
        return _SCRIPTS[script]
    words = re.findall(r"[^\W\d_]+", text[: 5 * _LETTERS].lower())
    return "en" if sum(word in _ENGLISH for word in words) > len(words) / 8 else ""


def is_other_language(sentences: Sequence[str]) -> bool:
    """Return whether sentences are in another language than English, as far as their beginning
    tells; False for a few words in Latin script."""
    text = " ".join(sentences[:500])
    language = language_of(text)
    return language != "en" and bool(language or len(text.split()) > _FEW)
