"""Fonts for the scripts that the user's font lacks, of those that are installed; matplotlib takes
each letter from the first of its fonts that has it."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

_EAST_ASIAN = {
    "Japanese": "Noto Sans CJK JP, Noto Sans JP, Yu Gothic, Meiryo, MS Gothic, Hiragino Sans,"
    " Hiragino Kaku Gothic ProN, IPAexGothic",
    "Korean": "Noto Sans CJK KR, Noto Sans KR, Malgun Gothic, Apple SD Gothic Neo, AppleGothic,"
    " NanumGothic",
    "Chinese": "Noto Sans CJK SC, Noto Sans SC, Microsoft YaHei, SimHei, PingFang SC,"
    " Hiragino Sans GB, Heiti SC, Heiti TC, STHeiti, WenQuanYi Micro Hei",
}
"""Families of fonts on Linux, Windows and macOS. Fonts of Japanese and Korean have Chinese
characters in the form that these languages write, so they come first."""
_ELSEWHERE = "Noto Sans {0}, Kohinoor {0}, Nirmala UI, Leelawadee UI, Noto Sans, Arial Unicode MS"
_SCRIPTS = {
    "Hiragana": "Japanese",
    "Katakana": "Japanese",
    "Hangul": "Korean",
    "Cjk": "Chinese",
    "Ideographic": "Chinese",
}
"""By the first word of the names of letters; other scripts have this word as their name."""


def with_fallbacks(families: Iterable[str], text: str) -> list[str]:
    """Return families of fonts, and after them the installed ones that have the letters of `text`
    that these lack."""
    from matplotlib.font_manager import get_font_names

    families, installed = list(families), set(get_font_names())
    letters = _lacking(text, families)
    for family in _families_of(_scripts(letters)):
        if family in installed and (rest := _lacking(letters, [family])) != letters:
            families.append(family)
            letters = rest
    return families


def tell_missing(figure: Figure) -> None:
    """Log a warning of scripts in a figure that none of its fonts has, once in a process."""
    from matplotlib.text import Text

    texts: list[Text] = figure.findobj(Text)
    scripts = {
        script
        for text in texts
        for script in _scripts(_lacking(text.get_text(), text.get_fontfamily()))
    }
    if "Japanese" in scripts:  # its fonts have Chinese characters, too
        scripts.discard("Chinese")
    if scripts:
        _tell(tuple(sorted(scripts)))


@cache
def _tell(scripts: tuple[str, ...]) -> None:
    """Log that there is no font of some scripts, and the cure."""
    from matplotlib import get_cachedir

    logger.warning(
        "no installed font has letters of %s, which a PNG image shows as boxes: install %s, and"
        " delete matplotlib's list of fonts in %s; or save an SVG, which its reader's fonts show",
        " and ".join(scripts),
        " and ".join(_families_of([script])[0] for script in scripts),
        get_cachedir(),
    )


def _lacking(text: Iterable[str], families: Iterable[str]) -> set[str]:
    """Return the letters of a text that none of some families of fonts has."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    letters = {char for char in text if char.isalpha()}
    for family in families:
        font = get_font(findfont(FontProperties(family=[family])))
        letters = {letter for letter in letters if not font.get_char_index(ord(letter))}
    return letters


def _scripts(letters: Iterable[str]) -> list[str]:
    """Return the scripts of letters, each once; East Asian ones come first, by their language."""
    names = (unicodedata.name(letter, "other") for letter in letters)
    words = {re.split("[ -]", name)[0].title() for name in names}
    scripts = {_SCRIPTS.get(word, word) for word in words}
    return [*(each for each in _EAST_ASIAN if each in scripts), *sorted(scripts - {*_EAST_ASIAN})]


def _families_of(scripts: Iterable[str]) -> list[str]:
    """Return the families of fonts that are common for some scripts, the best ones first."""
    lists = (_EAST_ASIAN.get(script, _ELSEWHERE.format(script)) for script in scripts)
    return [family for each in lists for family in each.split(", ")]
