"""Which answers about salience are valid, and how they are read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import Story
from narrative_twins.baselines.styles import STYLES, read_choice, read_scores, read_votes
from narrative_twins.llm.prompts import AnswerError

from support.json_values import VALUES, mutations

SEVEN = Story.parse([f"Day {number}." for number in range(1, 8)], windows=[3, 4])


@pytest.mark.parametrize(
    "answer",
    [
        {"summary": "The days pass.", "most_important": 5},
        {"summary": "The days pass.", "most_important": "5"},
        {"most_important": " 5\n"},
        {"sentence": 5},
        {"summary": "", "sentence": 5},
    ],
)
def test_choices(answer):
    text = json.dumps(answer)
    assert read_choice(text, [(0, 5)]) == [0, 0, 0, 0, 1] and read_choice(text, [(4, 6)]) == [1, 0]
    # The last object counts, whatever the form of the drafts.
    assert read_choice(f'Perhaps {{"sentence": 1}}? No: {text}', [(3, 5)]) == [0, 1]
    for lo, hi in ((0, 4), (5, 7)):
        with pytest.raises(AnswerError, match=f"is not an integer from {lo + 1} to {hi}$"):
            read_choice(text, [(lo, hi)])


@pytest.mark.parametrize("key", ["sentence", "most_important"])
@pytest.mark.parametrize("chosen", [0, 6, 2.0, "6", "2.0", "²", "9" * 9999, True, None, [1], {}])
def test_invalid_choices(chosen, key):
    with pytest.raises(AnswerError, match=r"^the choice .{1,100} is not an integer from 1 to 5$"):
        read_choice(json.dumps({key: chosen}), [(0, 5)])


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"summary": None, "most_important": 2}, "the summary None is not text"),
        (
            {"summary": "Ada ran."},
            r"has the properties \['summary'\] instead of .*\['summary', 'most_important'\]",
        ),
        ({"most_important": 2, "sentence": 2}, "has the properties"),
        ({"most_important": 2, "reason": "x"}, "has the properties"),
        ([2], "no JSON object"),
    ],
)
def test_answers_of_another_form_are_no_choice(answer, problem):
    with pytest.raises(AnswerError, match=problem):
        read_choice(json.dumps(answer), [(0, 5)])


def test_votes():
    for answer in ({"summary": "The days pass.", "votes": [3, 3, 4]}, {"votes": [3, 3, 4]}):
        text = f'Perhaps {{"votes": [10, 0, 0]}}? No: {json.dumps(answer)}'
        assert read_votes(text, [(4, 7)]) == [3, 3, 4]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"votes": [5, 5]}, r"^the answer has 2 .* instead of a list of 3 number\(s\) of votes$"),
        ({"votes": {"1": 10}}, "^the answer has dict instead of a list of 3"),
        ({"votes": [5, 4, 0]}, "^the votes add up to 9 instead of 10$"),
        ({"votes": [11, -1, 0]}, "^the number of votes 11 is not an integer from 0 to 10"),
        ({"votes": [5.0, 5, 0]}, "^the number of votes 5.0 is not"),
        ({"votes": [True, 9, 0]}, "^the number of votes True is not"),
        ({"votes": ["5", 5, 0]}, "^the number of votes '5' is not"),
        ({"summary": 5, "votes": [5, 5, 0]}, "^the summary 5 is not text$"),
        ({"votes": [5, 5, 0], "reason": ""}, "has the properties"),
    ],
)
def test_invalid_votes(answer, problem):
    with pytest.raises(AnswerError, match=problem):
        read_votes(json.dumps(answer), [(2, 5)])


def named(scores):
    return {f"sentence_{number}": score for number, score in enumerate(scores, start=1)}


@pytest.mark.parametrize(
    ("scores", "problem"),
    [
        ([0.1, 0.2], r"has 2 score\(s\) instead of a list of 3|_1', 'sentence_2'\] instead"),
        ([0.1, 0.2, 1], "the score 1 is not"),
        ([0.1, 0.2, 0.0], "the score 0.0 is not"),
        ([0.1, 0.2, 1.0], "the score 1.0 is not"),
        ([0.1, 0.2, float("nan")], "the score nan is not"),
        ([0.1, 0.2, "0.3"], "the score '0.3' is not"),
        ([0.1, 0.2, 0.1], "two scores of the sentences 1 to 3 are equal"),
    ],
)
@pytest.mark.parametrize("form", [named, lambda scores: {"scores": scores}])
def test_invalid_scores(scores, problem, form):
    with pytest.raises(AnswerError, match=problem):
        read_scores(json.dumps(form(scores)), [(0, 3)])


def test_scores_of_another_type():
    for answer in ("0.1, 0.2, 0.3", {"1": 0.1, "2": 0.2, "3": 0.3}, None):
        with pytest.raises(AnswerError, match=r"(str|dict|NoneType) instead of a list of 3 score"):
            read_scores(json.dumps({"scores": answer}), [(0, 3)])


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=7, max_size=7), st.randoms())
def test_scores_may_be_equal_in_different_windows(scores, random):
    windows = [(0, 2), (2, 5), (5, 7)]
    pairs = list(named(scores).items())
    random.shuffle(pairs)
    for answer in ({"scores": scores}, dict(pairs)):
        text = f"So {json.dumps(answer)} it is."
        if all(len(set(scores[lo:hi])) == hi - lo for lo, hi in windows):
            assert read_scores(text, windows) == scores
        else:
            with pytest.raises(AnswerError, match="two scores of the sentences"):
                read_scores(text, windows)


VALID = [
    {"summary": "The days pass.", "most_important": 2},
    {"sentence": 5},
    named([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
    {"scores": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]},
    {"summary": "The days pass.", "votes": [0, 9, 0, 1]},
]


@pytest.mark.parametrize("name", STYLES)
@given(
    answer=st.text()
    | VALUES.map(json.dumps)
    | mutations(VALID).map(json.dumps)
    | st.integers(1, 100_000).map(lambda depth: '{"sentence": ' + "[" * depth + "]" * depth + "}")
)
def test_any_answer_is_read_or_rejected(name, answer):
    """A valid answer gives a score from 0 to 1, or votes, to each sentence asked about."""
    style = STYLES[name]
    for _, windows in style.questions(SEVEN, 1):
        try:
            scores = style.read(answer, windows)
        except AnswerError as error:
            assert 0 < len(str(error)) < 1000
        else:
            assert len(scores) == sum(hi - lo for lo, hi in windows)
            assert all(0 <= score <= (10 if name == "shares" else 1) for score in scores)
            assert name != "shares" or sum(scores) == 10


@pytest.mark.parametrize(
    ("name", "answer"), list(zip(STYLES, [VALID[i] for i in (0, 2, 1, 3, 4)], strict=True))
)
def test_questions_and_their_schemas(name, answer):
    """Every sentence is asked about. The schema describes a valid answer: its properties are
    required, in the order of the prompt, and none is left out."""
    style = STYLES[name]
    questions = style.questions(SEVEN, 3)
    expected = (2 if style.by_window else 1) * (3 if style.sampled else 1)
    assert len({step for step, _ in questions}) == len(questions) == expected
    assert {window for _, windows in questions for window in windows} == set(SEVEN.windows)
    schema = style.schema(questions[-1][1])
    assert list(schema["properties"]) == schema["required"] == list(answer)
    assert not schema["additionalProperties"]
    if style.sampled:
        assert {"type": "integer", "minimum": 4, "maximum": 7} in schema["properties"].values()
