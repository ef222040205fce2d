"""Which answers of a language model are valid: their form, twins and distractors."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.llm.prompts import AnswerError, read_object
from narrative_twins.making.twins.checks import (
    check_distractor,
    check_sections,
    check_twin,
    overlap,
    read_sections,
    read_sentences,
)

STORY = [
    "Ada lost the ring.",
    "She cried all night.",
    "A fox found it.",
    "It wore it home.",
    "Ada laughed at last.",
]


def answer_with(sentences):
    return json.dumps({"sentences": sentences})


@pytest.mark.parametrize(
    "answer",
    [
        answer_with(STORY),
        f"```json\n{answer_with(STORY)}\n```",
        f"Here it is, {{as}} asked:\n{answer_with(STORY)} I hope {{}} helps.",
        f"<think>Perhaps {answer_with(['no'])}?</think>{answer_with(STORY)}",
        answer_with([f"  {sentence}\n" for sentence in STORY]),
        json.dumps({"notes": 1}) + answer_with(STORY),
        # The chat template opened the reasoning, so only its end is in the answer; the draft in it
        # does not count.
        f"Let me try: {answer_with(['A draft.'] * 5)} no, better:</think>\n{answer_with(STORY)}",
        "{" * 900 + answer_with(STORY),
    ],
)
def test_answer_is_found_within_other_text(answer):
    assert read_sentences(answer, 5, 5) == STORY


def test_story_may_contain_reasoning_tags():
    sentences = ["She wrote <think> on the wall.", *STORY[1:]]
    assert read_sentences(answer_with(sentences), 5, 5) == sentences


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "no JSON object"),
        ("<html><body>{busy}</body></html>", "no JSON object"),
        (answer_with(STORY)[:-10], "no JSON object"),
        ("{" * 100_000, "no JSON object"),
        ('{"sentences": ' * 5_000, "no JSON object"),
        ('{"twin": []}', r"the properties \['twin'\] instead of \['sentences'\]"),
        (answer_with(["First sentence.", *STORY[1:]]), "repeats the example"),
        ('{"sentences": [], "notes": ""}', r"\['sentences', 'notes'\] instead of \['sentences'\]"),
        ('{"sentences": "one text"}', "is one text"),
        ('{"sentences": 5}', "is int"),
        (answer_with([]), "is empty"),
        (answer_with([*STORY[:4], " "]), "sentence 4 is empty"),
        (answer_with([*STORY[:4], None]), "sentence 4 is NoneType"),
        (answer_with([*STORY[:4], "\ud83d"]), "lone surrogate"),
        (answer_with([[sentence] for sentence in STORY]), "list of lists"),
        (answer_with(STORY[:4]), r"has 4 sentence\(s\) instead of 5"),
        (answer_with([*STORY, "More."]), r"has 6 sentence\(s\) instead of 5"),
    ],
)
def test_answers_without_five_valid_sentences(answer, problem):
    with pytest.raises(AnswerError, match=problem):
        read_sentences(answer, 5, 5)


def test_sections():
    sections = [[sentence] for sentence in STORY]
    named = {f"section_{number}": section for number, section in enumerate(sections, start=1)}
    assert read_sections(json.dumps(named), [1] * 5) == sections
    # In any order.
    assert read_sections(json.dumps(dict(reversed(named.items()))), [1] * 5) == sections
    with pytest.raises(AnswerError, match=r"instead of \['section_1', 'section_2'"):
        read_sections(json.dumps({name: named[name] for name in list(named)[:4]}), [1] * 5)
    with pytest.raises(AnswerError, match="'section_3' is empty"):
        read_sections(json.dumps(named | {"section_3": []}), [1] * 5)


@given(st.integers(1, 30), st.integers(1, 80))
def test_a_section_has_half_to_twice_as_many_sentences(size, found):
    answer = json.dumps({"section_1": ["So it was."] * found})
    assert is_valid(read_sections, answer, [size]) == (size / 2 <= found <= 2 * size)


def test_overlap_is_of_all_sections_and_no_section_may_be_a_copy():
    windows = [[sentence] for sentence in STORY]
    others = [
        ["Ada lost the ring again."],
        ["She cried all day."],
        ["A fox found her."],
        ["All else."],
        ["Ada laughed."],
    ]
    check_sections(windows, others, 0.5)
    with pytest.raises(AnswerError, match="section 2 is a copy"):
        check_sections(windows, [others[0], [STORY[1].upper()], *others[2:]], 0.5)
    with pytest.raises(AnswerError, match="expected at least 0.9"):
        check_sections(windows, others, 0.9)


@given(st.text(), st.sampled_from(["sentences", "scores"]))
def test_any_answer_is_read_or_rejected(text, name):
    try:
        read_object(text, [name])
    except AnswerError as error:
        assert str(error)


def test_overlap_is_the_dice_coefficient_of_distinct_words():
    assert overlap(["The dog ran.", "the DOG!"], ["A dog sat"]) == pytest.approx(2 * 1 / (3 + 3))
    assert overlap(["a b c"], ["a b c", "a"]) == 1.0
    assert overlap(["🦊"], ["🦊"]) == 0.0
    # A Chinese character is a word; in other scripts a run of letters is.
    assert overlap(["我喜欢狗"], ["我喜欢猫"]) == pytest.approx(2 * 3 / 8)
    assert overlap(["שלום עולם"], ["שלום לך"]) == pytest.approx(0.5)


words = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6).map(" ".join)
texts = st.lists(words, min_size=1, max_size=5)


@given(texts, texts, st.floats(0, 1))
def test_bounds_of_the_overlap(story, other, bound):
    a, b = set("".join(story).replace(" ", "")), set("".join(other).replace(" ", ""))
    share = 2 * len(a & b) / (len(a) + len(b))
    assert is_valid(check_twin, story, other, bound) == (
        share <= bound and not set(story) & set(other) and len(set(other)) == len(other)
    )
    assert is_valid(check_distractor, story, other, bound) == (
        share >= bound and not set(other) <= set(story)
    )


def is_valid(check, *values) -> bool:
    try:
        check(*values)
    except AnswerError:
        return False
    return True


def test_twin_with_a_repeated_sentence():
    with pytest.raises(AnswerError, match="is repeated"):
        check_twin(STORY, ["All new words here.", "Others follow.", "all new words HERE"], 1.0)


def test_copies_are_found_in_spite_of_case_and_punctuation():
    with pytest.raises(AnswerError, match="sentence 2 is copied"):
        check_twin(STORY, ["All new words here.", "she cried -- ALL night"], 1.0)
    with pytest.raises(AnswerError, match="it is a copy"):
        check_distractor(STORY, [sentence.upper() for sentence in STORY], 0.0)
    with pytest.raises(AnswerError, match=r"overlap 0.00, expected at least 0.5"):
        check_distractor(STORY, ["Nothing alike."], 0.5)
