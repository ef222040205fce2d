"""Evaluators, against naive loops."""

import pytest
import torch

from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.losses import flat_text

from support.models import trainable
from support.naive_metrics import naive_points, naive_votes
from support.oracle import Oracle, cosine
from support.twins_batches import texts

VOTES = [
    {"story": ["Nadia found a map.", "He laughed.", "They walked.", "No."], "counts": [0, 3, 1, 0]},
    {"story": ["The water had risen.", "The bridge!", "Nadia swam."], "labels": [0.0, 0.5, 0.5]},
    {"story": ["I was there.", "Nadia ran."], "counts": [1, 1]},
    {"story": ["It rained.", "No one.", "The mill burned.", "Coins."], "counts": [4, 0, 0, 1]},
]
"""Stories with votes or other labels; in the third one all votes are equal."""
POINTS = {"story": ["Why?"], "turning_points": [1, 3, 5]}
FILM = [["Nadia ran.", "Rain.", "A toy."], ["She swam."], ["No one.", "I was.", "Why?"]]


@pytest.mark.parametrize("options", [{"name": "dev"}, {"operations": "deletion"}])
def test_votes(options):
    model = trainable().train()
    evaluator = SalienceEvaluator(VOTES, **options)
    metrics = evaluator(model)
    assert model.training and model[0].auto_model.training, "the mode is unchanged"
    oracle = Oracle(model.eval()[0].auto_model, model.tokenizer)
    scored = [oracle.score(row["story"], [(0, len(row["story"]))]) for row in VOTES]
    naive = naive_votes(scored, [row.get("counts") or row["labels"] for row in VOTES])
    prefix, only = ("dev_", "") if "name" in options else ("", "deletion")
    expected = {prefix + key: value for key, value in naive.items() if key.startswith(only)}
    assert metrics == pytest.approx(expected, nan_ok=True, abs=1e-6)
    assert evaluator.primary_metric == f"{prefix}{only or 'summarization'}_spearman"


def test_turning_points():
    """In both forms of windows; a window with one sentence has no AUC."""
    model, story, spans = trainable().eval(), sum(FILM, []), [[0, 3], [3, 4], [4, 7]]
    rows = [POINTS | {"story": story, "windows": spans}, POINTS | {"story": FILM}]
    evaluator = SalienceEvaluator(rows)
    scored = Oracle(model[0].auto_model, model.tokenizer).score(story, spans)
    expected = naive_points([scored] * 2, [spans] * 2, [POINTS["turning_points"]] * 2)
    assert evaluator(model) == pytest.approx(expected, nan_ok=True, abs=1e-6)
    assert evaluator.primary_metric == "summarization_auc"


LABELS = {"story": ["Why?"], "labels": [1.0]}
ALONE = {"story": ["Why?"], "negative": ["No."], "twin": None}


@pytest.mark.parametrize(
    ("kind", "rows", "problem"),
    [
        (SalienceEvaluator, [], "rows with 'counts', 'labels' or 'turning_points'"),
        (SalienceEvaluator, [LABELS | {"labels": None}], "rows with 'counts', 'labels' or"),
        (SalienceEvaluator, [LABELS, POINTS], "the same for all"),
        (TwinsEvaluator, [ALONE], "both 'twin' and"),
    ],
)
def test_rows_without_labels_are_refused(kind, rows, problem):
    with pytest.raises(ValueError, match=problem):
        kind(rows)


SHORT = [
    texts(["Nadia ran.", "It rained."], ["She ran in it."], ["A letter."]),
    texts(["Silver coins."], ["Why?"], ["Silver coins."]),
    texts(["I was there."], ["I was there."], ["He laughed."]),
    texts(["I was there."], ["He was."], None),
]
LONG = [
    texts(
        [["Nadia ran."], ["It rained.", "A flood."], ["Why?"]],
        ["Rain fell.", "She ran.", "I was there.", "But why?"],
        [["A toy."], ["The mill burned down."], ["Silver coins."]],
    )
    | {"twin_windows": [[1], [0], [], [2]]},
    texts(
        [["At dawn."], ["They walked."], ["A map."]],
        [["At night."], ["They ran."], ["A letter."]],
        [["At dawn."], ["He laughed."], ["A map."]],
    ),
]


@pytest.mark.parametrize(("rows", "batch_size"), [(SHORT, 3), (SHORT, 32), (LONG, 1)])
def test_twins_and_distractors(rows, batch_size):
    model = trainable().train()
    metrics = TwinsEvaluator(rows, name="twins", batch_size=batch_size)(model)
    assert model.training and torch.is_grad_enabled()
    oracle, nearer = Oracle(model.eval()[0].auto_model, model.tokenizer), []
    for row in (row for row in rows if row["negative"] is not None):
        sides = [flat_text(row[side]) for side in ("story", "twin", "negative")]
        if "twin_windows" in row:
            sides[1] = row["twin"], [at[0] if at else -1 for at in row["twin_windows"]]
        count = max(sides[0][1]) + 1
        for window in range(count) if count > 1 else [None]:
            story, twin, distractor = (oracle.embed(*text, window) for text in sides)
            nearer.append(int(cosine(story, twin) > cosine(story, distractor)))
    assert metrics == {"twins_accuracy": pytest.approx(sum(nearer) / len(nearer))}


def test_twins_are_compared_at_the_context_of_training():
    """The twin has another first word and the same ending, the distractor the same first words and
    another ending."""
    ending = ["The mill burned down.", "They told no one."] * 12
    stories = ["Nadia ran.", *ending], ["Ada ran.", *ending], ["Nadia ran.", *["Why?"] * 24]
    rows = [texts(*stories)]
    model = trainable()
    assert TwinsEvaluator(rows)(model) == {"accuracy": 1.0}
    assert TwinsEvaluator(rows, context_tokens=5)(model) == {"accuracy": 0.0}


def test_settings_for_the_card_are_those_that_are_not_the_defaults():
    one_pass = SalienceEvaluator(VOTES, approximate="one-pass", context_tokens=40)
    assert one_pass.get_config_dict() == {"approximate": "one-pass", "context_tokens": 40}
    assert SalienceEvaluator(VOTES).get_config_dict() == {}
