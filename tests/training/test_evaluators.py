"""Evaluators, against naive loops."""

from __future__ import annotations

import pytest
import torch

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.evaluation.agreement import agreement_with_votes
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.losses import flat_text

from support.models import trainable
from support.naive_metrics import naive_points, naive_votes, values
from support.oracle import Oracle, cosine

VOTES = [
    {"story": ["Nadia found a map.", "He laughed.", "They walked.", "No."], "counts": [0, 3, 1, 0]},
    {"story": ["The water had risen.", "The bridge!", "Nadia swam."], "labels": [0.0, 0.5, 0.5]},
    {"story": ["I was there.", "Nadia ran."], "counts": [1, 1]},
    {"story": ["It rained.", "No one.", "The mill burned.", "Coins."], "counts": [4, 0, 0, 1]},
]
"""Stories with votes or other labels; in the third one all votes are equal."""
FILMS = [
    {
        "story": [["Nadia ran.", "Rain.", "A toy."], ["She swam.", "No one."], ["I was.", "Why?"]],
        "turning_points": [1, 4, 5],
    },
    {
        "story": [["At dawn.", "It rained."], ["A map."], ["Coins.", "A letter.", "He laughed."]],
        "turning_points": [0, 2, 5],
    },
]
"""Windows, and the turning point of each; a window with one sentence has no AUC."""


def labels_of(row):
    return row.get("counts") or row["labels"]


@pytest.mark.parametrize("name", ["", "dev"])
def test_votes(name):
    model = trainable().train()
    evaluator = SalienceEvaluator(VOTES, name=name)
    found = evaluator(model)
    assert model.training and model[0].auto_model.training, "the mode is unchanged"
    oracle = Oracle(model.eval()[0].auto_model, model.tokenizer)
    scored = [oracle.score(row["story"], [(0, len(row["story"]))]) for row in VOTES]
    prefix = f"{name}_" if name else ""
    naive = naive_votes(scored, list(map(labels_of, VOTES)))
    expected = {prefix + key: value for key, value in naive.items()}
    assert found == pytest.approx(expected, nan_ok=True, abs=1e-6)
    assert evaluator.primary_metric == f"{prefix}summarization_spearman"


@pytest.mark.parametrize("nested", [True, False])
def test_turning_points(nested):
    model = trainable().eval()
    rows, spans, scored = [], [], []
    oracle = Oracle(model[0].auto_model, model.tokenizer)
    for row in FILMS:
        ends = [0]
        for window in row["story"]:
            ends.append(ends[-1] + len(window))
        spans.append(list(zip(ends, ends[1:], strict=False)))
        flat = [sentence for window in row["story"] for sentence in window]
        scored.append(oracle.score(flat, spans[-1]))
        rows.append(row if nested else row | {"story": flat, "windows": list(map(list, spans[-1]))})
    evaluator = SalienceEvaluator(rows)
    expected = naive_points(scored, spans, [row["turning_points"] for row in FILMS])
    assert evaluator(model) == pytest.approx(expected, nan_ok=True, abs=1e-6)
    assert evaluator.primary_metric == "summarization_auc"


def test_operations_primary_metric_and_context_can_be_chosen():
    model = trainable()
    evaluator = SalienceEvaluator(VOTES, operations="deletion", name="dev", context_tokens=12)
    encoder = StoryEncoder.from_sentence_transformer(model, context_tokens=12)
    stories = [row["story"] for row in VOTES]
    results = score_stories(stories, encoder, operations="deletion", on_truncation="ignore")
    expected = values(agreement_with_votes(results, list(map(labels_of, VOTES))))
    expected = {f"dev_{key}": value for key, value in expected.items()}
    assert evaluator(model) == pytest.approx(expected, nan_ok=True)
    assert evaluator.primary_metric == "dev_deletion_spearman"


def test_rows_without_labels_are_refused():
    for rows in ([], [{"story": ["Nadia ran."]}], [{"story": ["Nadia ran."], "counts": None}]):
        with pytest.raises(ValueError, match="rows with 'counts', 'labels' or 'turning_points'"):
            SalienceEvaluator(rows)
    votes, points = {"story": ["Why?"], "labels": [1.0]}, {"story": ["Why?"], "turning_points": [0]}
    for rows in ([votes, points], [points, votes]):
        with pytest.raises(ValueError, match="the same for all"):
            SalienceEvaluator(rows)
    with pytest.raises(ValueError, match="rows with both 'twin' and 'negative' are needed"):
        TwinsEvaluator([{"story": ["Why?"], "negative": ["No."], "twin": None}])


SHORT = [
    {"story": ["Nadia ran.", "It rained."], "twin": ["She ran in it."], "negative": ["A letter."]},
    {"story": ["Silver coins."], "twin": ["Why?"], "negative": ["Silver coins."]},
    {"story": ["I was there."], "twin": ["I was there."], "negative": ["He laughed."]},
    {"story": ["I was there."], "twin": ["He was."], "negative": None},
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
]


def windowed(row, side):
    """The sentences of a text and the window of each."""
    content, ids = row[side], row.get(f"{side}_windows")
    if ids is not None:
        return content, [windows[0] if windows else -1 for windows in ids]
    return flat_text(content)


@pytest.mark.parametrize(("rows", "batch_size"), [(SHORT, 3), (SHORT, 32), (LONG, 1)])
def test_twins_and_distractors(rows, batch_size):
    model = trainable().train()
    evaluator = TwinsEvaluator(rows, name="twins", batch_size=batch_size)
    found = evaluator(model)
    assert model.training and model[0].auto_model.training
    assert torch.is_grad_enabled() and all(p.grad is None for p in model.parameters())
    oracle = Oracle(model.eval()[0].auto_model, model.tokenizer)
    nearer = []
    for row in (row for row in rows if row["negative"] is not None):
        texts = [windowed(row, side) for side in ("story", "twin", "negative")]
        count = max(texts[0][1]) + 1
        for window in range(count):
            at = window if count > 1 else None
            story, twin, negative = (oracle.embed(*text, at) for text in texts)
            nearer.append(cosine(story, twin) > cosine(story, negative))
    assert found == {"twins_accuracy": pytest.approx(sum(map(int, nearer)) / len(nearer))}


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
