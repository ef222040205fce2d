"""Books for tests, and a naive reference for the salience of their chapters and scenes."""

import torch

from narrative_twins.books.blocks import Block
from narrative_twins.books.book import Book
from narrative_twins.books.chapters import book_of_blocks

from support.oracle import MEASURES


def book_of(*chapters: list[str], title: str | None = None) -> Book:
    """A book of chapters; a chapter is a heading, which may be empty, and paragraphs, and `***` is
    a marked break."""
    blocks = []
    for heading, *parts in chapters:
        blocks += [Block("heading", (heading,))] * bool(heading)
        blocks += [Block("paragraph", (part,)) for part in parts]
    return book_of_blocks(blocks, title)


TALE = book_of(
    [
        "Chapter 1: The Map",
        "Nadia found a map. It was old.",
        "Her brother laughed.",
        "***",
        "She ran. It rained.",
    ],
    [
        "Chapter 2: The River",
        "The water had risen! The bridge was gone.",
        "Nadia swam across alone.",
    ],
    [
        "Chapter 3",
        "The mill burned down.",
        "***",
        "I was there.",
        "***",
        "They never told anyone, not even in 1987.",
    ],
    title="The Mill",
)


def token_states(model, tokenizer, sentences, room):
    """The states of the tokens of some sentences, read alone in passes of at most `room` tokens
    without the special ones, whose states are left out."""
    ids = tokenizer(" ".join(sentences), add_special_tokens=False)["input_ids"]
    states, special = [], tokenizer("a")["input_ids"]
    for start in range(0, len(ids), room):
        text = [special[0], *ids[start : start + room], special[-1]]
        with torch.no_grad():
            states += model(input_ids=torch.tensor([text])).last_hidden_state[0, 1:-1].double()
    return states


def naive_scores(units, measure="cosine"):
    """The scores of units within the next larger one, each given by the states of its tokens."""
    similarity = MEASURES[measure]

    def change(a, b):
        return (1 if measure == "cosine" else similarity(a, a)) - similarity(a, b)

    def mean(some):
        states = [state for unit in some for state in unit]
        return sum(states) / len(states)

    n, scores = len(units), {"deletion": [], "disruption": [], "summarization": []}
    for i in range(n):
        scores["summarization"].append(similarity(mean(units), mean([units[i]])))
        rest = [unit for j, unit in enumerate(units) if j != i]
        scores["deletion"].append(change(mean(units), mean(rest)) if rest else 0.0)
        scores["disruption"].append(change(mean(units[: i + 1]), mean(units[:i])) if i else 0.0)
    return scores
