"""Rows of twins and synopses: all supported columns, and errors with the place and the fix."""

import pytest
from hypothesis import given, settings

from narrative_twins.data import RowError, check_twins_row
from narrative_twins.data.labels import story_salience
from narrative_twins.data.rows import (
    ShortWindowError,
    check_texts,
    story_twins,
    turning_points,
    window_twins,
)

from support.json_values import ROWS, mutations

TWINS = {
    "story": ["Nadia ran.", "It rained."],
    "twin": ["Nadia hurried off.", "Water fell."],
    "negative": ["Nadia sat.", "It rained."],
    "negative_twin": ["She sat.", "Water fell.", "That was all."],
    "story_votes": [3, 1],
    "negative_votes": None,
}
SYNOPSIS = {
    "title": "The Mill",
    "story": [["Omar buys a mill.", "It is old."], ["It burns.", "He weeps."]],
    "twin": ["A mill is bought by Omar.", "Soon it is in flames.", "The end."],
    "twin_windows": [[0], [0, 1], []],
    "negative": [["Omar buys a mill."], ["It thrives."]],
    "turning_points": [0, 2],
}
PUBLISHED = {
    "title": "The Mill",
    "english_narrative": ["Omar buys a mill.", "It is old.", "It burns.", "He weeps."],
    "translated_narrative_twin": SYNOPSIS["twin"],
    "alignment": [[0, 0], [1, 1], [2, 1], [1, 0]],
    "negative_narrative": {"section_2": ["It thrives."], "section_1": ["Omar buys a mill."]},
}
FILM = {"sentences": ["A.", "B.", "C.", " ", "D.", "E."], "turning_points": [0, 1, "2", 4, 5]}
A, B, C = ["A.", "Aa."], ["B."], ["C."]


def test_rows_of_twins_in_their_own_form_are_unchanged():
    assert story_twins(TWINS, "here") == TWINS
    assert window_twins(SYNOPSIS, "here", 5) == SYNOPSIS
    for row in (TWINS, SYNOPSIS):
        check_twins_row(row, "here")


def test_story_twins_as_published():
    names = {"twin": "narrative_twin", "negative_twin": "negative_narrative_twin"}
    assert story_twins({names.get(key, key): TWINS[key] for key in TWINS}, "here") == TWINS
    alone = story_twins({"story": A, "twin": B, "theme": "mills"}, "here")
    assert alone == dict.fromkeys(TWINS) | {"story": A, "twin": B}


def test_window_twins_as_published():
    found = window_twins(PUBLISHED, "here", 2, min_window=1)
    assert found == SYNOPSIS | {"turning_points": None}
    one = PUBLISHED | {"negative_narrative": None}
    assert window_twins(one, "here", 1, 1)["story"] == [PUBLISHED["english_narrative"]]


def test_window_twins_in_plain_windows():
    twin = [["A mill is bought by Omar.", "Soon it is in flames."], ["The end."]]
    row = {key: SYNOPSIS[key] for key in ("title", "story", "negative")}
    found = window_twins({**row, "twin": twin}, "here", 5)
    assert found == SYNOPSIS | {"twin_windows": [[0], [0], [1]], "turning_points": None}


@pytest.mark.parametrize(("least", "short"), [(None, True), (1, False), (2, True), (4, True)])
def test_rows_with_short_windows(least, short):
    """Published rows need three sentences a window, unless another number is given."""
    if short:
        with pytest.raises(ShortWindowError, match="sentence"):
            window_twins(PUBLISHED, "here", 2, least)
    else:
        window_twins(PUBLISHED, "here", 2, least)
    with pytest.raises(ShortWindowError, match=r"'story' has 4 sentence\(s\), too few for 5"):
        window_twins(PUBLISHED, "here", 5)
    plain = SYNOPSIS | {"twin_windows": [[0], [0], []]}
    with pytest.raises(RowError, match="no sentence of 'twin' is in window 1") as raised:
        window_twins(plain, "here", 5, least)
    assert isinstance(raised.value, ShortWindowError) == (least is not None)


def test_turning_points_without_empty_sentences():
    found = turning_points(FILM, "here", 2)
    assert found["story"] == ["A.", "B.", "C.", "D.", "E."]
    assert (found["windows"], found["turning_points"]) == ([[0, 2], [2, 5]], [0, 1, 2, 3, 4])


def film(row, where):
    return turning_points(row, where, 5)


def windows(row, where):
    return window_twins(row, where, 2)


