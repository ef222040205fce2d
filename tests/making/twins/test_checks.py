"""What holds as an answer of a language model, and what is asked: prompts, forms, twins and distractors."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.baselines.prompted import read_choice, read_scores
from narrative_twins.llm.json_answers import AnswerError, read_object
from narrative_twins.making.twins.checks import (
    check_distractor,
    check_sections,
    check_twin,
    overlap,
    read_sections,
    read_sentences,
)

STORY = ["Ada lost the ring.", "She cried all night.", "A fox found it.", "It wore it home.", "Ada laughed at last."]


def asked(sentences):
    return json.dumps({"sentences": sentences})


@pytest.mark.parametrize(
    "answer",
    [
        asked(STORY),
        f"```json\n{asked(STORY)}\n```",
        f"Here it is, {{as}} asked:\n{asked(STORY)} I hope {{}} helps.",
        f"<think>Perhaps {asked(['no'])}?</think>{asked(STORY)}",
        asked([f"  {one}\n" for one in STORY]),
        json.dumps({"notes": 1}) + asked(STORY),
        # The template of the server opened the thought; the draft in it is no answer.
        f"Let me try: {asked(['A draft.'] * 5)} no, better:</think>\n{asked(STORY)}",
        "{" * 900 + asked(STORY),
    ],
)
def test_the_answer_is_found_whatever_stands_round_it(answer):
    assert read_sentences(answer, 5, 5) == STORY


def test_a_story_may_speak_of_thoughts():
    told = ["She wrote <think> on the wall.", *STORY[1:]]
    assert read_sentences(asked(told), 5, 5) == told


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "no JSON object"),
        ("<html><body>{busy}</body></html>", "no JSON object"),
        (asked(STORY)[:-10], "no JSON object"),
        ("{" * 100_000, "no JSON object"),
        ('{"sentences": ' * 5_000, "no JSON object"),
        ('{"twin": []}', "has 'twin', not sentences"),
        (asked(["First sentence.", *STORY[1:]]), "repeats the example"),
        ('{"sentences": [], "notes": ""}', "has 'sentences', 'notes', not sentences"),
        ('{"sentences": "one text"}', "is one text"),
        ('{"sentences": 5}', "is int"),
        (asked([]), "is empty"),
        (asked([*STORY[:4], " "]), "sentence 4 is empty"),
        (asked([*STORY[:4], None]), "sentence 4 is NoneType"),
        (asked([*STORY[:4], "\ud83d"]), "lone surrogate"),
        (asked([[one] for one in STORY]), "list of lists"),
        (asked(STORY[:4]), r"has 4 sentence\(s\) and not 5"),
        (asked([*STORY, "More."]), r"has 6 sentence\(s\) and not 5"),
    ],
)
def test_answers_that_are_no_five_sentences(answer, problem):
    with pytest.raises(AnswerError, match=problem):
        read_sentences(answer, 5, 5)


def test_sections():
    sections = [[one] for one in STORY]
    named = {f"section_{number}": section for number, section in enumerate(sections, start=1)}
    assert read_sections(json.dumps(named), [1] * 5) == sections
    # Whatever their order.
    assert read_sections(json.dumps(dict(reversed(named.items()))), [1] * 5) == sections
    with pytest.raises(AnswerError, match="not section_1, section_2"):
        read_sections(json.dumps({name: named[name] for name in list(named)[:4]}), [1] * 5)
    with pytest.raises(AnswerError, match="'section_3' is empty"):
        read_sections(json.dumps(named | {"section_3": []}), [1] * 5)


@given(st.integers(1, 30), st.integers(1, 80))
def test_a_section_has_half_to_twice_as_many_sentences(size, found):
    answer = json.dumps({"section_1": ["So it was."] * found})
    assert passes(read_sections, answer, [size]) == (size / 2 <= found <= 2 * size)


def test_sections_are_compared_as_a_whole_and_none_may_be_a_copy():
    windows = [[one] for one in STORY]
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
    with pytest.raises(AnswerError, match="at least 0.9 is needed"):
        check_sections(windows, others, 0.9)


@pytest.mark.parametrize("chosen", [0, 6, -1, 2.0, "2", True, None, [1]])
def test_choices_that_are_none(chosen):
    with pytest.raises(AnswerError, match="from 1 to 5"):
        read_choice(json.dumps({"sentence": chosen}), 5)


def test_a_choice():
    assert [read_choice(json.dumps({"sentence": one}), 5) for one in (1, 5)] == [1, 5]


@pytest.mark.parametrize(
    ("scores", "problem"),
    [
        ([0.1, 0.2], "has 2"),
        ("0.1, 0.2, 0.3", "has str"),
        ([0.1, 0.2, 1], "a score 1;"),
        ([0.1, 0.2, 0.0], "a score 0.0"),
        ([0.1, 0.2, 1.0], "a score 1.0"),
        ([0.1, 0.2, float("nan")], "a score nan"),
        ([0.1, 0.2, True], "a score True"),
        ([0.1, 0.2, "0.3"], "a score '0.3'"),
        ([0.1, 0.2, 0.1], "equal"),
    ],
)
def test_scores_that_are_none(scores, problem):
    with pytest.raises(AnswerError, match=problem):
        read_scores(json.dumps({"scores": scores}), 3)


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=8, unique=True), st.text(alphabet=string.ascii_letters))
def test_scores_come_as_they_are(scores, round_it):
    assert read_scores(f"{round_it}{json.dumps({'scores': scores})}{round_it}", len(scores)) == scores


@given(st.text(), st.sampled_from(["sentences", "scores"]))
def test_no_answer_breaks_the_reading(text, name):
    try:
        read_object(text, [name])
    except AnswerError as error:
        assert str(error)


def test_overlap_is_dice_of_the_different_words():
    assert overlap(["The dog ran.", "the DOG!"], ["A dog sat"]) == pytest.approx(2 * 1 / (3 + 3))
    assert overlap(["a b c"], ["a b c", "a"]) == 1.0
    assert overlap(["🦊"], ["🦊"]) == 0.0
    # Where words are not set apart each sign is one; elsewhere letters of any script make words.
    assert overlap(["我喜欢狗"], ["我喜欢猫"]) == pytest.approx(2 * 3 / 8)
    assert overlap(["שלום עולם"], ["שלום לך"]) == pytest.approx(0.5)


words = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6).map(" ".join)
texts = st.lists(words, min_size=1, max_size=5)


@given(texts, texts, st.floats(0, 1))
def test_twins_and_distractors_are_held_to_the_bounds(story, other, bound):
    a, b = set("".join(story).replace(" ", "")), set("".join(other).replace(" ", ""))
    share = 2 * len(a & b) / (len(a) + len(b))
    assert passes(check_twin, story, other, bound) == (
        share <= bound and not set(story) & set(other) and len(set(other)) == len(other)
    )
    assert passes(check_distractor, story, other, bound) == (share >= bound and not set(other) <= set(story))


def passes(check, *values) -> bool:
    try:
        check(*values)
    except AnswerError:
        return False
    return True


def test_a_twin_does_not_say_the_same_twice():
    with pytest.raises(AnswerError, match="there twice"):
        check_twin(STORY, ["All new words here.", "Others follow.", "all new words HERE"], 1.0)


def test_copies_are_seen_through_case_and_signs():
    with pytest.raises(AnswerError, match="sentence 2 is copied"):
        check_twin(STORY, ["All new words here.", "she cried -- ALL night"], 1.0)
    with pytest.raises(AnswerError, match="it is a copy"):
        check_distractor(STORY, [one.upper() for one in STORY], 0.0)
    with pytest.raises(AnswerError, match=r"overlap 0.00, at least 0.5 is needed"):
        check_distractor(STORY, ["Nothing alike."], 0.5)
