"""The splitters of the web page, into sentences, lines or paragraphs. To be replaced by `split=` of `score_stories`."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias, get_args

from narrative_twins.stories.splitting import Splitter, split_sentences

Split: TypeAlias = Literal["sentences", "lines", "paragraphs"]
SPLITS: tuple[str, ...] = get_args(Split)

_EMPTY_LINES = re.compile(r"(?:\r?\n[^\S\r\n]*){2,}")
_SPLITTERS: dict[str, Splitter] = {
    "sentences": split_sentences,
    "lines": str.splitlines,
    "paragraphs": _EMPTY_LINES.split,
}


def splitter_of(split: str) -> Splitter:
    """The function that splits a text; paragraphs are divided by empty lines. Raises `ValueError` for another name."""
    if split not in _SPLITTERS:
        raise ValueError(f"A text is split into {', '.join(SPLITS)}, not {split[:40]!r}.")
    return _SPLITTERS[split]
