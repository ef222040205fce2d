r"""Measure agreement of salience with human labels on five-sentence stories: Spearman and AUC of
each operation.

    python examples/score_rocstories.py roc_val.json [--model FOLDER_OR_ID] \
        [--operations summarization deletion]
    python examples/score_rocstories.py roc_val.json --server http://localhost:8000/v1 \
        --language-model my-model

The file is a JSON object of stories, `{id: {"sentences": [five], "most_important": [one number from
1 to 5 for each annotator]}}`, or any other source for `narrative_twins.data.load_story_salience`,
such as `igorsterner/rocstory-salience`. With a server, a language model also scores the sentences,
the upper bound of the paper (needs `pip install narrative_twins[making]`). Its answers are stored
in a file; a second run requests only missing answers. `narrative-twins evaluate` has baselines,
tests and plots as well.
"""

import argparse

from narrative_twins import evaluate
from narrative_twins.evaluation import PromptedScorer
from narrative_twins.prompting import Server
from narrative_twins.prompting.styles import STYLES


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
    parser.add_argument("--server", help="URL of an OpenAI-compatible server of the language model")
    parser.add_argument("--language-model", help="name of the language model on the server")
    parser.add_argument(
        "--key-variable", help="environment variable with the API key of the server"
    )
    parser.add_argument(
        "--styles",
        nargs="+",
        choices=STYLES,
        default=["choose", "rate"],
        help="ways to ask (default: choose rate)",
    )
    parser.add_argument(
        "--answers", default="answers.jsonl", help="file for the answers (default: answers.jsonl)"
    )
    arguments = parser.parse_args()
    if (arguments.server is None) != (arguments.language_model is None):
        parser.error("--server and --language-model must be used together")

    try:
        score(arguments)
    except (OSError, ValueError, ImportError) as error:
        raise SystemExit(f"score_rocstories: {error}") from None


def score(arguments: argparse.Namespace) -> None:
    prompted = []
    if arguments.server is not None:
        server = Server(
            arguments.server, arguments.language_model, key_variable=arguments.key_variable
        )
        prompted = [
            PromptedScorer(arguments.language_model, server, arguments.answers, arguments.styles)
        ]
    comparison = evaluate(
        arguments.model,
        arguments.source,
        operations=arguments.operations,
        baselines=(),
        prompted=prompted,
        split=arguments.split,
        loading={"dtype": arguments.dtype, "pooling": arguments.pooling},
        progress=True,
    )
    print(comparison.tables()[0].to_markdown())


if __name__ == "__main__":
    main()
