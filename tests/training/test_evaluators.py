"""Evaluators, against naive loops."""

from __future__ import annotations

import json

import pytest
import torch

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.data import load_story_salience
from narrative_twins.evaluation.agreement import agreement_with_votes
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator

from support.models import trainable
from support.naive_metrics import naive_points, naive_votes, values
from support.oracle import Oracle, cosine

STORIES = [
    (
        ["Nadia found a map.", "Her brother laughed.", "At dawn they walked.", "It rained."],
        [0, 3, 1, 0],
    ),
    (["The water had risen.", "The bridge was gone!", "Nadia swam across alone."], [0, 2, 2]),
    (["I was there.", "Nadia ran."], [1, 1]),
    (
        ["It rained all night.", "They told no one.", "The mill burned down.", "Silver coins."],
        [4, 0, 0, 1],
    ),
]
"""Sentences and votes; in the third story all votes are equal."""


FILMS = [
    (
        [
            ["Nadia ran.", "It rained.", "A toy."],
            ["She swam.", "They told no one."],
            ["I was there.", "Why?"],
        ],
        [1, 4, 5],
    ),
    (
        [
            ["At dawn they walked.", "It rained."],
            ["A map."],
            ["Silver coins.", "A letter.", "He laughed."],
        ],
        [0, 2, 5],
    ),
]
"""Windows, and the turning point of each; a window with one sentence has no AUC."""


@pytest.mark.parametrize("name", ["", "dev"])
def test_votes(name):
    model = trainable().train()
    rows = [{"story": story, "counts": votes} for story, votes in STORIES]
    evaluator = SalienceEvaluator(rows, name=name)
    found = evaluator(model)
    assert model.training and model[0].auto_model.training
    model.eval()
    oracle = Oracle(model[0].auto_model, model.tokenizer)
    scored = [oracle.score(story, [(0, len(story))]) for story, _ in STORIES]
    expected = naive_votes(scored, [votes for _, votes in STORIES])
    prefix = f"{name}_" if name else ""
    assert found == pytest.approx(
        {prefix + key: value for key, value in expected.items()}, nan_ok=True, abs=1e-6
    )
    assert evaluator.primary_metric == f"{prefix}summarization_spearman"
    assert evaluator.primary_metric in found
    evaluator(model)
    assert not model.training, "the mode is unchanged"


@pytest.mark.parametrize("nested", [True, False])
def test_turning_points(nested):
    model = trainable().eval()
    rows, spans = [], []
    for windows, points in FILMS:
        ends = [0]
        for window in windows:
            ends.append(ends[-1] + len(window))
        spans.append(list(zip(ends, ends[1:], strict=False)))
        if nested:
            rows.append({"story": windows, "turning_points": points})
        else:
            flat = [sentence for window in windows for sentence in window]
            rows.append(
                {
                    "story": flat,
                    "windows": [list(span) for span in spans[-1]],
                    "turning_points": points,
                }
            )
    evaluator = SalienceEvaluator(rows)
    oracle = Oracle(model[0].auto_model, model.tokenizer)
    scored = [
        oracle.score([sentence for window in windows for sentence in window], windows_of)
        for (windows, _), windows_of in zip(FILMS, spans, strict=True)
    ]
    expected = naive_points(scored, spans, [points for _, points in FILMS])
    assert evaluator(model) == pytest.approx(expected, nan_ok=True, abs=1e-6)
    assert evaluator.primary_metric == "summarization_auc"


def test_labels_of_other_forms(tmp_path):
    """Rows of `load_story_salience` with grades, windows and highlights, and votes as before."""
    votes = [
        {"story": story, "choices": [i + 1 for i, count in enumerate(counts) for _ in range(count)]}
        for story, counts in STORIES
    ]
    graded = [
        {"story": story, "labels": [n / 4 for n in counts], "windows": 2}
        for story, counts in STORIES
    ]
    marked = [{"text": "Nadia ran. It rained. A toy.", "spans": [[0, 4], [11, 21]]}]
    loaded = []
    for name, rows in {
        "votes": votes,
        "graded": graded,
        "marked": marked,
        "both": votes + graded,
    }.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(rows))
        loaded.append(load_story_salience(path, "train", cache_dir=str(tmp_path)))
    model = trainable().eval()
    encoder = StoryEncoder.from_sentence_transformer(model)
    for rows in loaded:
        stories = [{"sentences": row["story"], "windows": row["windows"]} for row in rows]
        expected = values(agreement_with_votes(score_stories(stories, encoder), rows["labels"]))
        assert SalienceEvaluator(rows)(model) == pytest.approx(expected, nan_ok=True)
    assert loaded[0]["counts"][0] == STORIES[0][1] and loaded[1]["counts"][0] is None


def test_operations_and_primary_metric_can_be_chosen():
    rows = [{"story": story, "counts": votes} for story, votes in STORIES]
    evaluator = SalienceEvaluator(rows, operations="deletion", primary="deletion_auc", name="dev")
    assert evaluator(trainable()).keys() == {"dev_deletion_spearman", "dev_deletion_auc"}
    assert evaluator.primary_metric == "dev_deletion_auc"


