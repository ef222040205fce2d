"""The encoder that comes with the package."""

from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from transformers import AutoModel

from narrative_twins import TwinsEvaluator, default_encoder
from narrative_twins.data.sources import corpus_rows

FOLDER = Path(default_encoder())


def test_files_are_small_and_contain_no_code():
    files = [file for file in FOLDER.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= 48_000_000
    assert {file.suffix for file in files} <= {".json", ".md", ".safetensors", ".txt"}


def test_stored_in_float16_with_a_token_for_every_row_and_loaded_in_float32(default):
    with safe_open(FOLDER / "model.safetensors", "pt") as weights:
        dtypes = {weights.get_tensor(name).dtype for name in weights.keys()}  # noqa: SIM118
    assert dtypes == {torch.float16}
    assert default.model.dtype == AutoModel.from_pretrained(FOLDER).dtype == torch.float32
    ids = default.tokenizer.tokenizer.get_vocab().values()
    assert sorted(ids) == list(range(default.model.config.vocab_size))


def test_sentence_transformers_loads_it_without_remote_code(default):
    theirs = SentenceTransformer(str(FOLDER), device="cpu", local_files_only=True)
    assert [type(module).__name__ for module in theirs] == ["Transformer", "Pooling"]
    assert theirs.max_seq_length == default.context_tokens == 512
    texts = ["Nadia found a map. It led to a mill."]
    assert theirs.encode(texts) == pytest.approx(default.encode(texts), abs=1e-5)


def test_card_has_a_licence_and_no_rows():
    """What it says of the model, tests/hub tests."""
    card = ModelCard.load(FOLDER / "README.md")
    assert card.data.license == "apache-2.0"
    for row in corpus_rows("stories")["train"].select(range(200)):
        assert not any(sentence in card.content for sentence in row["story"])


@pytest.mark.slow
def test_twins_are_more_similar_than_distractors():
    """The encoder was trained: an untrained encoder is right on an eighth of these rows."""
    model = SentenceTransformer(str(FOLDER), device="cpu", local_files_only=True)
    rows = corpus_rows("stories")["validation"].select(range(40))
    assert TwinsEvaluator(rows)(model)["accuracy"] >= 0.6
