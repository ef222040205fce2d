"""Salience scores by prompting a language model."""

import json
from collections import Counter

import pytest

from narrative_twins import StoryError
from narrative_twins.prompting import STYLES, Server, prompted_salience

from support.chat_server import Model, completion, model_answer, prompt_of, serving

STORIES = [
    "Ada lost the ring. She cried all night. A fox found it.",
    {
        "id": "B",
        "sentences": ['He said "{{count}}".', "שלום", "🦊 ran\nhome.", "The end {was} near."],
    },
    ["Only this."],
]
YEARS = [f"In {year} the mill burned." for year in range(1900, 1912)]
SYNOPSIS = {"id": "film", "sentences": YEARS, "windows": [2, 3, 3, 2, 2]}


def ask(model, path, stories=STORIES, **options):
    server = Server(model.address, "tiny", seed=5)
    return prompted_salience(stories, server, path / "answers", **options)


def answer_of(body):
    """The answer of the model to a request."""
    return json.loads(model_answer(prompt_of(body), body["seed"]))


def schema_of(body):
    return body["response_format"]["json_schema"]["schema"]


def range_asked(body):
    """The first and last sentence that may be chosen, by the schema and the prompt."""
    number = schema_of(body)["properties"]["most_important"]
    first, last = number["minimum"], number["maximum"]
    assert f"number of the sentence from {first} to {last}" in prompt_of(body)
    return first, last


@pytest.mark.parametrize(
    ("style", "score", "key"),
    [
        ("choose", "prompted_choice", "most_important"),
        ("choose-loss", "prompted_choice_loss", "sentence"),
    ],
)
def test_choices_are_counted(style, score, key, tmp_path):
    with serving(Model()) as model:
        results = ask(model, tmp_path, styles=style, samples=4)
    assert len(model.bodies) == 12 and all(body["temperature"] == 1.0 for body in model.bodies)
    assert len({body["seed"] for body in model.bodies}) == 12
    for result, first in zip(results, ("1. Ada", "1. He", "1. Only"), strict=True):
        asked = [answer_of(body) for body in model.bodies if first in prompt_of(body)]
        assert len(asked) == 4
        chosen = Counter(answer[key] for answer in asked)
        numbers = range(1, len(result.sentences) + 1)
        assert result.scores == {score: [chosen[number] for number in numbers]}
    assert [result.index for result in results] == [0, 1, 2] and results[1].story.id == "B"


@pytest.mark.parametrize(
    ("style", "score"), [("rate", "prompted_rating"), ("rate-loss", "prompted_rating_loss")]
)
def test_ratings_are_the_answers_of_the_model(style, score, tmp_path):
    with serving(Model()) as model:
        results = ask(model, tmp_path, styles=[style])
    answers = [answer_of(body) for body in model.bodies]
    expected = [each["scores"] if style == "rate-loss" else [*each.values()] for each in answers]
    assert sorted(result.scores[score] for result in results) == sorted(expected)
    assert schema_of(model.bodies[0])["required"] == list(answers[0])


def test_votes_of_readers_are_asked_once_a_window(tmp_path):
    with serving(Model()) as model:
        (result,) = ask(model, tmp_path, [SYNOPSIS], styles="shares", samples=10)
    assert len(model.bodies) == 5
    votes = {}
    for body in model.bodies:
        first = int(prompt_of(body).partition("vote on the sentences ")[2].split()[0])
        votes |= {number: v for number, v in enumerate(answer_of(body)["votes"], start=first)}
    assert result.scores["prompted_shares"] == [votes[number] for number in range(1, 13)]


def test_a_sentence_of_each_window_is_chosen(tmp_path):
    """Each question has the complete story."""
    with serving(Model()) as model:
        (result,) = ask(model, tmp_path, [SYNOPSIS], samples=4)
    ranges = [(1, 2), (3, 5), (6, 8), (9, 10), (11, 12)]
    assert Counter(map(range_asked, model.bodies)) == dict.fromkeys(ranges, 4)
    numbered = [f"{number}. {line}" for number, line in enumerate(YEARS, start=1)]
    assert all("\n".join(numbered) in prompt_of(body) for body in model.bodies)
    assert len({body["seed"] for body in model.bodies}) == 20
    votes = [0] * 12
    for body in model.bodies:
        votes[answer_of(body)["most_important"] - 1] += 1
    assert result.scores == {"prompted_choice": votes}
    assert result.windows == tuple((first - 1, last) for first, last in ranges)


def test_windows_are_of_the_story_or_else_an_option(tmp_path):
    """What the same sentences in other windows have in common is asked once."""
    sentences = YEARS[:6]
    others = [{"sentences": sentences, "windows": sizes} for sizes in ([2, 4], [2, 2, 2])]
    stories = [sentences, *others]
    with serving(Model()) as model:
        results = ask(model, tmp_path, stories, styles=["choose", "rate"], windows=2, samples=1)
    spans = [((0, 3), (3, 6)), ((0, 2), (2, 6)), ((0, 2), (2, 4), (4, 6))]
    assert [result.windows for result in results] == spans
    asked = Counter(prompt_of(body) for body in model.bodies)
    assert set(asked.values()) == {1} and len(asked) == 1 + 2 + 2 + 2
    assert results[0].scores["prompted_rating"] == results[2].scores["prompted_rating"]
    assert results[1].scores["prompted_choice"][:2] == results[2].scores["prompted_choice"][:2]


def test_the_same_call_gives_the_same_results_without_a_request(tmp_path):
    with serving(Model()) as model:
        results = ask(model, tmp_path, styles=list(STYLES), samples=2)
        again = ask(model, tmp_path, styles=list(STYLES), samples=2)
    assert again == results and set(model.asked.values()) == {1}


def test_a_story_without_scores(tmp_path, caplog):
    def silent(body, before):
        valid = model_answer(prompt_of(body), body["seed"])
        return completion("hm" if "Ada" in prompt_of(body) else valid)

    with serving(Model(silent)) as model:
        with pytest.raises(StoryError, match="story 1: no scores .* model: rate: .* no JSON obje"):
            ask(model, tmp_path, styles=["rate"])
        assert len(model.bodies) == 3 + 2
        results = ask(model, tmp_path, styles=["rate"], on_error="skip")
    assert len(model.bodies) == 3 + 2, "logged answers are not requested again"
    assert [result.index for result in results] == [1, 2] and "skipped story 1" in caplog.text


def test_invalid_arguments(tmp_path):
    for stories, options, problem in (
        ([], {"styles": ["guess"]}, r"'guess'\], samples=10: use one or more of choose, rate"),
        ([], {"samples": 0}, "samples=0"),
        ("One story.", {}, "several stories"),
        (["Fine.", ""], {}, "story 2"),
    ):
        with pytest.raises((ValueError, TypeError), match=problem):
            prompted_salience(stories, Server("http://x/v1", "m"), tmp_path / "a", **options)
