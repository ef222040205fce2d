"""Ask a language model for the salience of labelled stories, for the rows `prompted model` of the
tables.

    python examples/paper/prompt_model.py igorsterner/rocstory-salience --styles choose rate \\
        --out runs/prompted_stories.jsonl --server http://localhost:8000/v1 --language-model
        my-model

The stories are a file, a folder, a Hub id, or `stories` or `synopses` of the package. Needs `pip
install narrative_twins[making]`. Answers are saved in OUT.answers; the same command requests only
missing answers.
"""

import argparse
from pathlib import Path

from narrative_twins import StorySalience
from narrative_twins.baselines.prompted import prompted_salience
from narrative_twins.baselines.styles import STYLES
from narrative_twins.evaluation.labelled import load_labelled
from narrative_twins.files import AtomicFile
from narrative_twins.llm import Server
from narrative_twins.show.formats import write_results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("source", help="labelled stories")
    add("--styles", nargs="+", choices=STYLES, required=True, help="ways to ask")
    add("--out", type=Path, required=True, help="file for the results")
    add("--server", required=True, help="URL of an OpenAI-compatible server")
    add("--language-model", required=True, help="name of the language model on the server")
    add("--key-variable", help="environment variable with the API key of the server")
    arguments = parser.parse_args()
    try:
        prompt(arguments)
    except (OSError, ValueError, ImportError) as error:
        raise SystemExit(f"prompt_model: {error}") from None


def prompt(arguments: argparse.Namespace) -> None:
    """Write a line of results for each story that got scores."""
    stories = load_labelled(arguments.source).stories
    server = Server(arguments.server, arguments.language_model, key_variable=arguments.key_variable)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    answers = f"{arguments.out}.answers"
    results: list[StorySalience] = prompted_salience(
        stories, server, answers, styles=arguments.styles, on_error="skip", progress=True
    )
    with AtomicFile(str(arguments.out)) as file:
        for piece in write_results(results, "jsonl"):
            file.write(piece)
    print(f"{len(results)} of {len(stories)} stories: {arguments.out}")


if __name__ == "__main__":
    main()
