"""Copies of encoders and pipelines score alike, in this process and in others."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
import torch
from datasets import Dataset
from datasets.fingerprint import Hasher
from transformers import pipeline

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.encoder import passes

from support.models import encoder_of
from support.processes import run_python

STORY = (
    "Nadia found a map under the floor of the old mill. It rained. She ran to the river, and swam"
    " across."
)


@pytest.fixture
def fast(monkeypatch):
    """As on a GPU with native bfloat16."""
    monkeypatch.setattr(passes, "fast_dtype", lambda device: torch.bfloat16)


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_copies_score_alike(kind, fast, tmp_path):
    for part in encoder_of(kind):
        part.save_pretrained(tmp_path)
    encoder = StoryEncoder.from_pretrained(tmp_path, device="cpu")
    pipe = pipeline("narrative-salience", model=str(tmp_path), device="cpu")
    expected = [list(score_stories([STORY], encoder))[0].scores, pipe(STORY)]
    for copied in (copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))):
        copies = copied(encoder), copied(pipe)
        # The weights of the copies are their own; those of the originals may be gone.
        assert copies[0].model is not encoder.model
        assert [list(score_stories([STORY], copies[0]))[0].scores, copies[1](STORY)] == expected


FINGERPRINT = """
import json, sys
from datasets.fingerprint import Hasher
from transformers import pipeline
import narrative_twins
held = [object() for _ in range(10_000)]
pipe = pipeline("narrative-salience", **json.loads(sys.argv[1]))
print(Hasher.hash(pipe))
"""


@pytest.fixture
def fingerprinted(bert_folder):
    """The arguments of a pipeline whose fingerprint is taken."""
    return {"model": bert_folder, "device": "cpu", "operations": ["deletion", "summarization"]}


def test_fingerprints_do_not_change_with_calls(fingerprinted):
    """So `datasets.map` finds its cache."""
    pipe = pipeline("narrative-salience", **fingerprinted)
    before = Hasher.hash(pipe)
    pipe(STORY)
    again = pipeline("narrative-salience", **fingerprinted)
    assert Hasher.hash(pipe) == before == Hasher.hash(again)


@pytest.mark.slow
def test_fingerprints_are_equal_in_other_processes(fingerprinted):
    pipe = pipeline("narrative-salience", **fingerprinted)
    assert run_python("-c", FINGERPRINT, json.dumps(fingerprinted)).strip() == Hasher.hash(pipe)


def test_map_over_a_data_set_in_two_processes(fast, tmp_path):
    for part in encoder_of("bert"):
        part.save_pretrained(tmp_path)
    options = {"model": str(tmp_path), "device": "cpu", "operations": "summarization"}
    pipe = pipeline("narrative-salience", **options)
    rows = Dataset.from_list(
        [{"sentences": ["Nadia ran.", f"It rained {at} times.", "Why?"]} for at in range(4)]
    )
    alone, shared = rows.map(pipe), rows.map(pipe, num_proc=2)
    assert alone["scores"][:] == shared["scores"][:] == [pipe(row)["scores"] for row in rows]
    assert rows.map(pipe)._fingerprint == alone._fingerprint
