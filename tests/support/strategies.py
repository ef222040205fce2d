"""Hypothesis strategies for stories."""

from hypothesis import strategies as st

WORDS = "the old mill burned down Nadia ran river I didn't 1,250 Über 東京 Привет mother's coins".split()

sentence = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(
    lambda words: " ".join(words) + "."
)

any_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
"""Any text without surrogates (half characters)."""


def stories(low: int = 1, high: int = 7) -> st.SearchStrategy[list[str]]:
    return st.lists(sentence, min_size=low, max_size=high)


def window_sizes(count: int) -> st.SearchStrategy[list[int]]:
    """Sizes of windows that partition `count` sentences."""

    def sizes(cuts: set[int]) -> list[int]:
        edges = sorted({0, *cuts, count})
        return [b - a for a, b in zip(edges, edges[1:], strict=False)]

    return st.sets(st.integers(1, count)).map(sizes)
