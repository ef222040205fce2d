"""Salience scores by prompting a language model."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from narrative_twins import StoryError
from narrative_twins.baselines.prompted import prompted_salience
from narrative_twins.evaluation.agreement import agreement_with_votes
from narrative_twins.evaluation.metrics import spearman
from narrative_twins.llm.chat import ServerError
from narrative_twins.llm.server import Server
from narrative_twins.show.formats import FORMATS, write_results

from support.chat_server import Model, completion, model_answer, prompt_of, serving

STORIES = [
    "Ada lost the ring. She cried all night. A fox found it.",
    {"id": "B", "sentences": ['He said "{{count}}".', "שלום", "🦊 ran\nhome.", "The end {was} near."]},
    ["Only this."],
]


def ask(model, path, stories=STORIES, **options):
    return prompted_salience(stories, Server(model.address, "tiny", seed=5), path / "answers", **options)


def test_choices_are_counted(tmp_path):
    """Ten samples with different seeds; the expected counts are computed from the answers of the model."""
    with serving(Model()) as model:
        results = ask(model, tmp_path)
    assert len(model.bodies) == 30 and all(body["temperature"] == 1.0 for body in model.bodies)
    assert len({body["seed"] for body in model.bodies}) == 30
    for result, first in zip(results, ("1. Ada", "1. He", "1. Only"), strict=True):
        asked = [(prompt_of(body), body["seed"]) for body in model.bodies if first in prompt_of(body)]
        assert len(asked) == 10
        chosen = Counter(json.loads(model_answer(*request))["sentence"] for request in asked)
        assert result.scores == {"prompted_choice": [chosen[number] for number in range(1, len(result) + 1)]}
    assert [result.index for result in results] == [0, 1, 2] and results[1].story.id == "B"


def test_prompt_contains_the_story_unchanged(tmp_path):
    with serving(Model()) as model:
        ask(model, tmp_path, STORIES[1:2], samples=1)
    assert '1. He said "{{count}}".\n2. שלום\n3. 🦊 ran home.\n4. The end {was} near.' in prompt_of(model.bodies[0])
    schema = model.bodies[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"] == {"sentence": {"type": "integer", "minimum": 1, "maximum": 4}}


def test_ratings_are_the_answers_of_the_model(tmp_path):
    with serving(Model()) as model:
        results = ask(model, tmp_path, styles=["rate"])
    expected = {
        prompt_of(body): json.loads(model_answer(prompt_of(body), body["seed"]))["scores"] for body in model.bodies
    }
    assert sorted(result.scores["prompted_rating"] for result in results) == sorted(expected.values())
    schema = model.bodies[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["scores"]["items"] == {"type": "number"}


def test_results_work_as_those_of_score_stories(tmp_path):
    with serving(Model()) as model:
        results = ask(model, tmp_path, styles=["choose", "rate"])
        again = ask(model, tmp_path, styles=["choose", "rate"])
    assert again == results and set(model.asked.values()) == {1}
    votes = [[3, 0, 1], [0, 5, 0, 0], [1]]
    found = agreement_with_votes(results, votes)
    expected = [spearman(result.scores["prompted_rating"], row) for result, row in zip(results, votes, strict=True)]
    assert found["prompted_rating_spearman"].value == pytest.approx(sum(expected[:2]) / 2)
    assert found["prompted_choice_auc"].counted == 2
    assert results[0].rank("prompted_rating") and results[0].to_dict()["scores"] == results[0].scores

    for form in FORMATS:
        assert all(write_results(results, form, []))


def test_invalid_answers_are_requested_again(tmp_path):
    def unsure(body, before):
        text = model_answer(prompt_of(body), body["seed"])
        return completion('{"scores": [0.5, 0.5, 0.5]}' if len(model.bodies) == 1 else text)

    with serving(Model(unsure)) as model:
        (result,) = ask(model, tmp_path, STORIES[:1], styles=["rate"])
    assert len(model.bodies) == 2 and len(set(result.scores["prompted_rating"])) == 3


def test_a_story_without_scores(tmp_path, caplog):
    def silent(body, before):
        return completion("hm" if "Ada" in prompt_of(body) else model_answer(prompt_of(body), body["seed"]))

    with serving(Model(silent)) as model:
        with pytest.raises(StoryError, match="story 0: no scores from the language model: rate: .* no JSON object"):
            ask(model, tmp_path, styles=["rate"])
        asked = len(model.bodies)
        results = ask(model, tmp_path, styles=["rate"], on_error="skip")
        assert [result.index for result in results] == [1, 2] and len(model.bodies) == asked == 3 + 2
    assert "story 0 is skipped" in caplog.text


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"styles": ["guess"]}, r"'guess'\]: must be"), ({"styles": []}, "must be one or"), ({"samples": 0}, "must be 1")],
)
def test_invalid_arguments(options, problem, tmp_path):
    with pytest.raises(ValueError, match=problem):
        prompted_salience([], Server("http://x/v1", "m"), tmp_path / "a", **options)
    with pytest.raises(TypeError, match="several stories"):
        prompted_salience("One story.", Server("http://x/v1", "m"), tmp_path / "a")
    with pytest.raises(StoryError, match="story 1"):
        prompted_salience(["Fine.", ""], Server("http://x/v1", "m"), tmp_path / "a")


def test_server_error_goes_before_rejected_samples(tmp_path):
    """Some samples are rejected before the server error is known, but the server error is raised."""
    server = Server("http://127.0.0.1:9/v1", "tiny", retries=0)
    with pytest.raises(ServerError, match="can't connect"):
        prompted_salience(STORIES[:1], server, tmp_path / "answers", on_error="skip")
