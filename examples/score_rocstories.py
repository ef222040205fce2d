"""How well salience agrees with human readers on five-sentence stories: Spearman and AUC by operation.

    python examples/score_rocstories.py roc_val.json [--model FOLDER_OR_ID] [--operations summarization deletion]

The file is a JSON object of stories, `{id: {"sentences": [five], "most_important": [a choice an annotator, from 1]}}`;
the published `igorsterner/rocstory-salience` names the sentences `"story"`, which is read too.
"""

import argparse
import json
from pathlib import Path

from narrative_twins import OPERATIONS, StoryEncoder, score_stories
from narrative_twins.metrics import auc, mean, spearman, vote_counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="stories with annotators' choices")
    parser.add_argument("--model", help="folder or Hub id of the encoder (default: the default encoder)")
    parser.add_argument("--operations", nargs="+", help="default: all")
    arguments = parser.parse_args()

    rows = json.loads(arguments.file.read_text(encoding="utf-8"))
    stories = [row.get("sentences") or row["story"] for row in rows.values()]
    votes = [vote_counts(row["most_important"], len(story)) for row, story in zip(rows.values(), stories, strict=True)]
    encoder = StoryEncoder.from_pretrained(arguments.model)
    results = list(score_stories(stories, encoder, operations=arguments.operations, progress=True))

    print(f"{len(stories)} stories, {encoder.model.name_or_path}")
    print(f"{'operation':<15}{'Spearman':>22}{'AUC':>22}   (mean over stories; how many of them have one)")
    for name in arguments.operations or OPERATIONS:
        pairs = [(result.scores[name], counts) for result, counts in zip(results, votes, strict=True)]
        rho, area = mean(spearman(*pair) for pair in pairs), mean(auc(*pair) for pair in pairs)
        print(f"{name:<15}{rho!s:>22}{area!s:>22}")


if __name__ == "__main__":
    main()
