"""Whether a sentence-transformers model reads all of a text."""

from __future__ import annotations

from typing import Any

_SPECIAL_TOKENS = 4
"""Upper bound on the special tokens that a tokenizer adds to a text."""


def is_truncated(model: Any, text: str) -> bool:
    """Whether a `SentenceTransformer` truncates a text; False if the model does not say how much it
    reads."""
    limit, tokenizer = getattr(model, "max_seq_length", None), getattr(model, "tokenizer", None)
    # A token has at least one byte, so only long texts must be tokenized.
    if (
        limit is None
        or not callable(tokenizer)
        or len(text.encode("utf-8", "replace")) + _SPECIAL_TOKENS <= limit
    ):
        return False
    return bool(len(tokenizer(text, verbose=False)["input_ids"]) > limit)
