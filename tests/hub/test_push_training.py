"""Pushes by trainers: of the encoder alone, with a card of the run."""

from __future__ import annotations

import numpy as np
import pytest
from datasets import Dataset
from huggingface_hub import ModelCard

from narrative_twins import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    SalienceEvaluator,
    StoryEncoder,
    trainable_encoder,
)
from narrative_twins.encoder.adapters import has_adapter
from narrative_twins.hub.push import HubError

pytestmark = pytest.mark.usefixtures("any_release_of_peft")

NAME = "somebody/encoder"
SECRET = "The heliotrope marmoset of Zanzibar whistled."
ROWS = [{"story": ["Omar ran.", SECRET], "twin": ["He went fast.", "He fell down."]}] * 4
FILES = {"modules.json", "config.json", "model.safetensors", "tokenizer.json", "README.md"}
STATE = ("checkpoint", "curves", "eval", "training", "runs", "optimizer", "rng_state")
SETTINGS = {"report_to": "none", "use_cpu": True, "hub_model_id": NAME}


def test_trainer_pushes_its_encoder_with_a_card_of_the_run(bert_folder, hub, tmp_path):
    labeled = [{"story": ["Omar ran.", "He fell.", "He slept."], "counts": [0, 3, 1]}]
    arguments = NarrativeTwinsTrainingArguments(
        str(tmp_path / "run"), max_steps=1, seed=7, eval_strategy="steps", eval_steps=1, **SETTINGS
    )
    trainer = NarrativeTwinsTrainer(
        trainable_encoder(bert_folder, pooling="first"),
        arguments,
        Dataset.from_list(ROWS),
        Dataset.from_list(ROWS[:2]),
        evaluator=SalienceEvaluator(labeled, name="salience"),
    )
    hub.fault = lambda method, path: 403 if "/commit/" in path else None
    trainer.train()
    with pytest.raises(HubError, match="no write access"):
        trainer.push_to_hub()
    hub.fault = lambda method, path: None
    trainer.facts = {"training_data": "four rows (CC0)", "evaluation_set": "One story"}
    assert trainer.push_to_hub(license="cc0-1.0") == f"{hub.address}/{NAME}"
    files = hub.files("models", NAME)
    assert FILES <= set(files) and not [name for name in files if name.startswith(STATE)]
    text = files["README.md"].decode()
    card = ModelCard(text)
    assert card.data.license == "cc0-1.0"
    found = {result.metric_name: result.metric_value for result in card.data.eval_results}
    key = "eval_salience_deletion_auc"
    logged = next(entry for entry in trainer.state.log_history if key in entry)
    assert found["salience deletion auc"] == logged[key]
    assert {result.dataset_name for result in card.data.eval_results} == {"One story"}
    shown = f"four rows (CC0)|temperature 0.05|1 steps|Seeds: 7|one window per story|={NAME!r}"
    assert all(words in text for words in shown.replace("'", '"').split("|"))
    assert "marmoset" not in text and str(tmp_path) not in text and bert_folder not in text
    arguments.hub_model_id = None
    assert trainer.push_to_hub() == f"{hub.address}/me/run", "the user of the token"


@pytest.mark.slow
def test_trained_adapter_is_saved_and_pushed_as_a_plain_encoder(bert_folder, hub, tmp_path):
    """Its checkpoints have the adapter alone, from which a run resumes."""
    peft = pytest.importorskip("peft")

    def trained(checkpoint=None):
        model = trainable_encoder(bert_folder).cpu()
        model.add_adapter(peft.LoraConfig(r=2, target_modules=["query", "value"]))
        settings = {"max_steps": 2, "save_steps": 1, "learning_rate": 0.01, **SETTINGS}
        arguments = NarrativeTwinsTrainingArguments(str(tmp_path / "run"), **settings)
        trainer = NarrativeTwinsTrainer(model, arguments, Dataset.from_list(ROWS))
        trainer.train(checkpoint)
        return trainer

    def weights(name) -> np.ndarray:
        encoder = StoryEncoder.from_pretrained(str(name), device="cpu", dtype="float32")
        return encoder.model.encoder.layer[0].attention.self.query.weight.detach().numpy()

    trainer = trained()
    trainer.save_encoder(tmp_path / "final")
    trainer.push_to_hub()
    assert not [name for name in hub.files("models", NAME) if name.startswith("adapter")]
    final = weights(tmp_path / "final")
    assert np.allclose(final, weights(NAME))
    assert not np.allclose(final, weights(bert_folder), atol=1e-4)
    assert "with an adapter (LORA) merged" in hub.files("models", NAME)["README.md"].decode()
    assert has_adapter(trainer.model[0].auto_model)
    checkpoint = tmp_path / "run" / "checkpoint-1"
    assert (checkpoint / "adapter_model.safetensors").is_file()
    trained(str(checkpoint)).save_encoder(tmp_path / "resumed")
    assert np.allclose(weights(tmp_path / "resumed"), final, atol=1e-5)
