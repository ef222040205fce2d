r"""Measure how well salience finds the five turning points of film synopses: AUC of each in its
window, by operation.

    python examples/score_tripod.py TRIPOD_FOLDER [--model FOLDER_OR_ID] \
        [--operations summarization]

The source is a folder with TRIPOD's TRIPOD_synopses_train.csv and TRIPOD_synopses_test.csv, whose
99 films are scored together, one of these files, or any other source for
`narrative_twins.data.load_turning_points`. A synopsis is split into five even windows, and turning
point k is ranked among the sentences of window k; as in the paper, it is left out if it is not
there. Each window is read with the whole synopsis, or as much of it as the encoder's context holds.
`narrative-twins evaluate` has baselines, tests and plots as well.
"""

import argparse
from typing import get_args

from narrative_twins import evaluate
from narrative_twins.data.rows import Cleaning
from narrative_twins.evaluation.agreement import Rule
from narrative_twins.evaluation.labelled_stories import load_labelled


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="synopses with turning points: a file, a folder or a Hub id")
    parser.add_argument(
        "--cleaning",
        nargs="+",
        choices=get_args(Cleaning),
        default=["full"],
        help="of TRIPOD's sentences: full, or released as with the paper; both make two tables",
    )
    parser.add_argument("--split", default="all", help="of the source (default: all)")
    parser.add_argument(
        "--model", help="folder or Hub id of the encoder (default: that of the package)"
    )
    parser.add_argument(
        "--pooling", choices=["mean", "first"], help="default: that of the checkpoint, or mean"
    )
    parser.add_argument(
        "--operations", nargs="+", help="default: all operations; shifting is by far the slowest"
    )
    parser.add_argument(
        "--context-tokens", type=int, help="tokens read at once (default: the encoder's maximum)"
    )
    parser.add_argument(
        "--rule", choices=get_args(Rule), default="numbered", help="containing: the window it is in"
    )
    parser.add_argument(
        "--dtype", default="auto", help="precision of the encoder, for example bfloat16"
    )
    arguments = parser.parse_args()

    try:
        synopses = [
            load_labelled(
                arguments.source,
                arguments.split,
                name=f"{cleaning} cleaning" if len(arguments.cleaning) > 1 else None,
                cleaning=cleaning,
            )
            for cleaning in arguments.cleaning
        ]
        comparison = evaluate(
            arguments.model,
            synopses,
            operations=arguments.operations,
            baselines=(),
            rule=arguments.rule,
            loading={
                "dtype": arguments.dtype,
                "pooling": arguments.pooling,
                "context_tokens": arguments.context_tokens,
            },
            progress=True,
        )
    except (OSError, ValueError) as error:
        raise SystemExit(f"score_tripod: {error}") from None
    for table in comparison.tables():
        print(table.to_markdown())


if __name__ == "__main__":
    main()
