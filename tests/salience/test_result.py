"""The result of scoring a story: ranks, top sentences, extracts, tables; as plain data and back;
and what notebooks show."""

import copy
import json
import pickle
from pkgutil import resolve_name

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot

from narrative_twins import OPERATIONS, Story, StorySalience, show
from narrative_twins.salience.ranking import compared

from support.parsed import Parsed
from support.results import result_of
from support.scoring import FixedScores, score_story


def test_rank_and_top(encoder):
    fixed = FixedScores([0.5, 0.9, 0.5, 0.1])
    result = score_story(["A.", "B.", "C.", "D."], encoder, operations=[fixed])
    assert result.rank() == result.rank("fixed") == [2, 1, 2, 4]
    top = [(each.index, each.sentence, each.score) for each in result.top(3)]
    assert top == [(1, "B.", 0.9), (0, "A.", 0.5), (2, "C.", 0.5)]
    assert len(result.top(9)) == 4 and result.top(0) == []
    with pytest.raises(ValueError, match="negative"):
        result.top(-1)
    with pytest.raises(ValueError, match="'deletion' was not scored; choose from fixed"):
        result.rank("deletion")


def test_disruption_is_compared_with_what_is_usual_at_its_place():
    usual = [0.0, 1.0, 2**-1.25, 3**-1.25]
    plain = [*usual, *usual, *usual[:3], 2 * usual[3]]
    story = Story.parse({"sentences": [f"Sentence {i}." for i in range(12)], "windows": 3})
    result = StorySalience(story, {"disruption": plain, "deletion": plain, "own": plain})
    # The first sentence of the story keeps 0; those of later windows, which have no score, count as
    # the median.
    assert compared(result, "disruption") == pytest.approx([0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2])
    ranks = result.rank("disruption")
    assert (ranks[0], ranks[11]) == (12, 1)
    (best,) = result.top(1, "disruption")
    assert best.index == 11 and best.score == plain[11], "the score itself is that of the operation"
    assert plain == compared(result, "deletion") == compared(result, "own")
    words = "each score with what is usual at its place"
    assert words in result.notes_on(["deletion", "disruption"])[0] and not result.notes
    assert words in "".join(show.to_html([result])) and not result.notes_on(["deletion"])


def test_extracts_are_the_top_sentences_in_story_order():
    sentences = ["One.", "Two\n is long.", "Three.", "Four.", "Five."]
    scores = {"summarization": [0.1, 0.9, 0.3, 0.2, 0.8], "deletion": [5.0, 4.0, 3.0, 2.0, 1.0]}
    result = StorySalience(Story.parse(sentences), scores)
    extract = result.extract(2)
    assert extract == sorted(result.top(2), key=lambda sentence: sentence.index)
    assert str(extract) == "Two is long.\nFive." and extract == result.extract(share=0.5)
    assert len(result.extract(9)) == len(result.extract(share=1)) == 5
    assert result.extract(0) == [] and str(result.extract(0)) == ""
    assert result.extract(1) == result.extract(share=0.01) == result.extract()
    assert str(result.extract(1, "deletion")) == "One."
    refused = ("negative", -1, None), ("not both", 1, 0.5), ("above 0", None, 0)
    for problem, k, share in (*refused, ("at most 1", None, 1.5)):
        with pytest.raises(ValueError, match=problem):
            result.extract(k, share=share)


# Plain data


def test_plain_data_and_pandas(encoder):
    story = {"id": "x", "sentences": ["Nadia ran.", "It rained."], "windows": 2}
    result = score_story(story, encoder)
    assert result.json() == {
        "id": "x",
        "row": 0,
        "sentences": ["Nadia ran.", "It rained."],
        "spans": [[0, 10], [11, 21]],
        "windows": [[0, 1], [1, 2]],
        "scores": result.scores,
        "truncated": False,
        "context_tokens": 512,
        "cut_tokens": 0,
        "approximate": None,
        "dtype": "float32",
        "similarity": "cosine",
    }
    frame = result.to_pandas()
    assert list(frame.columns) == ["sentence", "start", "end", "window", *OPERATIONS]
    assert frame["summarization"].tolist() == result.scores["summarization"]


def sample(name="x"):
    source = {"text": "Nadia ran.\n\n  It rained.  The mill burned.", "id": name}
    scores = {"deletion": [0, 1 / 7, 2 / 7], "summarization": [1, 6 / 7, 5 / 7]}
    return StorySalience(Story.parse(source, 2), scores, 512, 9, "one-pass", 3, None, "dot")


@given(st.lists(st.text(min_size=1), min_size=1, max_size=6), st.data())
@settings(max_examples=15)
def test_from_dict_is_the_inverse_of_json(sentences, data):
    windows = data.draw(st.integers(1, len(sentences)))
    try:
        story = Story.parse({"sentences": sentences, "windows": windows})
    except ValueError:
        return
    numbers = st.lists(st.floats(-1, 1), min_size=len(story), max_size=len(story))
    result = StorySalience(story, {"deletion": data.draw(numbers)})
    assert StorySalience.from_dict(json.loads(json.dumps(result.json()))) == result