@pytest.mark.parametrize(
    ("convert", "row", "message"),
    [
        (story_twins, TWINS | {"twin": None}, r"no column 'twin' \(or 'narrative_twin'\); .*'story'"),
        (story_twins, TWINS | {"story": []}, "'story': the story is empty; give it at least"),
        (story_twins, TWINS | {"story": "A. B."}, "'story' is one text; split it into sentences"),
        (story_twins, TWINS | {"twin": [["A."]]}, "'twin' is a list of lists; a list of sentences"),
        (story_twins, TWINS | {"twin": ["A.", ["B."]]}, "'twin': sentence 1 is list, not text"),
        (story_twins, TWINS | {"story_votes": [1]}, "'story_votes' has 1 numbers of votes for 2 sent"),
        (story_twins, TWINS | {"story_votes": [0, 0]}, "'story_votes' has no votes; at least one"),
        (windows, PUBLISHED | {"negative": {"section_3": A}}, "has the sections 'section_3'; name"),
        (windows, PUBLISHED | {"alignment": [[4, 1]]}, r"alignment \(story\)' has 4; .* from 0 to 3"),
        (windows, PUBLISHED | {"alignment": [[0, 3]]}, r"alignment \(twin\)' has 3; .* from 0 to 2"),
        (windows, PUBLISHED | {"alignment": [[0, 1, 2]]}, "not a pair"),
        (windows, PUBLISHED | {"alignment": None}, r"no column 'alignment' \(or 'twin_windows'\)"),
        (windows, PUBLISHED | {"story": [A, []]}, r"'story\[1\]': the story is empty"),
        (windows, SYNOPSIS | {"twin": [A, B]}, "remove 'twin_windows'"),
        (windows, SYNOPSIS | {"turning_points": [4]}, "'turning_points' has 4; .* from 0 to 3"),
        (film, FILM | {"turning_points": [0, 1, 2, 4, 6]}, "'turning_points' has 6; .* from 0 to 5"),
        (film, FILM | {"turning_points": [0, 1, 2, 4]}, "4 turning points; five are needed"),
        (film, FILM | {"turning_points": [0, 1, 2, 3, 4]}, "the turning point 3 is an empty sentence"),
        (film, {"sentences": A, "turning_points": [0, 0, 0, 1, 1]}, "windows=5 .*2 sentence"),
    ],
)  # fmt: skip
def test_invalid_rows(convert, row, message):
    with pytest.raises(RowError, match=f"^here: .*{message}"):
        convert(row, "here")


USABLE = [
    {"story": A, "twin": B, "negative": None, "something": 3},
    {"story": [A, B], "twin": [A, C], "negative": [C, C], "negative_twin": [B, A]},
    {"story": [A, B], "twin": [*A, *B], "twin_windows": [[0], [0, 1], []]},
    {"story": A, "story_windows": [[0], [1]], "twin": [A, B]},
    {"story": (tuple(A), tuple(B)), "twin": (tuple(B), tuple(C))},
]


def test_rows_that_can_be_used_for_training():
    for row in USABLE:
        check_twins_row(row, "row 3")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"twin": A}, "no column 'story'; the columns with content: 'twin'"),
        ({"story": [A, B], "twin": A}, r"'twin' has 1 window\(s\) and 'story' 2"),
        ({"story": A, "negative_twin": [A, B]}, r"'negative_twin' has 2 window\(s\) and 'story' 1"),
        ({"story": [A, B], "twin": A, "twin_windows": [[0]]}, "has 1 lists of windows for 2"),
        ({"story": [A, B], "twin": A, "twin_windows": [[0], [2]]}, r"\[1\]' has 2; .* from 0 to 1"),
        ({"story": [A, B], "twin": A, "twin_windows": [[0], [0]]}, "'twin' is in window 1"),
        ({"story": [A, B], "twin": A, "twin_windows": [0, 1]}, r"windows\[0\]' is int; a list of"),
        ({"story": A, "story_windows": [[1], [1]]}, "no sentence of 'story' is in window 0"),
        ({"story": [A, [""]]}, r"'story\[1\]': sentence 0 is empty"),
    ],
)
def test_rows_that_cannot_be_used_for_training(row, message):
    with pytest.raises(RowError, match=f"^row 3: .*{message}"):
        check_twins_row(row, "row 3")


VALID = [TWINS, SYNOPSIS, PUBLISHED, FILM, {"story": A, "choices": [1, 2], "windows": 2}]


@pytest.mark.parametrize(
    "read", [check_texts, check_twins_row, story_twins, windows, story_salience, film]
)
def test_any_row_is_read_or_refused_with_its_place(read):
    @settings(max_examples=20)
    @given(ROWS | mutations(VALID))
    def check(row):
        try:
            read(row, "here")
        except RowError as error:
            assert error.where == "here" and len(str(error)) < 2000

    check()
