"""Measure how well salience finds the five turning points of film synopses: AUC of each in its window, by operation.

    python examples/score_tripod.py tripod_train.json [--model FOLDER_OR_ID] [--operations summarization]

The file is a JSON object of synopses, `{title: {"sentences": [...], "turning_points": [five indices from 0]}}`,
the CSV file of TRIPOD, or any other source for `narrative_twins.data.load_turning_points`. A synopsis is split into
five even windows, and each turning point is ranked among the sentences of its window.
"""

import argparse

from narrative_twins import OPERATIONS, StoryEncoder, score_stories
from narrative_twins.data import load_turning_points
from narrative_twins.evaluation.agreement import agreement_with_turning_points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="synopses with turning points: a file, a folder or a Hub id")
    parser.add_argument("--split", help="which split of the source (default: the first)")
    parser.add_argument("--model", help="folder or Hub id of the encoder (default: that of the package)")
    parser.add_argument("--operations", nargs="+", help="default: all operations; shifting is by far the slowest")
    parser.add_argument("--context-tokens", type=int, default=512, help="tokens read with each window (default: 512)")
    parser.add_argument("--dtype", default="auto", help="precision of the encoder, for example bfloat16")
    arguments = parser.parse_args()

    splits = load_turning_points(arguments.source)
    rows = splits[arguments.split or next(iter(splits))]
    encoder = StoryEncoder.from_pretrained(
        arguments.model, context_tokens=arguments.context_tokens, dtype=arguments.dtype
    )
    films = [{"id": row["id"], "sentences": row["story"], "windows": row["windows"]} for row in rows]
    results = list(score_stories(films, encoder, operations=arguments.operations, progress=True))
    agreement = agreement_with_turning_points(results, rows["turning_points"])

    cut = sum(result.truncated for result in results)
    print(f"{len(films)} synopses, {encoder.model.name_or_path}, context of {encoder.context_tokens} tokens")
    print(f"{cut} synopses do not fit into one context; each window is read with as much text around it as fits")
    print("AUC of turning points 1 to 5 in their windows, mean over synopses, and the mean of the five")
    for name in arguments.operations or OPERATIONS:
        means = [agreement[f"{name}_auc_{number}"].value for number in range(1, 6)]
        print(
            f"{name:<15}"
            + "".join(f"{value:8.3f}" for value in means)
            + f"   mean {agreement[f'{name}_auc'].value:.3f}"
        )


if __name__ == "__main__":
    main()
