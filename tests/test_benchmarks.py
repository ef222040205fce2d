"""The benchmarks run, and the ways that they compare do what they claim."""

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from narrative_twins import Story, score_stories
from narrative_twins.stories.headings import find_headings

from support.examples import run
from support.models import SENTENCES, small

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.append(str(BENCHMARKS))

import artefacts  # noqa: E402
import contenders  # noqa: E402
import splitters  # noqa: E402

RUNS = [
    ("speed.py --work stories corpus --stories 3 --rounds 1 --out out.json",
     "reference loop|exact, float32|one pass, auto|floor, plain torch|forward passes|corpus, two processes"),
    ("tradeoff.py . --plain MODEL --limit 3 --rounds 1 --sentences 30 --out out.json --plot out.svg",
     "exact, all operations|exact, summarization|one pass|TextRank, MiniLM|similarity with the text"),
    ("tradeoff.py nowhere", "skipped: no nowhere/roc_val.json or tripod_train.json"),
    ("artefacts.py . --out out.json", "disruption by place|place 2-3 would be|without length"),
    ("books.py --sentences 30 40", "s per 1,000 sentences, peak"),
    ("training.py --rounds 1 --work '32 stories'", "times the time of plain, float32"),
    ("gpu.py --device cpu --large MODEL --out out.md --stories 4 --synopses 1 --corpus 20"
     " --parts parity batches memory timing training corpus limit",
     "parity: auto, padded|exact, float32|corpus of 20 stories, one pass"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "words"), RUNS, ids=lambda value: value.split()[0])
@pytest.mark.slow
def test_benchmarks_run(command, words, bert_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stories = {
        f"story {at}": {"sentences": SENTENCES[at : at + 5], "most_important": [1, 2, 2]}
        for at in range(4)
    }
    film = {"sentences": SENTENCES * 2, "turning_points": [0, 3, 6, 8, 12]}
    for name, rows in (("roc_val", stories), ("tripod_train", {"film_0": film})):
        Path(f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    script, *options = shlex.split(command.replace("MODEL", bert_folder))
    printed = run(BENCHMARKS / script, *options, "--model", bert_folder)
    assert all(word in printed for word in words.split("|")), printed
    assert "failed: " not in printed


@pytest.fixture
def encoded():
    """An encoder, and the token ids of each text that its model gets, without padding."""
    encoder, rows = small("bert"), []

    def record(module, args, inputs):
        masks = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).bool()
        rows.extend(
            tuple(ids[mask].tolist()) for ids, mask in zip(inputs["input_ids"], masks, strict=True)
        )

    hook = encoder.model.register_forward_pre_hook(record, with_kwargs=True)
    yield encoder, rows
    hook.remove()


@pytest.mark.parametrize("windows", [1, 3])
def test_reference_loop_encodes_the_same_texts_as_the_engine(windows, encoded):
    """Each text as often as an operation needs it."""
    encoder, seen = encoded
    story, size = Story.parse({"sentences": SENTENCES[:6]}, windows), 6 // windows
    unique = {tuple(row.tolist()) for row in contenders.unique_rows(encoder, [story])}
    seen.clear()
    contenders.reference(encoder, [story])()
    assert len(seen) == windows * (3 + 3 * size + size * (size - 1)) and set(seen) == unique
    assert len(list(score_stories([story], encoder))) == 1, "the encoder still works"


def test_floor_encodes_the_same_number_of_tokens(encoded):
    encoder, seen = encoded
    rows = contenders.unique_rows(encoder, [Story.parse({"sentences": SENTENCES[:5]}, 1)])
    seen.clear()
    for products in (False, True):
        contenders.floor(encoder, rows, products)()
    assert sum(map(len, seen)) == pytest.approx(2 * sum(map(len, rows)), rel=0.05)


def test_length_is_partialled_out_of_ranks():
    lengths = [5, 9, 2, 7, 3]
    assert artefacts.without_length(np.array(lengths) ** 2.0, lengths) == pytest.approx(0)
    rest = artefacts.without_length(np.array([0.3, 0.1, 0.9, 0.2, 0.5]), lengths)
    ranks = np.argsort(np.argsort(lengths))
    assert rest @ ranks == pytest.approx(0)


@pytest.mark.parametrize("name", ["gold.txt", "held_out.txt"])
def test_default_splitter_on_dialogue(name):
    passages = splitters.read_dialogue(name)
    assert len(passages) >= 10 and sum(len(sentences) for _, sentences in passages) > 120
    assert splitters.agreement(passages)[0] > 0.98  # syntok alone has 0.93 at most
    lines = (splitters.DIALOGUE / name).read_text(encoding="utf-8").splitlines()
    headings = [line.removeprefix("@ ") for line in lines if line.startswith("@ ")]
    assert [text[lo:hi] for text, _ in passages for lo, hi in find_headings(text)] == headings