def test_context_can_be_set():
    rows = [{"story": story, "counts": votes} for story, votes in STORIES]
    model = trainable()
    encoder = StoryEncoder.from_sentence_transformer(model, context_tokens=12)
    results = score_stories([row["story"] for row in rows], encoder, on_truncation="ignore")
    expected = values(agreement_with_votes(results, [row["counts"] for row in rows]))
    assert SalienceEvaluator(rows, context_tokens=12)(model) == pytest.approx(expected, nan_ok=True)
    assert SalienceEvaluator(rows)(model) != pytest.approx(expected, nan_ok=True)


def test_twins_are_compared_at_the_context_of_training():
    """The twin has another first word and the same ending, the distractor the same first words and
    another ending."""
    ending = ["The mill burned down.", "They told no one."] * 12
    row = {
        "story": ["Nadia ran.", *ending],
        "twin": ["Ada ran.", *ending],
        "negative": ["Nadia ran.", *["Why?"] * 24],
    }
    model = trainable()
    assert TwinsEvaluator([row])(model) == {"accuracy": 1.0}
    assert TwinsEvaluator([row], context_tokens=5)(model) == {"accuracy": 0.0}


def test_rows_without_labels_are_refused():
    for rows in ([], [{"story": ["Nadia ran."]}], [{"story": ["Nadia ran."], "counts": None}]):
        with pytest.raises(
            ValueError, match="rows with 'counts', 'labels' or 'turning_points' are needed"
        ):
            SalienceEvaluator(rows)
    votes, points = {"story": ["Why?"], "labels": [1.0]}, {"story": ["Why?"], "turning_points": [0]}
    for rows, message in (
        (
            [votes, {"story": ["No."], "labels": None}],
            "row 1 has no 'counts' or 'labels', which row 0 has",
        ),
        (
            [points, points, votes],
            "row 2 has no 'turning_points', which row 0 has; leave out rows without labels",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            SalienceEvaluator(rows)
    for row in (
        {"story": ["Nadia ran."], "twin": ["She ran."]},
        {"story": ["Why?"], "negative": ["No."], "twin": None},
    ):
        with pytest.raises(ValueError, match="rows with both 'twin' and 'negative' are needed"):
            TwinsEvaluator([row])


SHORT = [
    {
        "story": ["Nadia ran.", "It rained."],
        "twin": ["She ran in the rain."],
        "negative": ["A letter."],
    },
    {"story": ["Silver coins."], "twin": ["Why?"], "negative": ["Silver coins."]},
    {"story": ["I was there."], "twin": ["I was there."], "negative": ["He laughed."]},
    {"story": ["I was there."], "twin": ["He was."], "negative": None},
    {
        "story": ["They told no one."],
        "twin": ["At dawn they walked."],
        "negative": ["She swam across alone."],
    },
]


LONG = [
    {
        "story": [["Nadia ran."], ["It rained.", "A flood."], ["Why?"]],
        "twin": ["Rain fell.", "She ran.", "I was there.", "But why?"],
        "twin_windows": [[1], [0], [], [2]],
        "negative": [["A toy."], ["The mill burned down."], ["Silver coins."]],
    },
    {
        "story": [["At dawn."], ["They walked."], ["A map."]],
        "twin": [["At night."], ["They ran."], ["A letter."]],
        "negative": [["At dawn."], ["He laughed."], ["A map."]],
    },
    {
        "story": [["Nadia swam across."], ["It rained."]],
        "twin": [["Nadia swam across."], ["It rained."]],
        "negative": [["The mill burned down."], ["Silver coins."]],
    },
]


def naive_accuracy(model, rows):
    oracle = Oracle(model[0].auto_model, model.tokenizer)
    nearer = []
    for row in rows:
        if row["negative"] is None:
            continue
        texts = {}
        for side in ("story", "twin", "negative"):
            sentences, windows = [], row.get(f"{side}_windows") or []
            for number, part in enumerate(row[side]):
                for sentence in [part] if isinstance(part, str) else part:
                    sentences.append(sentence)
                    if f"{side}_windows" not in row:
                        windows.append(0 if isinstance(part, str) else number)
            texts[side] = (
                sentences,
                [ids[0] if isinstance(ids, list) and ids else ids for ids in windows],
            )
        count = max(texts["story"][1]) + 1
        for window in range(count):
            story, twin, negative = (
                oracle.embed(*texts[side], window if count > 1 else None) for side in texts
            )
            nearer.append(cosine(story, twin) > cosine(story, negative))
    return sum(map(int, nearer)) / len(nearer)


@pytest.mark.parametrize("rows", [SHORT, LONG])
@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_twins_and_distractors(rows, batch_size):
    model = trainable().train()
    evaluator = TwinsEvaluator(rows, name="twins", batch_size=batch_size)
    found = evaluator(model)
    assert model.training and model[0].auto_model.training
    assert found == {"twins_accuracy": pytest.approx(naive_accuracy(model.eval(), rows))}
    assert 0 < found["twins_accuracy"] < 1
    assert evaluator.primary_metric == "twins_accuracy"


def test_evaluation_leaves_no_gradients_and_is_stored_for_the_card():
    model = trainable().train()
    TwinsEvaluator(SHORT)(model)
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert torch.is_grad_enabled()
    metrics = model.model_card_data.eval_results_dict
    assert [type(evaluator).__name__ for evaluator in metrics] == ["TwinsEvaluator"]
