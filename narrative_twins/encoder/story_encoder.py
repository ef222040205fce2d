"""The story encoder: turns variants of stories into vectors, each distinct text once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from narrative_twins.encoder.adapters import has_adapter, merged_copy
from narrative_twins.encoder.loading import (
    POOLING_FLAGS,
    POOLINGS,
    Attention,
    Pooling,
    encoder_path,
    load_story_model,
    load_tokenizer,
    module_settings,
    resolve_name,
    settings_of,
    supported_pooling,
)
from narrative_twins.encoder.passes import POOLED_TOKENS, ForwardPasses, in_stored_dtype
from narrative_twins.encoder.tokenizer import (
    Chunk,
    StoryTokenizer,
    TokenizedStory,
    check_vocabulary,
    model_limit,
)
from narrative_twins.text import LONGEST_MESSAGE, shortened

logger = logging.getLogger(__name__)


class StoryEncoder:
    """An encoder with its tokenizer, which turns variants of stories into vectors.

    Args:
        model, tokenizer: any `AutoModel` encoder (BERT, RoBERTa, MPNet, ModernBERT and similar) or
            decoder (Qwen3, Mistral, Llama and similar), and its tokenizer.
        pooling: `"mean"` of the tokens of a window, its `"first"` or last (`"lasttoken"`) token, or
            a mean weighted by the positions of tokens in the text (`"weightedmean"`). Default: the
            checkpoint's, or else `"lasttoken"` for causal language models, `"mean"` for others.
        prompt: a text to read before every text; `""` for none. Default as in the checkpoint.
        prompt_name: the name of a prompt of the checkpoint, to read in place of its default.
        context_tokens: read at most this many tokens at once, special tokens included; default the
            model's maximum.
        batch_tokens: tokens per forward pass, padding included; default by device, `BATCH_TOKENS`.
        attention: `"packed"` concatenates texts without padding, `"padded"` pads them, `"auto"`
            packs if the model can. Like `batch_tokens`, it affects only speed and memory.

    Attributes:
        tokenizer: the `StoryTokenizer`, whose `tokenizer` is from `transformers`.
        pooling: the pooling in use.
        prompt: the prompt in use.

    Raises:
        ValueError: the model is no text encoder or lacks the pooling, or an option is invalid.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        pooling: Pooling | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        context_tokens: int | None = None,
        batch_tokens: int | None = None,
        attention: Attention = "auto",
    ) -> None:
        settings = getattr(model, "checkpoint_settings", None) or settings_of(model, pooling)
        if prompt is not None or prompt_name is not None:
            settings = settings.with_prompt(prompt, prompt_name)
        default: str = getattr(model, "default_pooling", "mean")
        kind = pooling or settings.pooling or default
        self.pooling = cast(Pooling, kind) if kind in POOLINGS else supported_pooling(kind)
        check_vocabulary(model.name_or_path, tokenizer, model)
        limit = model_limit(model, tokenizer, context_tokens)
        self.tokenizer = StoryTokenizer(tokenizer, limit, settings)
        self.model: Any = model
        self.passes = ForwardPasses(model.eval(), self.tokenizer, attention, batch_tokens)
        if self.passes.is_causal:
            supported_pooling(self.pooling, is_causal=True)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        device: str | int | torch.device | None = None,
        dtype: str | torch.dtype = "auto",
        pooling: Pooling | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        context_tokens: int | None = None,
        batch_tokens: int | None = None,
        attention: Attention = "auto",
        **options: Any,
    ) -> StoryEncoder:
        """Load an encoder.

        Args:
            name: `"default"`, `"base"` or `"multilingual"`, the encoders of this package; or folder
                or Hub id of a sentence-transformers model (an id may lack the organization), of any
                `AutoModel` encoder, or of a PEFT adapter, which is merged into its base; None for
                the default encoder.
            device: default the first accelerator, or the CPU if there is none.
            dtype: precision. `"auto"` depends on the machine, unlike in transformers. On a CPU it
                is float32, so that scores do not depend on the rest of the batch. On CUDA devices
                with native bfloat16, matrix products are in bfloat16, all else in float32.
                `"checkpoint"` is the precision of the saved weights.
            pooling, prompt, prompt_name, context_tokens, batch_tokens, attention: see
                `StoryEncoder`.
            options: for `from_pretrained` of model and tokenizer, such as `revision` or `token`;
                and `base_folder`, the folder of the base of an adapter.

        Raises:
            OSError: the model or tokenizer can't be loaded, or the weights do not fit the model.
            ValueError: as `StoryEncoder`; also if the dtype or device is invalid.

        Example:
            ```python
            from narrative_twins import StoryEncoder, score_stories

            encoder = StoryEncoder.from_pretrained(device="cpu")  # the default encoder
            results = list(score_stories(["Nadia ran. It rained."], encoder))
            ```
        """
        name, options = resolve_name(name, options)
        model = load_story_model(name, dtype=dtype, pooling=pooling, **options)
        tokenizer = load_tokenizer(name, **options)
        if device is None:
            has_accelerator = torch.accelerator.is_available()
            device = torch.accelerator.current_accelerator() if has_accelerator else "cpu"
        try:
            model.to(device)
        except (RuntimeError, AssertionError) as error:
            problem = f"device {str(device)!r} can't be used: {error}"
            raise ValueError(shortened(problem, LONGEST_MESSAGE)) from error
        return cls(
            model,
            tokenizer,
            pooling=pooling,
            prompt=prompt,
            prompt_name=prompt_name,
            context_tokens=context_tokens,
            batch_tokens=batch_tokens,
            attention=attention,
        )

    @classmethod
    def from_sentence_transformer(cls, model: Any, **options: Any) -> StoryEncoder:
        """Make an encoder of a loaded `SentenceTransformer`; both share the weights. Normalization
        after the pooling is ignored. `options` are as for `StoryEncoder`. Raises ValueError as
        `StoryEncoder` does, and if the first module is not a transformer."""
        transformer = getattr(model[0], "auto_model", None)
        if transformer is None:
            raise ValueError(
                f"the first module is {type(model[0]).__name__}, but must be a transformer"
            )
        transformer.checkpoint_settings = module_settings(model)
        return cls(transformer, model.tokenizer, **options)

    def __repr__(self) -> str:
        return (
            f"<StoryEncoder {self.model.name_or_path}: {self.pooling} pooling,"
            f" {self.context_tokens} tokens, {self.dtype_name}, {self.device}>"
        )

    def on_accelerator(self, number: int) -> StoryEncoder:
        """Move the model to the accelerator `number`, modulo the count of accelerators, and return
        an encoder with the moved model. If the model is on a CPU, return the encoder itself."""
        if self.device.type == "cpu":
            return self
        device = torch.device(self.device.type, number % torch.accelerator.device_count())
        moved, passes = copy(self), self.passes
        moved.model = self.model.to(device)
        moved.passes = ForwardPasses(
            moved.model, self.tokenizer, passes.attention, passes.batch_tokens
        )
        return moved

    @property
    def device(self) -> torch.device:
        """The device that the model is on."""
        device: torch.device = self.model.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of matrix products; the weights may have a higher one."""
        return self.passes.dtype

    @property
    def dtype_name(self) -> str:
        """The name of `dtype` in results, for example `"float32"`."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def is_english(self) -> bool:
        """Whether this is an encoder of the package that was trained with texts in English only:
        the default or the base encoder."""
        return self.model.name_or_path in map(encoder_path, ("default", "base"))

    @property
    def context_tokens(self) -> int:
        """How many tokens are read at once, special tokens included."""
        return self.tokenizer.context_tokens

    @property
    def prompt(self) -> str:
        """The text that is read before every text; empty if there is none."""
        return self.tokenizer.settings.prompt

    def save_pretrained(self, folder: str | Path, **options: Any) -> None:
        """Save model, tokenizer and settings as a plain sentence-transformers checkpoint, which
        needs no code. A PEFT adapter is merged into the saved weights. Weights that were cast to
        float32 on loading are saved in the dtype of their checkpoint, if that does not change them.
        `options` are for `save_pretrained` of the model. Raises ValueError if the adapter can't be
        merged, or if the folder has an adapter, and OSError if the folder can't be written."""
        # Libraries that load the folder would apply this adapter to the saved weights as well.
        if (Path(folder) / "adapter_config.json").is_file():
            raise ValueError(
                f"{folder} has an adapter (adapter_config.json); save in another folder"
            )
        model = merged_copy(self.model) if has_adapter(self.model) else self.model
        in_stored_dtype(model).save_pretrained(folder, **options)
        self.tokenizer.tokenizer.save_pretrained(folder)
        # The settings, in a form that every release of sentence-transformers can load.
        kinds = {"Transformer": "", "Pooling": "1_Pooling"}
        modules = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(kinds.items())
        ]
        settings = self.tokenizer.settings
        flags = {name: f"pooling_mode_{flag}" for flag, name in POOLING_FLAGS.items()}
        pooling = {
            "word_embedding_dimension": self.model.config.hidden_size,
            **{flag: name == self.pooling for name, flag in flags.items()},
            "include_prompt": settings.include_prompt,
        }
        text = {"max_seq_length": self.context_tokens, "do_lower_case": settings.lowercase}
        (Path(folder) / "1_Pooling").mkdir(exist_ok=True)
        for file, content in {
            "modules.json": modules,
            "1_Pooling/config.json": pooling,
            "sentence_bert_config.json": text,
            "config_sentence_transformers.json": settings.saved_prompts(),
        }.items():
            (Path(folder) / file).write_text(json.dumps(content, indent=2) + "\n", "utf-8")

    def tokenize(self, sentences: Sequence[str]) -> TokenizedStory:
        """Tokenize the sentences of a story. Raises StoryError if a sentence has no tokens."""
        return self.tokenizer.tokenize(sentences)

    def encode(
        self,
        variants: Sequence[str | Sequence[Chunk]],
        progress: Callable[[float], None] | None = None,
    ) -> NDArray[np.float32]:
        """Return a vector for each text or variant, as float32 of shape (variants, dimensions).
        Raises TypeError for a single text in place of a list.

        Equal texts pass through the model once, even if different tokens are pooled. A variant that
        exceeds the context has several chunks. Its vector is the mean over all its pooled tokens,
        or, with pooling by the first or last token, the mean over the vectors of its chunks.

        Args:
            variants: texts, or for each variant its chunks, from `TokenizedStory.chunks`.
            progress: called after each pass with its share of the work; the shares sum to 1.
        """
        if isinstance(variants, str):
            raise TypeError("expected a list of texts, not a single one: encode([text])")
        chunked = [
            self.tokenize([variant]).chunks((0,), None) if isinstance(variant, str) else variant
            for variant in variants
        ]
        # Dedupe the chunks: token ids -> mask of pooled tokens -> index of the pooled vector.
        masks_of: dict[bytes, dict[bytes, int]] = {}
        vector_ids: list[int] = []
        count = 0
        for chunks in chunked:
            for chunk in chunks:
                masks = masks_of.setdefault(chunk.ids.tobytes(), {})
                mask = chunk.pooled.tobytes()
                if mask not in masks:
                    masks[mask] = count
                    count += 1
                vector_ids.append(masks[mask])
        if not vector_ids:
            return np.empty((0, 0), np.float32)
        vectors, weights = self._encode_distinct(masks_of, progress)
        sizes = [len(chunks) for chunks in chunked]
        if max(sizes) == 1:
            return vectors[vector_ids]
        # Weighted means over the chunks of each variant.
        starts = np.cumsum([0, *sizes[:-1]])
        shares = weights[vector_ids, None]
        means: NDArray[np.float32] = np.add.reduceat(vectors[vector_ids] * shares, starts)
        means /= np.add.reduceat(shares, starts)
        return means

    def _encode_distinct(
        self, masks_of: dict[bytes, dict[bytes, int]], progress: Callable[[float], None] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Run the model over distinct texts, and pool each text by one or several masks of its
        tokens. `masks_of` has for the token ids of each text its masks, and for each mask the index
        of its vector in the result; ids and masks are bytes. `progress` is as in `encode`. Returns
        the vectors, shape (masks, dimensions), and the sums of the weights of the tokens pooled in
        each vector, shape (masks,)."""
        # Longest first: a lack of memory shows at once, and neighbors need little padding.
        texts = sorted(masks_of.items(), key=lambda item: len(item[0]), reverse=True)
        rows = [np.frombuffer(ids, np.int32) for ids, _ in texts]
        total = sum(map(len, rows))
        vectors: list[torch.Tensor] = []
        vector_ids: list[int] = []
        weights: list[float] = []
        pooled_tokens = POOLED_TOKENS.get(self.pooling, slice(None))
        with self.passes.running():
            for batch in self._batches([len(row) for row in rows]):
                states = self.passes.states(rows[batch])
                # The tokens of each mask, as indices in the states of the batch.
                tokens, token_weights = [], []
                start = 0
                for row, (_, masks) in zip(rows[batch], texts[batch], strict=True):
                    for mask, vector_id in masks.items():
                        places = np.frombuffer(mask, bool).nonzero()[0][pooled_tokens]
                        is_weighted = self.pooling == "weightedmean"
                        tokens.append(start + places)
                        token_weights.append(
                            (places + 1 if is_weighted else np.ones_like(places)).astype(np.float32)
                        )
                        vector_ids.append(vector_id)
                    start += len(row)
                weights += [float(each.sum()) for each in token_weights]
                vectors.append(self.passes.pooled(states, tokens, token_weights))
                if progress is not None:
                    progress(start / total)
        order = np.argsort(vector_ids)
        return torch.cat(vectors).cpu().numpy()[order], np.array(weights, np.float32)[order]

    def _batches(self, lengths: Sequence[int]) -> Iterator[slice]:
        """Divide texts into batches, and yield each batch as a slice. `lengths` has the number of
        tokens of each text, descending. A batch has at most `batch_tokens` tokens, padding
        included, or is a single longer text."""
        is_padded = self.passes.attention == "padded"
        start = total = 0
        for i, length in enumerate(lengths):
            # The first text of a batch is its longest, to which the others are padded.
            tokens = (i - start + 1) * lengths[start] if is_padded else total + length
            if i > start and tokens > self.passes.batch_tokens:
                yield slice(start, i)
                start = i
                total = 0
            total += length
        yield slice(start, len(lengths))
