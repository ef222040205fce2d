"""How well salience finds the turning points of film synopses: AUC of each of the five in its window, by operation.

    python examples/score_tripod.py tripod_train.json [--model FOLDER_OR_ID] [--operations summarization]

The file is a JSON object of synopses, `{title: {"sentences": [...], "turning_points": [five indices from 0]}}`.
A synopsis is read in five even windows, and each turning point is ranked among the sentences of the window it lies in.
"""

import argparse
import json
from pathlib import Path

from narrative_twins import OPERATIONS, Story, StoryEncoder, score_stories
from narrative_twins.metrics import mean, turning_point_auc

WINDOWS = 5


def read_synopsis(title: str, sentences: list[str], turning_points: list[int]) -> tuple[Story, list[int]]:
    """A synopsis without its empty sentences, and where its turning points are then."""
    kept = [i for i, sentence in enumerate(sentences) if sentence.strip()]
    story = Story.parse({"id": title, "sentences": [sentences[i] for i in kept], "windows": WINDOWS})
    return story, [kept.index(point) for point in turning_points]


def areas(scores: list[float], points: list[int], windows: tuple[tuple[int, int], ...]) -> list[float]:
    """AUC of each turning point in the window it lies in."""
    homes = [next((lo, hi) for lo, hi in windows if lo <= point < hi) for point in points]
    return [turning_point_auc(scores, point, home) for point, home in zip(points, homes, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="synopses with turning points")
    parser.add_argument("--model", help="folder or Hub id of the encoder (default: the default encoder)")
    parser.add_argument("--operations", nargs="+", help="default: all (shifting takes by far the longest)")
    parser.add_argument("--context-tokens", type=int, default=512, help="context round each window (default 512)")
    parser.add_argument("--dtype", default="auto", help="precision of the encoder, such as bfloat16")
    arguments = parser.parse_args()

    rows = json.loads(arguments.file.read_text(encoding="utf-8"))
    films = [read_synopsis(title, row["sentences"], row["turning_points"]) for title, row in rows.items()]
    encoder = StoryEncoder.from_pretrained(
        arguments.model, context_tokens=arguments.context_tokens, dtype=arguments.dtype
    )
    results = list(
        score_stories([story for story, _ in films], encoder, operations=arguments.operations, progress=True)
    )

    cut = sum(result.truncated for result in results)
    print(f"{len(films)} synopses, {encoder.model.name_or_path}, context of {encoder.context_tokens} tokens")
    print(f"{cut} synopses do not fit into one context; each window is read with what fits round it")
    print("AUC of turning points 1 to 5 in their windows, mean over synopses, and the mean of the five")
    for name in arguments.operations or OPERATIONS:
        scored = zip(results, films, strict=True)
        rows = [areas(result.scores[name], points, result.windows) for result, (_, points) in scored]
        means = [mean(column).value for column in zip(*rows, strict=True)]
        print(f"{name:<15}" + "".join(f"{value:8.3f}" for value in means) + f"   mean {mean(means).value:.3f}")


if __name__ == "__main__":
    main()
