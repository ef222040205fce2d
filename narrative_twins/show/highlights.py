"""Which sentences are highlighted, and how: the same in the terminal, on pages and in figures."""

from __future__ import annotations

from narrative_twins.salience.result import StorySalience

MARK = "★"
BARS = "▁▂▃▄▅▆▇█"
_ASCII = str.maketrans(
    {MARK: "*", "─": "-", "━": "-", "│": "|", "…": ".", "·": "|"}
    | dict(zip(BARS, "12345678", strict=True))
)


def in_encoding(text: str, encoding: str) -> str:
    """Text that an encoding can write: itself, or with ASCII in place of stars, bars and lines, and
    `?` in place of other characters that the encoding lacks."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


def marked(result: StorySalience, operation: str) -> set[int]:
    """The indices of the most salient fifth of the sentences by an operation, at least one."""
    return {sentence.index for sentence in result.extract(operation=operation)}


def shown_sentences(result: StorySalience, top: int | None) -> set[int]:
    """The indices of the `top` most salient sentences; None for all."""
    return (
        set(range(len(result))) if top is None else {sentence.index for sentence in result.top(top)}
    )


def window_title(w: int, lo: int, hi: int) -> str:
    """The heading of a window; its numbers count from 1."""
    return f"window {w + 1}: sentences {lo + 1} to {hi}"


def caption(result: StorySalience) -> str:
    """The legend of stars and shades, and the notes on the scores."""
    legend = (
        f"{MARK} the most salient fifth by each operation; bars and shades go from the lowest score"
        f" of the story to the highest; sentences are highlighted by {result.primary_operation}."
    )
    return " ".join([legend, *result.notes_on(result.scores)])
