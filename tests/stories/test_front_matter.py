"""Front matter: what is metadata at the beginning of a text file, and what is text of the story."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.stories.front_matter import split_front_matter

STORY = "Runa woke. It rained.\n\n---\n\nOtto slept.\n"
METADATA = [
    ("---\ntitle: The Salt Road\n---", "The Salt Road"),
    ("---\ntitle: 'A: B'\ndate: 2024-03-01\ntags:\n- a\n  - b\n# none\n\nauthor:\n...", "A: B"),
    ("\n---  \nlayout: post\n---", None),
    ('+++\ntitle = "Salt"\ndraft = false\ntags = [\n  "a",\n]\n[extra]\n+++', "Salt"),
]
STORIES = [
    "---\n\nRuna woke.\n\n---\n\nOtto slept.",
    "---\nRUNA: Who is there?\nOTTO: Only me.\n---\nSo.",
    "---\ntitle: The Salt Road\n\nRuna woke.",
    "---\ntitle: Salt\nRuna woke in the barn.\n---\nSo.",
    "+++\nRuna woke.\n+++\nSo.",
    "title: Salt\n---\nSo.",
    "---",
    "",
]


@pytest.mark.parametrize(("metadata", "title"), METADATA)
def test_metadata_is_apart_from_the_story(metadata, title):
    front = split_front_matter(f"{metadata}\n\n{STORY}")
    assert front == (metadata.lstrip("\n"), title, STORY)


@pytest.mark.parametrize("text", STORIES)
def test_text_between_lines_of_marks_is_of_the_story(text):
    assert split_front_matter(text) == ("", None, text)


@given(st.text(st.sampled_from("-+.\n:=a ["), max_size=40))
def test_no_letter_is_lost(text):
    front = split_front_matter(text)
    joined = f"{front.text}{front.story}" if front.text else front.story
    assert joined.replace("\n", "") == text.replace("\n", "")
