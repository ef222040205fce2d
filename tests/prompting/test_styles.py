"""Which answers about salience are valid, and how they are read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.prompting.question_styles import STYLES
from narrative_twins.prompting.templates import AnswerError, read_answer

from support.json_values import VALUES, mutations

SUMMARY = {"summary": "The days pass."}


def named(scores: list) -> dict[str, Any]:
    return {f"sentence_{number}": score for number, score in enumerate(scores, start=1)}


def read(name: str, text: str, *windows: tuple[int, int]) -> list[float]:
    style = STYLES[name]
    answer = read_answer(style.form(windows[0][0], windows[-1][1]), text)
    return style.read(answer, windows)


@pytest.mark.parametrize(
    ("name", "answer"),
    [("choose", {**SUMMARY, "most_important": 5}), ("choose-loss", {"sentence": " 5\n"})],
)
def test_choices(name, answer):
    text = json.dumps(answer)
    assert read(name, text, (0, 5)) == [0, 0, 0, 0, 1] and read(name, text, (4, 6)) == [1, 0]
    draft = json.dumps(answer).replace("5", "1")
    assert read(name, f"Perhaps {draft}? No: {text}", (3, 5)) == [0, 1]
    for lo, hi in ((0, 4), (5, 7)):
        with pytest.raises(AnswerError, match="should be (less|greater) than or equal"):
            read(name, text, (lo, hi))


@pytest.mark.parametrize(
    ("name", "answer", "problem"),
    [
        ("choose", {**SUMMARY, "most_important": "two"}, "^most_important: "),
        ("choose", {"most_important": 2}, "no JSON object with the properties summary, most_"),
        ("shares", {**SUMMARY, "votes": [5, 5]}, "^votes: List should have at least 5 items"),
        ("shares", {**SUMMARY, "votes": [5, 4, 0, 0, 0]}, "^the votes add up to 9 instead of 10$"),
        ("shares", {**SUMMARY, "votes": [11, -1, 0, 0, 0]}, "^votes.0: .*; votes.1: "),
        *(
            (name, form, problem)
            for scores, problem in (
                ([0.1, 0.2, 0.3, 0.4], "at least 5 items|no JSON object"),
                ([0.1, 0.2, 0.3, 0.4, 1], "a score is not a number above 0 and below 1"),
                ([0.1, 0.2, 0.3, 0.4, 0.0], "a score is not"),
                ([0.1, 0.2, 0.3, 0.4, float("nan")], "a score is not"),
            )
            for name, form in (("rate", named(scores)), ("rate-loss", {"scores": scores}))
        ),
    ],
)
def test_invalid_answers(name, answer, problem):
    with pytest.raises(AnswerError, match=problem):
        read(name, json.dumps(answer), (0, 5))


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=7, max_size=7), st.randoms())
def test_scores_may_be_equal_in_different_windows(scores, random):
    windows = [(0, 2), (2, 5), (5, 7)]
    pairs = list(named(scores).items())
    random.shuffle(pairs)
    for name, answer in (("rate-loss", {"scores": scores}), ("rate", dict(pairs))):
        text = f"So {json.dumps(answer)} it is."
        if all(len(set(scores[lo:hi])) == hi - lo for lo, hi in windows):
            assert read(name, text, *windows) == scores
        else:
            with pytest.raises(AnswerError, match="two scores of the sentences"):
                read(name, text, *windows)


VALID = {
    "choose": {**SUMMARY, "most_important": 2},
    "rate": named([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
    "choose-loss": {"sentence": 5},
    "rate-loss": {"scores": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]},
    "shares": {**SUMMARY, "votes": [0, 9, 0, 1, 0, 0, 0]},
}


@pytest.mark.parametrize("name", STYLES)
@given(
    answer=st.text()
    | VALUES.map(json.dumps)
    | mutations(list(VALID.values())).map(json.dumps)
    | st.integers(1, 100_000).map(lambda depth: '{"sentence": ' + "[" * depth + "]" * depth + "}")
)
def test_any_answer_is_read_or_rejected(name, answer):
    """A valid answer gives a score from 0 to 1, or votes, to each sentence asked about."""
    try:
        scores = read(name, answer, (0, 7))
    except AnswerError as error:
        assert 0 < len(str(error)) < 1000
    else:
        assert len(scores) == 7
        assert all(0 <= score <= (10 if name == "shares" else 1) for score in scores)
        assert name != "shares" or sum(scores) == 10


@pytest.mark.parametrize("name", STYLES)
def test_schemas(name):
    """Their properties are in the order of the prompt."""
    schema = STYLES[name].form(0, 7).model_json_schema()
    assert list(schema["properties"]) == schema["required"] == list(VALID[name])
    assert not schema["additionalProperties"]
    assert len(read(name, json.dumps(VALID[name]), (0, 7))) == 7
