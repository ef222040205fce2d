"""Results made without an encoder, with any text."""

import xml.etree.ElementTree as xml

import numpy as np
from hypothesis import strategies as st

from narrative_twins import Story, StorySalience

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


def result_of(
    sentences, windows=1, name=None, operations=("deletion", "summarization"), seed=0, cut_tokens=0
):
    """A result with random scores. Unlike stories from `Story.parse`, its sentences may have lone
    surrogates."""
    n = len(sentences)
    spans = Story.parse({"sentences": ["x"] * n, "windows": windows}).windows
    story = Story(tuple(sentences), " ".join(sentences), ((0, 0),) * n, spans, name)
    random = np.random.default_rng(seed)
    return StorySalience(
        story, {name: random.normal(size=n).tolist() for name in operations}, 512, cut_tokens
    )


def texts_of(svg: bytes) -> list[str]:
    return [
        "".join(text.itertext()).strip()
        for text in xml.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
