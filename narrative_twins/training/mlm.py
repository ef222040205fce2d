"""The masked-language-model baseline: an encoder trained on the texts of narrative twins, without the pairing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers.base.evaluation import BaseEvaluator
from transformers import AutoModelForMaskedLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, set_seed

from narrative_twins.data.rows import TWINS_COLUMNS, is_nested
from narrative_twins.encoder.checkpoint import default_encoder, read_checkpoint_settings
from narrative_twins.encoder.loading import hub_options, load_model
from narrative_twins.encoder.pooling import Pooling
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.encoder.tokens import StoryTokenizer
from narrative_twins.training.arguments import MaskedLanguageModelTrainingArguments
from narrative_twins.training.curves import CurvesCallback
from narrative_twins.training.story_trainer import StoryTrainer
from narrative_twins.training.trainable import checked_rows


def masked_language_model(name: str | Path | None = None, **options: Any) -> Any:
    """Load an encoder with its masked-language-model head for training, in float32. Raises `OSError` if it can't be
    loaded.

    Args:
        name: folder or Hub id of any encoder; None for the default. A missing head is initialized.
        options: for `from_pretrained` of the model, such as `revision`, `token`, `dtype` or `attn_implementation`.
    """
    name = str(name) if name is not None else default_encoder()
    model = load_model(AutoModelForMaskedLM, name, **{"dtype": torch.float32, **options})
    model.base_model.checkpoint_settings = read_checkpoint_settings(name, **hub_options(options))
    return model


class MaskedLanguageModelTrainer(StoryTrainer, Trainer):
    """A `Trainer` for an encoder that predicts masked tokens in the texts of narrative twins: story, twin, distractor
    and distractor twin of each row, as separate texts, cut at the context. `encoder` is the encoder without its head.

    Evaluations include the metrics of the evaluator, from the pooled vectors of the current encoder. Curves of loss and
    validation are written to `curves.json` and `curves.png` in the output folder.

    Args:
        model: the model, from `masked_language_model`, or the folder or Hub id to load it from; None for the default.
        train_dataset, eval_dataset: rows as for `NarrativeTwinsTrainer`, or several data sets in a dict.
        pooling: how the encoder pools, `"mean"` or `"first"`; default as in the checkpoint, else `"mean"`.
        evaluator: a `SalienceEvaluator`, `TwinsEvaluator` or several in a `SequentialEvaluator`.
        processing_class: the tokenizer; default that of the model.
        options: other arguments of `Trainer`, such as `callbacks`.

    Raises:
        RowError: a row is invalid; names the data set and the row.
        ValueError: the model is not a text encoder, or its tokenizer has no mask token.
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
        tokenizer = processing_class or AutoTokenizer.from_pretrained(model.name_or_path, trust_remote_code=False)
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
        return self.encoder.model

    def save_weights(self, folder: str | Path) -> None:
        if self.args.should_save:
            self.encoder.save_pretrained(folder)

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> Any:
        """Evaluate as `Trainer` does, and add the metrics of the evaluator."""
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        if self.evaluator is not None:
            found = self.evaluator(self.encoder, epoch=self.state.epoch, steps=self.state.global_step)
            output.metrics.update({f"{metric_key_prefix}_{name}": value for name, value in found.items()})
        return output


def masked_texts(rows: Any, tokens: StoryTokenizer) -> Dataset:
    """The texts of rows of narrative twins, or of several data sets in a dict, as `input_ids`."""
    data_sets = rows.values() if isinstance(rows, dict) else [rows]
    texts = (text for data in data_sets for row in data for text in _texts(row))
    return Dataset.from_dict({"input_ids": [_input_ids(text, tokens) for text in texts]})


def _texts(row: Mapping[str, Any]) -> Iterator[list[str]]:
    """The sentences of each text of a row."""
    for column in TWINS_COLUMNS:
        content = row.get(column)
        if content is not None:
            yield [sentence for window in content for sentence in window] if is_nested(content) else content


def _input_ids(sentences: Sequence[str], tokens: StoryTokenizer) -> list[int]:
    ids, _ = tokens.tokenize_joined(tokens.texts(sentences))
    parts: Iterable[Any] = tokens.head, ids[: tokens.max_text_tokens], tokens.tail
    return [int(token_id) for part in parts for token_id in part]
