"""Highlights as annotation tools export them, whatever unit their offsets have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.data import RowError
from narrative_twins.data.highlights import _warn, highlighted
from narrative_twins.data.labels import story_salience

TEXT = "🎉 Runa woke 😀. It rained. The mill burned."
KEY = "It rained."


def offsets(text, part, unit):
    """The start and the end of a part of a text, by a naive count."""
    start = text.index(part)
    before, inside = text[:start], part
    if unit == "characters":
        return len(before), len(before) + len(inside)
    encoding, size = {"UTF-16": ("utf-16-le", 2), "bytes": ("utf-8", 1)}[unit]
    first = len(before.encode(encoding)) // size
    return first, first + len(inside.encode(encoding)) // size


@pytest.fixture(autouse=True)
def warned():
    _warn.cache_clear()


def tool_rows(start, end):
    """The same highlight as rows of several tools."""
    label_studio = {"value": {"start": start, "end": end, "text": KEY, "labels": ["KEY"]}}
    return {
        "list": {"text": TEXT, "spans": [[start, end, "KEY", KEY]]},
        "of two": {"text": TEXT, "spans": [[[start, end, "KEY", KEY]], [[start, end, "", KEY]]]},
        "Prodigy": {"text": TEXT, "answer": "accept", "spans": [
            {"start": start, "end": end, "label": "KEY", "text": KEY, "token_start": 4}]},
        "doccano": {"text": TEXT, "entities": [
            {"id": 1, "start_offset": start, "end_offset": end, "label": "KEY", "text": KEY}]},
        "brat": {"text": TEXT, "spans": [
            {"id": "T1", "type": "KEY", "begin": start, "end": end, "text": KEY}]},
        "Label Studio": {"id": 3, "data": {"text": TEXT}, "annotations": [
            {"was_cancelled": False, "result": [label_studio, {"type": "choices"}]},
            {"was_cancelled": True, "result": []}]},
        "Label Studio, JSON_MIN": {"text": TEXT, "label": [
            {"start": start, "end": end, "text": KEY, "labels": ["KEY"]}]},
    }  # fmt: skip


@pytest.mark.parametrize("unit", ["characters", "UTF-16", "bytes"])
@pytest.mark.parametrize("tool", tool_rows(0, 1))
def test_the_text_of_a_highlight_shows_what_its_offsets_count(tool, unit, caplog):
    row = story_salience(tool_rows(*offsets(TEXT, KEY, unit))[tool], "here")
    assert row["story"] == ["🎉 Runa woke 😀.", KEY, "The mill burned."]
    assert row["labels"] == [0, 1, 0] and not caplog.text


def test_spans_with_a_label_only_are_read():
    text = "Runa woke. It rained."
    for spans in ([[11, 21, "KEY"]], [{"start": 11, "end": 21, "label": "KEY"}], [(11, 21, None)]):
        assert story_salience({"text": text, "spans": spans}, "here")["labels"] == [0, 1]
    for column in ("label", "labels"):
        assert story_salience({"text": text, column: [[11, 21, "KEY"]]}, "here")["labels"] == [0, 1]
        assert story_salience({"text": text, column: []}, "here")["labels"] == [0, 0]


def test_what_can_not_be_told_apart_is_said_once(caplog):
    spans = [[2, 11, "KEY"]]
    for _ in range(2):
        assert highlighted(spans, "spans", TEXT, "here") == [[(2, 11)]]
        assert highlighted([[2, 6, "KEY"], [7, 11, "NAME"]], "spans", TEXT[:20], "here")
    texts = [record.message for record in caplog.records]
    assert len(texts) == 2 and "UTF-16" in texts[0] + texts[1]
    assert any("have the labels KEY, NAME; all are read alike" in text for text in texts)


def test_a_range_beyond_the_text_asks_for_the_texts_of_spans():
    with pytest.raises(
        RowError, match="of the 42 characters of 'text'.*, and each span its text, so"
    ):
        highlighted([[40, 48]], "spans", TEXT, "here")


texts = st.text("aé😀 ñ𝒳.", min_size=1, max_size=12)


@given(texts, texts, texts, st.sampled_from(["characters", "UTF-16", "bytes"]))
def test_the_range_of_a_highlight_has_its_text(before, inside, after, unit):
    text = f"{before}<{inside}>{after}"
    start, end = offsets(text, f"<{inside}>", unit)
    ((span,),) = highlighted([[start, end, "KEY", f"<{inside}>"]], "spans", text, "here")
    assert text[slice(*span)] == f"<{inside}>"
    with pytest.raises(RowError, match="is of the text"):
        highlighted([[start, end, "KEY", "another"]], "spans", text, "here")
