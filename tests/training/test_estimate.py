"""What a run takes, by arithmetic. Numbers are bytes of models in float32 unless said otherwise."""

import pytest
import torch
from datasets import Dataset

from narrative_twins import NarrativeTwinsTrainer, NarrativeTwinsTrainingArguments
from narrative_twins.encoder.adapters import adapted, lora_config
from narrative_twins.training.estimate import EstimateCallback, estimate_training, training_memory

from support.examples import run
from support.models import encoder_of, trainable
from support.twins_batches import FILMS, QUIET, TWINS


def kept_for_backward(model, tokenizer, text: str) -> int:
    """The bytes of the tensors that autograd keeps, each once, without weights and scores of
    attention."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        # Attention of older libraries keeps its scores, which the arithmetic leaves out.
        is_scores = tensor.shape[-2:] == (tokens, tokens)
        if storage.data_ptr() not in weights and not is_scores:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    inputs = tokenizer(text, return_tensors="pt")
    tokens = inputs["input_ids"].shape[1]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # Without dropout, for which attention on a CPU keeps a matrix of scores.
        output = model.eval()(**inputs).last_hidden_state
    assert output.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("kind", ["bert", "modernbert", "qwen3"])
def test_activations_are_what_autograd_keeps(kind):
    """Within a factor of two: small layers keep relatively many small tensors."""
    model, tokenizer = encoder_of(kind)
    text = "Nadia found a map under the floor of the old mill. It rained all night. " * 4
    tokens = len(tokenizer(text)["input_ids"])
    kept = kept_for_backward(model, tokenizer, text)
    assert 0.5 < training_memory(model, tokens).activations / kept < 2


def test_memory_of_weights():
    model, _ = encoder_of("qwen3")
    count = sum(weight.numel() for weight in model.parameters())
    memory = training_memory(model, 0)
    assert (memory.weights, memory.gradients, memory.optimizer) == (4 * count, 4 * count, 8 * count)
    assert memory.fixed == memory.total == 16 * count
    assert training_memory(model, 0, bf16=True).fixed == 18 * count
    plain, recomputed = (training_memory(model, 9, recomputed=each) for each in (False, True))
    assert recomputed.activations < plain.activations
    # LoRA of frozen weights in bfloat16.
    with_adapter = adapted(model.bfloat16(), lora_config({"rank": 2}))
    new = sum(weight.numel() for weight in with_adapter.parameters()) - count
    memory = training_memory(with_adapter, 0)
    assert (memory.weights, memory.gradients) == (2 * count + 4 * new, 4 * new)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # Four texts of each of five rows; 18 of these are negatives.
        ({"": TWINS}, (5, 20, 18, 3)),
        # Three texts of three windows of each of two rows, without the window and its twin.
        ({"films": FILMS}, (2, 6, 16, 4)),
    ],
)
def test_estimate_of_a_trainer(data, expected, tmp_path):
    sets = {name: Dataset.from_list(rows) for name, rows in data.items()}
    arguments = NarrativeTwinsTrainingArguments(
        str(tmp_path),
        per_device_train_batch_size=5,
        window_batch_size=2,
        num_train_epochs=1,
        mini_batch_size=3,
        **QUIET,
    )
    trainer = NarrativeTwinsTrainer(trainable(), arguments, sets.get("", sets))
    before = torch.get_rng_state()
    estimate = estimate_training(trainer)
    assert torch.equal(torch.get_rng_state(), before)
    assert (estimate.rows, estimate.texts, estimate.negatives, estimate.steps) == expected
    assert estimate.texts_at_a_time == 3
    assert f"{expected[0]} rows, {expected[1]} texts" in str(estimate)
    trainer.train()
    assert trainer.state.global_step == estimate.steps


def test_first_step_and_time_left_are_printed(tmp_path, capsys):
    arguments = NarrativeTwinsTrainingArguments(str(tmp_path), max_steps=9, **QUIET)
    trainer = NarrativeTwinsTrainer(trainable(), arguments, Dataset.from_list(TWINS))
    trainer.add_callback(EstimateCallback(estimate_training(trainer)))
    trainer.train()
    printed = capsys.readouterr().err
    assert "seconds a step; 0 seconds left" in printed
    assert "GB by arithmetic" in printed or not torch.cuda.is_available()


def test_estimate_ends_a_script(bert_folder, tmp_path):
    flags = ["--smoke", "--encoder", bert_folder, "--use_cpu", "--output_dir", tmp_path / "run"]
    printed = run("train_roc.py", *flags, "--estimate")
    assert printed.startswith("Parameters: ") and "Memory by arithmetic: " in printed
    assert "Steps: 4" in printed and not list((tmp_path / "run").iterdir())