def test_text_between_sentences_is_spaces_in_saved_results():
    result = sample()
    again = StorySalience.from_dict(json.loads(json.dumps(result.json())), index=3)
    assert again.json() == result.json()
    assert (again.title, again.notes, again.top(2)) == (result.title, result.notes, result.top(2))
    assert "The similarity is dot, not cosine." in result.notes
    assert [again.story.text[start:end] for start, end in again.spans] == list(result.sentences)


GOOD = sample().json()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "this is not a result, but list"),
        ({"text": "Nadia ran."}, "this is not a result: it has no 'sentences'"),
        (GOOD | {"sentences": ["Nadia ran.", 5, "A."]}, "'spans' do not fit 'sentences'"),
        (GOOD | {"spans": [[0, 10]]}, "'spans' do not fit"),
        (GOOD | {"spans": [[1, 10], *GOOD["spans"][1:]]}, "'spans' do not fit"),
        (GOOD | {"windows": [[0, 2]]}, "does not partition"),
        (GOOD | {"scores": []}, "list of numbers"),
        (GOOD | {"scores": {}}, "no scores"),
        (GOOD | {"scores": {"deletion": [0.5, 1]}}, "the scores of 'deletion' are not 3 finite"),
        (GOOD | {"scores": {"deletion": [0.5, 1, float("nan")]}}, "finite"),
        (GOOD | {"scores": {"deletion": [True, False, True]}}, "finite"),
        (GOOD | {"cut_tokens": "many"}, "numbers of tokens"),
    ],
)
def test_what_is_no_result(data, problem):
    with pytest.raises(ValueError, match=problem):
        StorySalience.from_dict(data)


def test_a_result_is_a_mapping(tmp_path):
    result, data = sample(), sample().json()
    assert dict(result) == data == result and list(result) == list(data) and len(result) == 12
    assert result["scores"] == data["scores"] and result["id"] == "x" and "title" not in result
    assert "id" not in sample(name=None) and len(sample(name=None)) == 11
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert other == data and other.index == 3
    result["scores"]["deletion"].clear()
    assert result == data, "keys give copies"
    figure = result.plot(tmp_path / "a.svg", operations="deletion", width=3.3)
    assert figure._repr_png_() and not pyplot.get_fignums(), "notebooks show it once"


# Notebooks


def test_a_result_shows_its_story():
    result = sample("A-1")
    page = result._repr_html_()
    found = Parsed(page)
    spans = [attributes for tag, attributes in found.elements if tag == "span"]
    assert found.texts["span"] == list(result.sentences)
    title = "Sentence 1 of 3, rank 1 by summarization: deletion 0.000 · summarization 1.000"
    assert spans[0]["title"] == title
    styles = [attributes["style"] for attributes in spans]
    assert all(";color:#1b1b1f" in style for style in styles), "dark pages have pale text"
    assert ["bold" in style for style in styles] == [False, True, False]
    assert "background:#f29e4c" in styles[1] and "background:#ffffff" in styles[2]
    assert "background:#ffffff" in styles[0], "it is alone in its window"
    assert page.index("Nadia ran.") < page.index("<br><br>") < page.index("It rained")
    assert "A-1: 3 sentences" in page and "without up to 9 of its tokens" in page
    assert not {"style", "script"} & set(found.tags)


def test_long_stories_are_cut_in_notebooks():
    page = result_of(["A."] * 2003)._repr_html_()
    assert Parsed(page).tags.count("span") == 2000 and "3 more sentences not shown" in page
    text = repr(result_of(["A long sentence. " * 100] * 50, name="n" * 500))
    assert len(text) < 200 and "50 sentences, 1 window; most salient by summarization: " in text


@pytest.mark.parametrize("name", ["compared", "shaded", "marked", "highest"])
def test_earlier_methods_warn_and_name_the_function_that_replaces_them(name):
    result = result_of(["Nadia ran.", "It rained.", "The mill burned."])
    arguments = [2] if name == "highest" else []
    function = resolve_name(f"narrative_twins.salience.ranking.{name}")
    with pytest.warns(DeprecationWarning, match=rf"salience\.ranking\.{name}\(result, "):
        values = getattr(result, name)(*arguments)
    assert values == function(result, *arguments)


def test_a_sentence_of_short_lines_has_a_note():
    lines = "a fox saw grapes\nshe jumped for them\nthey hung too high\nshe left"
    assert "4 short lines" in result_of([lines]).unsplit
    assert "--split lines" in result_of(["It rained.", lines]).unsplit
    wrapped = "\n".join(["the fox looked at all the grapes in the garden of the old house,"] * 6)
    for sentence in ("a fox\nsaw grapes\nand left", wrapped, "It rained."):
        assert not result_of([sentence]).unsplit
