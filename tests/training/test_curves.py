"""The loss curves of short training runs are those of tests/curves.json.

    PYTHONPATH=tests python tests/training/test_curves.py

writes them; run it only after an intended change of the computation, never to make a test pass.
Runs depend on the machine only by rounding and by the random numbers of dropout, which are the same
for all builds of torch with MKL.
"""

import json
import re
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from packaging.version import Version
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from narrative_twins.data import load_story_twins, load_window_twins
from narrative_twins.training.trainer import trainable_encoder

from support.twins_batches import logged, trainer_of

FILE = Path(__file__).parents[1] / "curves.json"
STEPS = 50
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
RUNS = {
    # Rows of the package, and the batch size.
    "stories": (lambda: load_story_twins(split="train[:80]"), 4),
    "windows": (lambda: load_window_twins(split="train[:40]"), 2),
}


def words_of(rows) -> list[str]:
    """The words of stories, the most frequent ones first."""
    text = json.dumps([row["story"] for row in rows], ensure_ascii=False).lower()
    counts = Counter(re.findall(r"[a-z]+", text))
    return sorted(counts, key=lambda word: (-counts[word], word))[:1500]


def model_of(rows) -> SentenceTransformer:
    """A small BERT whose vocabulary and weights are the same on every machine."""
    vocabulary = {token: at for at, token in enumerate([*SPECIAL, *words_of(rows), *".,!?'\""])}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    backend.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 32, "max_position_embeddings": 256}
    config = transformers.BertConfig(vocab_size=len(vocabulary), **sizes)
    model = transformers.BertModel(config)
    random = np.random.default_rng(0)
    for name, weight in sorted(model.named_parameters()):
        if weight.ndim > 1:
            weight.data = torch.from_numpy(random.normal(0, 0.3, weight.shape)).float()
        else:
            weight.data.fill_(float(name.endswith("LayerNorm.weight")))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return trainable_encoder(folder, attn_implementation="eager").cpu()


def curve(name: str) -> list[float]:
    """The loss of each step of a run."""
    load, batch = RUNS[name]
    rows = load()
    options = {"max_steps": STEPS, "per_device_train_batch_size": batch, "logging_steps": 1}
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(folder, rows, model_of(rows), learning_rate=1e-3, **options)
        trainer.train()
    return logged(trainer)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_loss_curves_are_reproducible(name):
    """Fifty steps on the package's own data with dropout, against the curve in the repository.
    Rounding differs between machines: weights that differ by a millionth change the curve by less,
    a hundredth of the tolerance.
    """
    stored = json.loads(FILE.read_text())[name]
    assert len(stored) == STEPS
    # Without MKL, and in early releases, torch has other dropout masks: then compare two runs on
    # the same machine.
    comparable = torch.backends.mkl.is_available() and Version(torch.__version__) >= Version("2.13")
    expected = stored if comparable else curve(name)
    assert curve(name) == pytest.approx(expected, rel=1e-4)


def main() -> None:
    torch.set_num_threads(1)
    curves = {name: curve(name) for name in RUNS}
    FILE.write_text(json.dumps(curves, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
