"""Printable and shortened text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.plots.printable import one_line, shortened

from support.results import any_text


@given(any_text, st.integers(1, 20), st.booleans())
def test_shortened(text, length, both_ends):
    line, short = one_line(text), shortened(text, length, both_ends)
    assert len(short) <= length
    if len(line) <= length:
        assert short == line
    else:
        start, end = short.split("…") if line.count("…") == 0 else short.rsplit("…", 1)
        assert line.startswith(start) and line.endswith(end if both_ends else "")
