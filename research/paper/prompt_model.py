"""Ask a language model for the salience of labelled stories, for the rows of language models in the
tables.

    python research/paper/prompt_model.py igorsterner/rocstory-salience --styles choose,rate \\
        --out runs/gpt-4.1-mini-stories --runs 3 --server https://api.openai.com/v1 \\
        --language-model gpt-4.1-mini

The stories are a file, a folder, a Hub id, or `stories` or `synopses` of the package. Needs `pip
install narrative_twins[making]`. The results of each run are in OUT-run1.jsonl, OUT-run2.jsonl and
so on, its answers in a file of the same name and `.answers`; the same command requests only missing
answers. Each run has other seeds.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import click

from narrative_twins.commands.request_options import RequestOptions
from narrative_twins.commands.signatures import Count, Names, command
from narrative_twins.evaluation.labelled_stories import load_labelled
from narrative_twins.prompting.prompted import SAMPLES, prompted_salience
from narrative_twins.show.formats import write_results
from narrative_twins.writing import atomic_write


@command(extra="making")
def prompt_model(
    stories: str,
    requests: RequestOptions,
    *,
    styles: Annotated[Sequence[str], Names("prompting.question_styles", "STYLES")],
    out: str,
    server: str,
    language_model: str,
    runs: Count = 1,
    samples: Count = SAMPLES,
    split: str | None = None,
    cleaning: Literal["full", "released"] = "full",
) -> int:
    """Ask a language model for the salience of labelled stories, for the tables of the paper. The
    same command requests only missing answers.

    Args:
        stories (STORIES): file, folder, Hub id, or a corpus of the package.
        styles (A,B): Ways to ask, see docs/evaluation.md.
        out (PATH): Folder and beginning of the name of the files: OUT-run1.jsonl and so on.
        server (URL): OpenAI-compatible server.
        language_model (NAME): Language model on the server.
        runs (N): How often to ask, each time with other seeds.
        samples (N): Answers for each window, for styles that choose.
        split: Split of the stories, or all (default: test, validation or the first).
        cleaning: Of TRIPOD's sentences; released as with the paper.
    """
    labelled = load_labelled(stories, split, cleaning=cleaning).stories
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    options: Any = {"styles": styles, "samples": samples, "on_error": "skip", "progress": True}
    options |= {"prompts": requests.prompts, "attempts": requests.attempts}
    for number in range(1, runs + 1):
        asked = replace(requests, seed=requests.seed + number).server(server, language_model)
        file = f"{out}-run{number}.jsonl"
        results = prompted_salience(labelled, asked, f"{file}.answers", **options)
        with atomic_write(file) as opened:
            for piece in write_results(results, "jsonl"):
                opened.write(piece)
        print(f"{len(results)} of {len(labelled)} stories: {file}")
    return 0


if __name__ == "__main__":
    try:
        prompt_model(standalone_mode=False)
    except click.ClickException as error:
        raise SystemExit(f"prompt_model: {error.format_message()}") from None
    except (OSError, ValueError, ImportError) as error:
        raise SystemExit(f"prompt_model: {error}") from None
