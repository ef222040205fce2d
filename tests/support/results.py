"""Results made by hand, with any text."""

from __future__ import annotations

import xml.etree.ElementTree as xml

import numpy as np
from hypothesis import strategies as st

from narrative_twins import Story, StorySalience
from narrative_twins.show.report import Report

NASTY = [
    "$x$",
    "$\\frac{1}{",
    "\\alpha \\",
    "a\x00b\x1b[2J",
    "\ud83d",
    "东京のまち",
    "שלום\u202e עולם",
    "<script>&amp;]]>",
    "\uffff",
    "%s {0}",
    "e" + "\u0301" * 999,
]


any_text = st.text(st.characters(), min_size=1, max_size=30) | st.sampled_from(NASTY)


def result_of(sentences, windows=1, name=None, operations=("deletion", "summarization"), seed=0, cut_tokens=0):
    """A result made by hand: `Story.parse` refuses half characters, but nothing keeps them from getting here."""
    n = len(sentences)
    spans = Story.parse({"sentences": ["x"] * n, "windows": windows}).windows
    story = Story(tuple(sentences), " ".join(sentences), ((0, 0),) * n, spans, name)
    random = np.random.default_rng(seed)
    return StorySalience(story, {one: random.normal(size=n).tolist() for one in operations}, 512, cut_tokens)


def texts_of(svg: bytes) -> list[str]:
    """What a reader of an SVG sees as text."""
    return ["".join(one.itertext()).strip() for one in xml.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def write_report(folder, results, settings=None, **options):
    """A report on results, in a folder."""
    report = Report(str(folder), **options)
    report.begin(settings or {})
    with report:
        for result in results:
            report.add(result)
    return report
