"""The facts that a trainer knows for the model card."""

from __future__ import annotations

from pathlib import Path

import pytest
from datasets import Dataset, DatasetInfo
from huggingface_hub import ModelCard
from sentence_transformers.base.evaluation import SequentialEvaluator

from narrative_twins.encoder.checkpoint import DEFAULT_ENCODER
from narrative_twins.training.arguments import (
    MaskedLanguageModelTrainingArguments,
    NarrativeTwinsTrainingArguments,
)
from narrative_twins.training.card import last_metrics, training_facts
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.mlm import MaskedLanguageModelTrainer
from narrative_twins.training.trainable import trainable_encoder
from narrative_twins.training.trainer import NarrativeTwinsTrainer

from support.models import trainable

STORIES = [
    {
        "story": [f"Nadia found {at} coins.", "It rained."],
        "twin": [f"{at} of it."],
        "negative": [f"He had {at} cats."],
    }
    for at in range(4)
]
FILMS = [
    {
        "story": [["Nadia ran.", "It rained."], ["They told no one."]],
        "twin": [["She fled."], ["Silence."]],
    }
]
JUDGED = [{"story": ["Nadia found a map.", "It rained.", "She laughed."], "counts": [3, 0, 1]}]
SECRETS = [sentence for row in STORIES for text in row.values() for sentence in text]
SECRETS += [
    sentence
    for row in FILMS
    for windows in row.values()
    for window in windows
    for sentence in window
]


def trainer(folder: Path, data, model=None, **options) -> NarrativeTwinsTrainer:
    evaluator = options.pop("evaluator", None)
    settings = {
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        **options,
    }
    arguments = NarrativeTwinsTrainingArguments(str(folder / "my run"), **settings)
    return NarrativeTwinsTrainer(model or trainable(), arguments, data, evaluator=evaluator)


def test_facts_of_a_run(tmp_path):
    info = DatasetInfo(license="cc0-1.0")
    data = {"stories": Dataset.from_list(STORIES, info=info), "films": Dataset.from_list(FILMS)}
    evaluators = SequentialEvaluator(
        [SalienceEvaluator(JUDGED, name="judged"), TwinsEvaluator(STORIES)]
    )
    options = {
        "max_steps": 2,
        "eval_strategy": "steps",
        "eval_steps": 1,
        "seed": 7,
        "temperature": 0.05,
    }
    run = trainer(tmp_path, data, evaluator=evaluators, per_device_train_batch_size=2, **options)
    run.train()
    facts = training_facts(run, "my readers")
    assert facts.name == "Story encoder my run"
    assert (facts.base_model, facts.base_model_id) == ("a local bert model", None)
    assert facts.training_data == "stories, 4 rows, licence cc0-1.0; films, 1 rows, licence unknown"
    assert facts.windows == "one window per story, 2 windows per story"
    assert facts.seeds == "7"
    for part in (
        "NarrativeTwinsLoss",
        "temperature 0.05",
        "distractors",
        "other windows",
        "2 steps of 2 rows",
    ):
        assert part in facts.objective
    metrics = last_metrics(run)
    assert metrics["step"] == 2
    figures = {figure.metric: figure for figure in facts.figures}
    assert {figure.dataset for figure in facts.figures} == {"my readers"}
    assert figures["Twins nearer than distractors"].value == metrics["eval_accuracy"]
    assert (
        figures["Spearman of summarization"].value == metrics["eval_judged_summarization_spearman"]
    )

    run.facts = {"training_data": "mine", "evaluation_set": "others", "license": "mit"}
    run.save_encoder(tmp_path / "saved")
    card = ModelCard.load(tmp_path / "saved" / "README.md")
    assert card.data.license == "mit" and {
        result.dataset_name for result in card.data.eval_results
    } == {"others"}
    assert "mine" in card.content and "licence cc0-1.0" not in card.content
    assert not any(secret in card.content for secret in SECRETS), "no text of the data"


@pytest.mark.parametrize(
    ("options", "expected", "unexpected"),
    [
        ({"twins": "dropout"}, "dropout twins", "for rows without a twin"),
        ({"distractors": False}, "narrative twins", ", distractors"),
        ({"in_story_negatives": False}, "distractors", "other windows"),
        ({"in_batch_negatives": False}, "no negatives of other rows", "own"),
        (
            {"distractor_loss": "separate"},
            "pairs of distractors in a loss of their own",
            "no negatives",
        ),
    ],
)
def test_the_objective_is_that_of_the_arguments(tmp_path, options, expected, unexpected):
    objective = training_facts(
        trainer(tmp_path, Dataset.from_list(STORIES), **options), ""
    ).objective
    assert expected in objective and unexpected not in objective


def test_streams_and_no_data(tmp_path):
    stream = Dataset.from_list(STORIES).to_iterable_dataset()
    assert training_facts(trainer(tmp_path, stream, max_steps=1), "").training_data.startswith(
        "stories, a stream"
    )
    facts = training_facts(trainer(tmp_path, None), "")
    assert (facts.training_data, facts.windows, list(facts.figures)) == ("none", "none", [])


def test_base_models_are_named_without_local_paths(tmp_path):
    run = trainer(tmp_path, None, trainable_encoder())
    assert training_facts(run, "").base_model == "the default encoder of narrative_twins"
    run.model[0].auto_model.config._name_or_path = str(Path(DEFAULT_ENCODER).parent)
    assert training_facts(run, "").base_model == "a local bert model"
    run.model[0].auto_model.config._name_or_path = "someone/encoder"
    facts = training_facts(run, "")
    assert (
        facts.base_model_id == "someone/encoder"
        and "huggingface.co/someone/encoder" in facts.base_model
    )


def test_masked_language_modelling(bert_folder, tmp_path):
    arguments = MaskedLanguageModelTrainingArguments(
        str(tmp_path / "run"),
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        hub_model_id="me/mlm",
    )
    facts = training_facts(
        MaskedLanguageModelTrainer(bert_folder, arguments, Dataset.from_list(STORIES)), ""
    )
    assert facts.name == "Story encoder mlm"
    assert facts.objective.startswith(
        "masked language modeling (MaskedLanguageModelTrainer) of 15% of the tokens"
    )
