"""Text that is shown: on one line, shortened, counted, and without what a terminal would obey."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.text import (
    beside_english,
    counted,
    for_terminal,
    one_line,
    shortened,
    shown_value,
)

from support.results import any_text

BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def is_printable(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cs") and (
        unicodedata.bidirectional(char) not in BIDI
    )


def test_control_characters_do_not_reach_a_terminal():
    assert for_terminal("a\x1b[31m\tb\u202e\ud800\n") == "a\ufffd[31m\tb\ufffd\ufffd\n"


@given(any_text)
def test_all_other_characters_are_kept(text):
    shown = for_terminal(text)
    assert len(shown) == len(text)
    assert all(is_printable(char) or char in "\t\n" for char in shown)
    assert all(a == b for a, b in zip(text, shown, strict=True) if b != "\ufffd")


@given(any_text)
def test_one_line(text):
    line = one_line(text)
    assert all(map(is_printable, line)) and len(line.splitlines()) <= 1
    assert line.split() == for_terminal(" ".join(text.split())).split(), "words are kept"
    assert one_line(line) == line and one_line(ValueError(text)) == line


@given(any_text, st.integers(1, 20), st.booleans())
def test_shortened(text, length, both_ends):
    line, short = one_line(text), shortened(text, length, both_ends)
    assert len(short) <= length
    if len(line) <= length:
        assert short == line
    else:
        start, end = short.split("…") if line.count("…") == 0 else short.rsplit("…", 1)
        assert line.startswith(start) and line.endswith(end if both_ends else "")


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a\nb", r"'a\nb'"), ([1, {"b": None}], "[1, {'b': None}]"), (10**5000, "int")],
    ids=["text", "nested", "of thousands of digits"],
)
def test_a_value_in_a_message(value, shown):
    assert shown_value(value) == shown
    assert len(shown_value([[value] * 50] * 50)) <= 100


def test_counts_have_a_noun_in_the_right_form():
    assert [counted(n, "row") for n in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]
    assert [counted(n, "story", "stories") for n in (1, 2)] == ["1 story", "2 stories"]


def test_names_from_right_to_left_are_kept_apart_from_numbers():
    for name in ("الأختان", "Ruth רות"):
        assert one_line(f"{beside_english(name)}: 5") == f"\u200e{name}\u200e: 5"
    for name in ("Salt", "Две сестры", "两位老姐妹"):
        assert beside_english(name) == name
