"""The masked-language-model baseline: an encoder trained on the texts of narrative twins, without knowing whose twin is
whose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers.base.evaluation import BaseEvaluator
from transformers import AutoModelForMaskedLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, set_seed

from narrative_twins.data.rows import TWINS_COLUMNS, is_nested
from narrative_twins.encoder.checkpoint import default_encoder, hub_options, read_checkpoint_settings
from narrative_twins.encoder.pooling import Pooling
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.encoder.tokens import StoryTokenizer
from narrative_twins.training.arguments import MaskedLanguageModelTrainingArguments
from narrative_twins.training.curves import CurvesCallback
from narrative_twins.training.story_trainer import StoryTrainer
from narrative_twins.training.trainable import checked_rows


def masked_language_model(name: str | Path | None = None, **options: Any) -> Any:
    """Load an encoder with its head for masked tokens, to be trained, in float32.

    Args:
        name: folder or Hub id of any encoder; None for the default. One without such a head gets a new one.
        options: for `from_pretrained` of the model, such as `revision`, `token`, `dtype` or `attn_implementation`.

    Raises:
        OSError: there is no such model.
    """
    name = str(name) if name is not None else default_encoder()
    model = AutoModelForMaskedLM.from_pretrained(name, **{"dtype": torch.float32, **options})
    model.base_model.checkpoint_settings = read_checkpoint_settings(name, **hub_options(options))
    return model


class MaskedLanguageModelTrainer(StoryTrainer, Trainer):
    """Trains an encoder to guess masked tokens of the same texts that `NarrativeTwinsTrainer` trains on: the story, the
    twin, the distractor and its twin of each row, each a text of its own, cut at the context.

    It is a `Trainer`. What an evaluator finds joins the metrics of an evaluation, by the pooled vectors of the encoder
    as it is then. Loss and validation curves are kept in `curves.json` and `curves.png` of the output folder.

    Args:
        model: the model, from `masked_language_model`, or the folder or Hub id to load it from; None for the default.
        args: the arguments.
        train_dataset, eval_dataset: rows as `NarrativeTwinsTrainer` takes them, or several data sets in a dict.
        pooling: how the encoder pools, `"mean"` or `"first"`; default what the checkpoint says, else `"mean"`.
        evaluator: a `SalienceEvaluator`, `TwinsEvaluator` or several in a `SequentialEvaluator`.
        processing_class: the tokenizer; default the one beside the model.
        options: the others of `Trainer`, such as `callbacks`.

    Attributes:
        encoder: the encoder in training, without its head.

    Raises:
        RowError: a row can't be trained on; names the data set and the row.
        ValueError: the model is no encoder of text, or its tokenizer has no mask.
    """

    args: MaskedLanguageModelTrainingArguments

    def __init__(
        self,
        model: Any = None,
        args: MaskedLanguageModelTrainingArguments | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        *,
        pooling: Pooling | None = None,
        evaluator: BaseEvaluator | None = None,
        processing_class: Any = None,
        **options: Any,
    ) -> None:
        args = args or MaskedLanguageModelTrainingArguments("masked_language_model_output")
        set_seed(args.seed)
        if not isinstance(model, torch.nn.Module):
            model = masked_language_model(model)
        tokenizer = processing_class or AutoTokenizer.from_pretrained(model.name_or_path)
        self.encoder = StoryEncoder(model.base_model, tokenizer, pooling=pooling, context_tokens=args.context_tokens)
        self.evaluator: Any = evaluator
        train_dataset, eval_dataset = (
            None if data is None else masked_texts(checked_rows(data, name, args.disable_tqdm)[0], self.encoder.tokens)
            for name, data in (("train_dataset", train_dataset), ("eval_dataset", eval_dataset))
        )
        options.setdefault(
            "data_collator", DataCollatorForLanguageModeling(tokenizer, mlm_probability=args.mlm_probability)
        )
        super().__init__(
            model, args, train_dataset=train_dataset, eval_dataset=eval_dataset, processing_class=tokenizer, **options
        )
        self.add_callback(CurvesCallback())

    @property
    def transformer(self) -> Any:
        """The `transformers` model of the encoder."""
        return self.encoder.model

    def save_weights(self, folder: str | Path) -> None:
        """Save the encoder, without the head for masked tokens and without its card."""
        if self.args.should_save:
            self.encoder.save_pretrained(folder)

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> Any:
        """As ever, with what the evaluator finds."""
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        if self.evaluator is not None:
            found = self.evaluator(self.encoder, epoch=self.state.epoch, steps=self.state.global_step)
            output.metrics.update({f"{metric_key_prefix}_{name}": value for name, value in found.items()})
        return output


def masked_texts(rows: Any, tokens: StoryTokenizer) -> Dataset:
    """The texts of rows of narrative twins, or of several data sets of them in a dict, as `input_ids`."""
    sets = rows.values() if isinstance(rows, dict) else [rows]
    texts = (text for one in sets for row in one for text in _texts(row))
    return Dataset.from_dict({"input_ids": [_input_ids(text, tokens) for text in texts]})


def _texts(row: Mapping[str, Any]) -> Iterator[list[str]]:
    """The sentences of each text of a row."""
    for column in TWINS_COLUMNS:
        content = row.get(column)
        if content is not None:
            yield [sentence for window in content for sentence in window] if is_nested(content) else content


def _input_ids(sentences: Sequence[str], tokens: StoryTokenizer) -> list[int]:
    ids, _ = tokens.joined(tokens.texts(sentences))
    parts: Iterable[Any] = tokens.head, ids[: tokens.room], tokens.tail
    return [int(number) for part in parts for number in part]
