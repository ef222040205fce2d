"""How well salience agrees with human readers on five-sentence stories: Spearman and AUC by operation.

    python examples/score_rocstories.py roc_val.json [--model FOLDER_OR_ID] [--operations summarization deletion]
    python examples/score_rocstories.py roc_val.json --server http://localhost:8000/v1 --language-model my-model

The file is a JSON object of stories, `{id: {"sentences": [five], "most_important": [a choice an annotator, from 1]}}`,
or anything else that `narrative_twins.data.load_story_salience` takes, such as `igorsterner/rocstory-salience`. With a
server a language model is asked, too, which sentences matter (`pip install narrative_twins[making]`): the upper bound
of the paper. Its answers are kept in a file, so that a second run asks only for what is missing.
"""

import argparse

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.baselines.prompted import SCORES, prompted_salience
from narrative_twins.data import load_story_salience
from narrative_twins.evaluation.agreement import agreement_with_votes
from narrative_twins.evaluation.metrics import Mean
from narrative_twins.llm.server import Server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="stories with annotators' choices: a file, a folder or a Hub id")
    parser.add_argument("--split", help="split of a source that has several (default: its only one)")
    parser.add_argument("--model", help="folder or Hub id of the encoder (default: the default encoder)")
    parser.add_argument("--operations", nargs="+", help="default: all")
    parser.add_argument("--dtype", default="auto", help="precision of the encoder, such as float32")
    parser.add_argument("--server", help="an OpenAI-compatible one, to ask a language model")
    parser.add_argument("--language-model", help="its name there")
    parser.add_argument("--key-variable", help="environment variable with the key of the server")
    parser.add_argument("--styles", nargs="+", choices=SCORES, default=list(SCORES), help="of asking (default: both)")
    parser.add_argument("--answers", default="answers.jsonl", help="where they are kept (default: answers.jsonl)")
    arguments = parser.parse_args()
    if (arguments.server is None) != (arguments.language_model is None):
        parser.error("--server and --language-model go together")

    try:
        score(arguments)
    except (OSError, ValueError, ImportError) as error:
        raise SystemExit(f"score_rocstories: {error}") from None


def score(arguments: argparse.Namespace) -> None:
    splits = load_story_salience(arguments.source)
    rows = splits[arguments.split or next(iter(splits))]
    stories, counts = list(rows["story"]), list(rows["counts"])
    encoder = StoryEncoder.from_pretrained(arguments.model, dtype=arguments.dtype)
    results = list(score_stories(stories, encoder, operations=arguments.operations, progress=True))
    agreement = agreement_with_votes(results, counts)
    print(f"{len(rows)} stories, {arguments.model or 'the default encoder'}")
    show(agreement)
    if arguments.server is not None:
        server = Server(arguments.server, arguments.language_model, key_variable=arguments.key_variable)
        for style in arguments.styles:
            asked = prompted_salience(
                stories, server, arguments.answers, styles=[style], on_error="skip", progress=True
            )
            print(f"\n{len(asked)} stories by {SCORES[style]}, {arguments.language_model}")
            if asked:
                show(agreement_with_votes(asked, [counts[result.index] for result in asked]))


def show(agreement: dict[str, Mean]) -> None:
    print(f"{'operation':<18}{'Spearman':>22}{'AUC':>22}   (mean over stories; how many of them have one)")
    for name in [key.removesuffix("_spearman") for key in agreement if key.endswith("_spearman")]:
        print(f"{name:<18}{agreement[f'{name}_spearman']!s:>22}{agreement[f'{name}_auc']!s:>22}")


if __name__ == "__main__":
    main()
