"""How well salience agrees with human readers on five-sentence stories: Spearman and AUC by operation.

    python examples/score_rocstories.py roc_val.json [--model FOLDER_OR_ID] [--operations summarization deletion]

The file is a JSON object of stories, `{id: {"sentences": [five], "most_important": [a choice an annotator, from 1]}}`,
or anything else that `narrative_twins.data.load_story_salience` takes, such as `igorsterner/rocstory-salience`.
"""

import argparse

from narrative_twins import OPERATIONS, StoryEncoder, score_stories
from narrative_twins.data import load_story_salience
from narrative_twins.evaluation import agreement_with_votes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="stories with annotators' choices: a file, a folder or a Hub id")
    parser.add_argument("--split", help="split of a source that has several (default: its only one)")
    parser.add_argument("--model", help="folder or Hub id of the encoder (default: the default encoder)")
    parser.add_argument("--operations", nargs="+", help="default: all")
    parser.add_argument("--dtype", default="auto", help="precision of the encoder, such as float32")
    arguments = parser.parse_args()

    splits = load_story_salience(arguments.source)
    rows = splits[arguments.split or next(iter(splits))]
    encoder = StoryEncoder.from_pretrained(arguments.model, dtype=arguments.dtype)
    results = list(score_stories(list(rows["story"]), encoder, operations=arguments.operations, progress=True))
    agreement = agreement_with_votes(results, rows["counts"])

    print(f"{len(rows)} stories, {encoder.model.name_or_path}")
    print(f"{'operation':<15}{'Spearman':>22}{'AUC':>22}   (mean over stories; how many of them have one)")
    for name in arguments.operations or OPERATIONS:
        print(f"{name:<15}{agreement[f'{name}_spearman']!s:>22}{agreement[f'{name}_auc']!s:>22}")


if __name__ == "__main__":
    main()
