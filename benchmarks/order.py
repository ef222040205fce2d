"""Whether scores follow the event or its place: judged stories with their sentences in another
order.

    python benchmarks/order.py
    python benchmarks/order.py --model runs/votes/encoder --corpus everyday

Each story of the package's validation split is scored as it is, with its sentences reversed, and
with the second half first. The votes move with their sentences. Printed is the mean Spearman
correlation of the scores with the votes, and in brackets with the votes that the original has in
the same places: an encoder that goes by place has a high number there.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.data import load_story_salience
from narrative_twins.evaluation.metrics import mean, spearman

ORDERS: dict[str, Callable[[Sequence[Any]], list[Any]]] = {
    "as written": list,
    "reversed": lambda items: list(items)[::-1],
    "second half first": lambda items: [*items[len(items) // 2 :], *items[: len(items) // 2]],
}


def mean_agreement(scores: list[Sequence[float]], votes: list[Sequence[float]]) -> float:
    return mean(spearman(a, b) for a, b in zip(scores, votes, strict=True)).value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", help="folder or Hub id of the encoder (default: the default encoder)"
    )
    parser.add_argument(
        "--corpus", default="stories", help="stories, everyday or prose (default: %(default)s)"
    )
    parser.add_argument(
        "--stories", type=int, default=200, help="how many at most (default: %(default)s)"
    )
    arguments = parser.parse_args()
    encoder = StoryEncoder.from_pretrained(arguments.model)
    rows = list(load_story_salience(split="validation", name=arguments.corpus))[: arguments.stories]
    votes = [row["labels"] for row in rows]
    for name, order in ORDERS.items():
        results = list(score_stories([{"sentences": order(row["story"])} for row in rows], encoder))
        for operation in results[0].scores:
            scores = [result.scores[operation] for result in results]
            moved = mean_agreement(scores, [order(vote) for vote in votes])
            print(f"{name:<20}{operation:<16}{moved:>7.3f}  ({mean_agreement(scores, votes):.3f})")


if __name__ == "__main__":
    main()
