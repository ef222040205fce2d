"""The extract of a story. To be replaced by `StorySalience.extract`."""

from __future__ import annotations

from narrative_twins.salience.result import StorySalience


def extract(result: StorySalience, k: int | None = None, *, share: float = 0.2, operation: str | None = None) -> str:
    """The text of the most salient sentences in story order. Sentences of different lines or paragraphs of the story
    are on different lines.

    Args:
        result: the scores of the story.
        k: how many sentences; None for a share of the story.
        share: the share of the sentences, at least one of them, if `k` is None.
        operation: the operation that ranks; default the primary operation.

    Raises:
        ValueError: the operation was not scored, or the number of sentences is negative.
    """
    number = max(1, round(share * len(result))) if k is None else k
    text, end = "", 0
    for i in sorted(sentence.index for sentence in result.top(number, operation)):
        start, stop = result.spans[i]
        if text:
            text += "\n" if any(char in "\r\n" for char in result.story.text[end:start]) else " "
        text, end = text + result.sentences[i], stop
    return text
