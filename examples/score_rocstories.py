r"""Measure agreement of salience with human labels on five-sentence stories: Spearman and AUC of
each operation.

    python examples/score_rocstories.py roc_val.json [--model FOLDER_OR_ID] \
        [--operations summarization deletion]

The file is a JSON object of stories, `{id: {"sentences": [five], "most_important": [one number from
1 to 5 for each annotator]}}`, or any other source for `narrative_twins.data.load_story_salience`,
such as `igorsterner/rocstory-salience`. `narrative-twins evaluate` has baselines, language models, tests
and plots as well.
"""

import argparse

from narrative_twins import evaluate


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="stories with human labels: a file, a folder or a Hub id")
    parser.add_argument(
        "--split", help="of the source, or all (default: test, else validation, else the first)"
    )
    parser.add_argument(
        "--model", help="folder or Hub id of the encoder (default: that of the package)"
    )
    parser.add_argument(
        "--pooling", choices=["mean", "first"], help="default: that of the checkpoint, or mean"
    )
    parser.add_argument("--operations", nargs="+", help="salience operations (default: all)")
    parser.add_argument(
        "--dtype", default="auto", help="precision of the encoder, for example float32"
    )
    arguments = parser.parse_args()
    try:
        comparison = evaluate(
            arguments.model,
            arguments.source,
            operations=arguments.operations,
            baselines=(),
            split=arguments.split,
            loading={"dtype": arguments.dtype, "pooling": arguments.pooling},
            progress=True,
        )
    except (OSError, ValueError) as error:
        raise SystemExit(f"score_rocstories: {error}") from None
    print(comparison.tables()[0].to_markdown())


if __name__ == "__main__":
    main()
