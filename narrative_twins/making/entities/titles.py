"""Pronouns and titles, with the gender that each indicates."""

from __future__ import annotations

import re

from narrative_twins.making.entities.names import Gender

_PRONOUNS: dict[str, Gender | None] = {
    **dict.fromkeys("she her hers herself".split(), "f"),
    **dict.fromkeys("he him his himself".split(), "m"),
    **dict.fromkeys(
        "i me my mine myself you your yours yourself we us our ours ourselves it its itself".split()
    ),
    **dict.fromkeys(
        "they them their theirs themselves yourselves who whom whose that this these those one".split()
    ),
}
_TITLES: dict[str, Gender | None] = {
    **dict.fromkeys(
        "mrs ms miss mistress madam madame mademoiselle mme mlle señora señorita senora senorita".split(),
        "f",
    ),
    **dict.fromkeys(
        "lady dame queen empress princess duchess countess viscountess baroness".split(), "f"
    ),
    **dict.fromkeys("mother mom mum grandmother grandma granny aunt auntie sister".split(), "f"),
    **dict.fromkeys("mr mister messrs monsieur señor senor master sir".split(), "m"),
    **dict.fromkeys("lord king emperor prince duke count viscount baron".split(), "m"),
    **dict.fromkeys("father dad grandfather grandpa uncle brother".split(), "m"),
    **dict.fromkeys(
        "dr doctor prof professor judge president senator governor mayor minister".split()
    ),
    **dict.fromkeys(
        "general gen colonel col major maj captain capt commander lieutenant lt admiral".split()
    ),
    **dict.fromkeys(
        "sergeant sgt corporal private inspector detective officer constable sheriff".split()
    ),
    **dict.fromkeys("rev reverend saint st pastor bishop rabbi".split()),
}
_TITLE = re.compile(r"(\w+)\.?\s+")
_TITLE_BEFORE = re.compile(r"(?<!\w)(\w+)\.?\s+$")


def is_pronoun(word: str) -> bool:
    """Whether a word is a pronoun, in upper or lower case."""
    return word.lower() in _PRONOUNS


def pronoun_gender(word: str) -> Gender | None:
    """The gender that a pronoun indicates, if any."""
    return _PRONOUNS.get(word.lower())


def is_title(word: str) -> bool:
    """Whether a word is a title, with or without a period."""
    return word.rstrip(".").lower() in _TITLES


def after_titles(sentence: str, start: int, end: int) -> int:
    """The position after the titles at the start of a name; the last word counts as the name even
    if it is a title."""
    title = _TITLE.match(sentence, start, end)
    if title is None or title.end() >= end or not is_title(title[1]):
        return start
    return after_titles(sentence, title.end(), end)


def title_gender(sentence: str, start: int) -> Gender | None:
    """The gender indicated by the titles right before a name; the nearest one that indicates a
    gender decides."""
    while (title := _TITLE_BEFORE.search(sentence[:start])) is not None and is_title(title[1]):
        gender = _TITLES[title[1].lower()]
        if gender is not None:
            return gender
        start = title.start()
    return None
