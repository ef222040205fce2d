"""Results as plain data and back: `from_dict`, and the dicts of the pipeline."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import Story, StorySalience
from narrative_twins.salience.result import PlainResult


def result_of(text="Nadia ran.\n\n  It rained.  The mill burned.", windows=2, name="x", index=3):
    story = Story.parse({"id": name, "text": text} if name else {"text": text}, windows)
    scores = {
        "deletion": [i / 7 for i in range(len(story))],
        "summarization": [1 - i / 7 for i in range(len(story))],
    }
    return StorySalience(story, scores, 512, 9, "one-pass", index)


def test_from_dict_is_the_inverse_of_to_dict():
    result = result_of()
    again = StorySalience.from_dict(json.loads(json.dumps(result.to_dict())), index=3)
    assert again.to_dict() == result.to_dict()
    assert (again.name, again.title, again.notes, again.top(2)) == (
        result.name,
        result.title,
        result.notes,
        result.top(2),
    )
    assert [again.story.text[start:end] for start, end in again.spans] == list(result.sentences)
    baseline = StorySalience(Story.parse("Nadia ran."), {"length": [1]})
    assert StorySalience.from_dict(baseline.to_dict() | {"top": []}).to_dict() == baseline.to_dict()


@given(st.lists(st.text(min_size=1), min_size=1, max_size=6), st.data())
@settings(max_examples=100)
def test_any_story_survives(sentences, data):
    try:
        story = Story.parse(
            {"sentences": sentences, "windows": data.draw(st.integers(1, len(sentences)))}
        )
    except ValueError:
        return
    numbers = st.lists(st.floats(-1, 1), min_size=len(story), max_size=len(story))
    result = StorySalience(story, {"deletion": data.draw(numbers)})
    assert StorySalience.from_dict(json.loads(json.dumps(result.to_dict()))) == result


GOOD = result_of().to_dict()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "not list"),
        (
            {"text": "Nadia ran."},
            "no 'sentences', 'spans', 'windows', 'scores'; score the story first",
        ),
        (GOOD | {"sentences": "Nadia ran."}, "'spans' are not those of 'sentences'"),
        (GOOD | {"sentences": ["Nadia ran.", 5, "A."]}, "'spans' are not those"),
        (GOOD | {"sentences": ["Nadia ran.", "", "A."]}, "'' can't be at 14 to 24"),
        (GOOD | {"spans": [[0, 10]]}, "'spans' are not those"),
        (GOOD | {"spans": [[0, 10], "ab", [30, 46]]}, "'spans' are not those"),
        (GOOD | {"spans": [[0, 10], [5, 15], [30, 46]]}, "can't be at 5 to 15"),
        (GOOD | {"spans": [[10**15, 10**15 + 10], *GOOD["spans"][1:]]}, "can't be at 10{15} to"),
        (GOOD | {"windows": [[0, 2]]}, "does not partition"),
        (GOOD | {"scores": {}}, "list of numbers"),
        (GOOD | {"scores": {"deletion": [0.5, 1]}}, "2 scores of 'deletion' for 3"),
        (GOOD | {"scores": {"deletion": [0.5, 1, float("nan")]}}, "finite"),
        (GOOD | {"scores": {"deletion": [0.5, 1, "2"]}}, "finite"),
        (GOOD | {"cut_tokens": "many"}, "'cut_tokens' is 'many'"),
    ],
)
def test_what_is_no_result(data, problem):
    with pytest.raises(ValueError, match=problem):
        StorySalience.from_dict(data)


def test_a_plain_result_is_data():
    result = result_of(name=None)
    plain, data = PlainResult.of(result), result.to_dict()
    assert plain == data and data == plain and isinstance(plain, dict)
    assert json.dumps(plain) == json.dumps(data)
    for other in (pickle.loads(pickle.dumps(plain)), copy.deepcopy(plain), copy.copy(plain)):
        assert other == data and type(other) is PlainResult and other.index == 3
        assert other.salience.name == "story 4"
    assert "story 4" in plain._repr_html_()


def test_a_plain_result_has_the_methods_of_a_result(tmp_path):
    result = result_of()
    plain = PlainResult.of(result)
    assert plain.rank() == result.rank() and plain.rank("deletion") == result.rank("deletion")
    assert plain.top(2, "deletion") == result.top(2, "deletion")
    assert plain.extract(2) == result.extract(2) and plain.extract(share=0.9) == result.extract(
        share=0.9
    )
    assert plain.to_pandas().equals(result.to_pandas())
    assert plain._repr_html_() == StorySalience.from_dict(plain, 3)._repr_html_()
    plain.plot(tmp_path / "plot.svg", operations="deletion", width=3.3)
    result.plot(tmp_path / "same.svg", operations="deletion", width=3.3)
    assert (tmp_path / "plot.svg").read_bytes() == (tmp_path / "same.svg").read_bytes()
    plain["scores"]["deletion"][0] = 5.0
    assert plain.top(1, "deletion")[0].score == 5.0
