"""Ask a language model for the salience of labelled stories, for the rows of language models in the
tables.

    python examples/paper/prompt_model.py igorsterner/rocstory-salience --styles choose rate \\
        --out runs/first_model_stories --runs 3 --server http://localhost:8000/v1 --language-model
        my-model

The stories are a file, a folder, a Hub id, or `stories` or `synopses` of the package. Needs `pip
install narrative_twins[making]`. The results of each run are in OUT-run1.jsonl, OUT-run2.jsonl and
so on, its answers in a file of the same name and `.answers`; the same command requests only missing
answers. Each run has other seeds.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from narrative_twins.evaluation.labelled import load_labelled
from narrative_twins.prompting import Server
from narrative_twins.prompting.prompted import prompted_salience
from narrative_twins.prompting.styles import STYLES
from narrative_twins.show.formats import write_results
from narrative_twins.writing import atomic_write


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("source", help="labelled stories")
    add("--styles", nargs="+", choices=STYLES, required=True, help="ways to ask")
    add("--out", type=Path, required=True, help="folder and name of the files for the results")
    add("--runs", type=int, default=1, help="how often to ask (default: %(default)s)")
    add("--split", help="of the stories, or all (default: test, validation or the first)")
    add("--server", required=True, help="URL of an OpenAI-compatible server")
    add("--language-model", required=True, help="name of the language model on the server")
    add("--key-variable", help="environment variable with the API key of the server")
    fields = 'for example {"max_completion_tokens": 8000} for a reasoning model'
    add("--request", type=json.loads, default={}, help=f"further JSON fields, {fields}")
    arguments = parser.parse_args()
    try:
        prompt(arguments)
    except (OSError, ValueError, ImportError) as error:
        raise SystemExit(f"prompt_model: {error}") from None


def prompt(arguments: argparse.Namespace) -> None:
    """For each run write a line of results for each story that got scores."""
    if arguments.runs < 1:
        raise ValueError(f"--runs {arguments.runs}: must be 1 or more")
    stories = load_labelled(arguments.source, arguments.split).stories
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    settings = {"key_variable": arguments.key_variable, "request": arguments.request}
    for number in range(1, arguments.runs + 1):
        server = Server(arguments.server, arguments.language_model, seed=number, **settings)
        out = f"{arguments.out}-run{number}.jsonl"
        options: Any = {"styles": arguments.styles, "on_error": "skip", "progress": True}
        results = prompted_salience(stories, server, f"{out}.answers", **options)
        with atomic_write(out) as file:
            for piece in write_results(results, "jsonl"):
                file.write(piece)
        print(f"{len(results)} of {len(stories)} stories: {out}")


if __name__ == "__main__":
    main()
