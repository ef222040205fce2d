"""The facts that a trainer knows for the model card."""

from __future__ import annotations

from datasets import Dataset, DatasetInfo
from huggingface_hub import ModelCard

from narrative_twins.encoder.loading import DEFAULT_ENCODER
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.reporting import last_metrics, training_facts

from support.twins_batches import FILMS, TWINS, trainer_of

JUDGED = [{"story": ["Nadia found a map.", "It rained.", "She laughed."], "counts": [3, 0, 1]}]


def test_facts_of_a_run(tmp_path):
    info = DatasetInfo(license="cc0-1.0")
    data = {"stories": Dataset.from_list(TWINS, info=info), "films": Dataset.from_list(FILMS)}
    run = trainer_of(
        tmp_path / "my run",
        data,
        evaluator=[SalienceEvaluator(JUDGED, name="judged"), TwinsEvaluator(TWINS)],
        max_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        seed=7,
        per_device_train_batch_size=2,
    )
    run.train()
    facts = training_facts(run, "my readers")
    assert facts.name == "Story encoder my run"
    assert (facts.base_model, facts.base_model_id) == ("a local bert model", None)
    described = "stories, 12 rows, licence cc0-1.0; films, 7 rows, licence unknown"
    assert facts.training_data == described
    assert facts.windows == "one window per story, 3 windows per story"
    assert facts.seeds == "7"
    for part in ("NarrativeTwinsLoss (temperature 0.05", "twins narrative", "2 steps of 2 rows"):
        assert part in facts.objective
    metrics = last_metrics(run)
    assert metrics["step"] == 2
    figures = {figure.metric: figure.value for figure in facts.figures}
    assert {figure.dataset for figure in facts.figures} == {"my readers"}
    assert figures["accuracy"] == metrics["eval_accuracy"]
    expected = metrics["eval_judged_summarization_spearman"]
    assert figures["judged summarization spearman"] == expected

    run.facts = {"training_data": "mine", "evaluation_set": "others", "license": "mit"}
    run.save_encoder(tmp_path / "saved")
    card = ModelCard.load(tmp_path / "saved" / "README.md")
    assert card.data.license == "mit"
    assert {result.dataset_name for result in card.data.eval_results} == {"others"}
    assert "mine" in card.content and "licence cc0-1.0" not in card.content


def test_streams_no_data_and_bases(tmp_path):
    stream = Dataset.from_list(TWINS).to_iterable_dataset()
    facts = training_facts(trainer_of(tmp_path, stream, max_steps=1), "")
    assert facts.training_data.startswith("stories, a stream of rows")
    run = trainer_of(tmp_path, None)
    facts = training_facts(run, "")
    assert (facts.training_data, facts.windows, facts.figures) == ("none", "none", [])
    for name, expected in (
        (str(DEFAULT_ENCODER), ("the default encoder of narrative_twins", None)),
        (str(DEFAULT_ENCODER.parent), ("a local bert model", None)),
        ("one/encoder", (None, "one/encoder")),
    ):
        run.transformer.config._name_or_path = name
        facts = training_facts(run, "")
        assert expected in ((facts.base_model, facts.base_model_id), (None, facts.base_model_id))
