"""Search for a story by its twin: what training does for it.

    python research/encoders/search.py --model default --model MiniLM=FOLDER

The validation rows of the package that have a twin and a distractor. Each twin, which tells the plot
of a story in other words, is searched among all stories, and among all stories and distractors, each
of which has words of a story and another plot. The table has how often the story is the first hit
(with its 95 % interval), and the mean reciprocal rank, as Markdown. `--base-folder NAME=DIR` is the
folder of the base of an adapter.
"""

import argparse

import numpy as np
from sentence_transformers.util import cos_sim
from which import named

from narrative_twins import StoryEncoder
from narrative_twins.data import load_story_twins
from narrative_twins.evaluation.significance import proportion_interval
from narrative_twins.evaluation.tables import interval


def ranks(queries: np.ndarray, corpus: np.ndarray) -> np.ndarray:
    """The rank of the text that belongs to each query, 1 for the first hit: of query i it is text i
    of the corpus, which may have more texts. A tie is lost."""
    similar = cos_sim(queries, corpus).numpy()
    right = np.diagonal(similar)[:, None]
    return (similar >= right).sum(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", action="append", required=True, type=named, help="NAME=FOLDER, or NAME"
    )
    parser.add_argument("--base-folder", action="append", type=named, default=[])
    options = parser.parse_args()
    rows = load_story_twins(split="validation")
    rows = rows.filter(lambda row: bool(row["twin"] and row["negative"]))
    texts = {
        name: [" ".join(story) for story in rows[name]] for name in ("story", "twin", "negative")
    }
    bases = dict(options.base_folder)
    print(f"{len(rows)} twins\n")
    print(
        "| | among stories | 95 % interval | mean reciprocal rank | and distractors | 95 % | mrr |"
    )
    print("|---" * 7 + "|")
    for name, folder in options.model:
        encoder = StoryEncoder.from_pretrained(
            folder or name, device="cpu", dtype="float32", base_folder=bases.get(name)
        )
        vectors = {kind: encoder.encode(each) for kind, each in texts.items()}
        cells = []
        for corpus in (["story"], ["story", "negative"]):
            found = ranks(vectors["twin"], np.concatenate([vectors[kind] for kind in corpus]))
            first = (found == 1).astype(float)
            cells += [f"{first.mean():.3f}", interval(proportion_interval(first))]
            cells += [f"{(1 / found).mean():.3f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
