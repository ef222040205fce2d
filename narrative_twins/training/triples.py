"""Training on triples of stories next to narrative twins."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)

from narrative_twins.data.loading import load_triples, select_split
from narrative_twins.data.sources import DataSource
from narrative_twins.training.trainer import NarrativeTwinsTrainingArguments


def triples_and_loss(
    model: SentenceTransformer,
    arguments: NarrativeTwinsTrainingArguments,
    source: DataSource,
    max_rows: int | None = None,
) -> tuple[Dataset, torch.nn.Module]:
    """Return the triples of stories in a source (`load_triples`, split `train`) and their loss, for
    a trainer that has them as the data set `triples`. The loss is InfoNCE of sentence-transformers:
    an anchor is compared with its own two stories and with those of other triples, at the
    temperature of `arguments`, whose `prompts` get the prompt of the encoder for `triples`.
    """
    rows = select_split(load_triples(source), "train", max_rows).remove_columns("id")
    prompt = model.prompts.get(model.default_prompt_name or "")
    if prompt:
        arguments.prompts = {"triples": prompt}
    options: dict[str, Any] = {
        "scale": 1 / arguments.temperature,
        "gather_across_devices": arguments.gather_across_devices,
    }
    if (size := arguments.mini_batch_size) is not None:
        return rows, CachedMultipleNegativesRankingLoss(model, mini_batch_size=size, **options)
    return rows, MultipleNegativesRankingLoss(model, **options)
