# /// script
# requires-python = ">=3.11"
# dependencies = ["narrative_twins[train]"]
# ///
"""Score the stories of a data set on the Hub, and push the scores to another data set, shard by
shard.

    uv run examples/score_hub_dataset.py user/stories your-name/scores --column text
    hf jobs uv run --flavor l4x1 --secrets HF_TOKEN examples/score_hub_dataset.py \\
        user/stories your-name/scores

Rows are streamed, so the data set may be larger than the disk. Each commit has a shard of scores,
the card, and `run.json`, which says how far the run is: the same command resumes after an
interruption, also on another machine, and reads the same commit of the source. A story that can't
be scored is a row with its `error`. `load_dataset` loads the result as usual. The token is that of
`hf auth login`, or HF_TOKEN.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from datasets import load_dataset
from huggingface_hub import CommitOperationAdd, HfApi, hf_hub_download
from huggingface_hub.errors import HfHubHTTPError

from narrative_twins import DatasetFacts, StoryScorer
from narrative_twins.corpora.scorer import COLUMNS as SCORE_COLUMNS
from narrative_twins.hub.cards import dataset_card
from narrative_twins.stories.story import parse_windows

STATE = "run.json"
SETTINGS = (
    "source",
    "config",
    "split",
    "revision",
    "column",
    "id_column",
    "model",
    "dtype",
    "operations",
    "windows",
)
SETTINGS += ("approximate", "limit")
"""Options that the scores depend on: they can't change within a run."""

COLUMNS = {
    "row": "number of the row in the source, from 0",
    "id": "id of the row, if it has one",
} | SCORE_COLUMNS


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("source", help="Hub id of a data set of stories")
    add("target", help="Hub id of the data set of scores")
    add("--config", help="configuration of the source")
    add("--split", default="train")
    add(
        "--revision",
        help="branch, tag or commit of the source (default: main, as it is when the run starts)",
    )
    add(
        "--column",
        help="column of the stories (default: each row is a story, with text, sentences or story)",
    )
    add("--id-column", default="id")
    add("--model", help="folder or Hub id of the encoder (default: that of the package)")
    add("--dtype", default="auto", help="precision of the encoder")
    add("--operations", nargs="+", help="default: all")
    add("--windows", default="auto", help="a count, sizes (7,7,6), or auto")
    add(
        "--exact",
        dest="approximate",
        action="store_const",
        const=None,
        default="one-pass",
        help="score exactly instead of in one pass, which is the default",
    )
    add("--limit", type=int, help="score only so many rows")
    add(
        "--shard",
        type=int,
        default=1000,
        help="rows of a shard, at most this many of which are scored twice",
    )
    add("--private", action="store_true", help="make the target private, if it is created")
    return parser.parse_args()


def begin(api: HfApi, options: argparse.Namespace) -> dict[str, Any]:
    """The state of the run: that of an interrupted run with the same settings, or a new one."""
    settings = {name: getattr(options, name) for name in SETTINGS}
    api.create_repo(options.target, repo_type="dataset", private=options.private, exist_ok=True)
    existing = set(api.list_repo_files(options.target, repo_type="dataset")) - {".gitattributes"}
    if STATE in existing:
        path = hf_hub_download(options.target, STATE, repo_type="dataset")
        state: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        changed = [name for name in SETTINGS if state["settings"].get(name) != settings[name]]
        if changed:
            raise ValueError(
                f"{options.target} was scored with another {', '.join(changed)}; choose another"
                " target"
            )
        return state
    if existing:
        raise ValueError(f"{options.target} has files of something else; choose another target")
    commit = api.dataset_info(options.source, revision=options.revision).sha
    return {"settings": settings, "commit": commit, "rows": 0, "shards": 0, "complete": False}


def read_rows(options: argparse.Namespace, state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows that are not scored yet."""
    rows = load_dataset(
        options.source,
        options.config,
        split=options.split,
        revision=state["commit"],
        streaming=True,
    )
    # Early releases of datasets 4 do not name the columns of a stream of JSON Lines.
    known = rows.column_names or list(next(iter(rows), {}))
    if options.column is not None and known and options.column not in known:
        raise ValueError(
            f"{options.source} has no column {options.column!r}; it has {', '.join(known)}"
        )
    yield from islice(
        rows.skip(state["rows"]), None if options.limit is None else options.limit - state["rows"]
    )


def score(
    rows: list[dict[str, Any]], start: int, scorer: StoryScorer, options: argparse.Namespace
) -> pyarrow.Table:
    """The scores of rows, of which the first has the number `start`."""
    ids = [
        None if row.get(options.id_column) is None else str(row[options.id_column]) for row in rows
    ]
    table = scorer.table(rows if options.column is None else [row[options.column] for row in rows])
    table = table.add_column(0, "id", pyarrow.array(ids, pyarrow.string()))
    return table.add_column(
        0, "row", pyarrow.array(range(start, start + len(rows)), pyarrow.int64())
    )


def card_of(options: argparse.Namespace, state: dict[str, Any]) -> str:
    source = f"[{options.source}](https://huggingface.co/datasets/{options.source})"
    model = options.model or "the default encoder"
    facts = DatasetFacts(
        name=f"Narrative salience of {options.source}",
        description=(
            f"How much each sentence of a story matters to it, by `narrative_twins` with {model}."
        ),
        source=(
            f"The stories are those of {source}, split `{options.split}`, at the commit"
            f" `{state['commit']}`; its card has their authors and licence. Settings:"
            f" `{json.dumps(state['settings'])}`."
        ),
        limits="Scores are what an encoder's similarities say, not judgments of people."
        + ("" if state["complete"] else " The run is not complete."),
    )
    return str(
        dataset_card(
            facts, {"scores": COLUMNS}, {"scores": {options.split: state["rows"]}}, options.target
        )
    )


def push(
    api: HfApi, options: argparse.Namespace, state: dict[str, Any], shard: Path | None, message: str
) -> None:
    """Push the state, the card and perhaps a shard in one commit."""
    operations = [
        CommitOperationAdd(STATE, json.dumps(state, indent=1).encode()),
        CommitOperationAdd("README.md", card_of(options, state).encode()),
    ]
    if shard is not None:
        operations.append(CommitOperationAdd(f"scores/{shard.name}", shard))
    api.create_commit(options.target, operations, commit_message=message, repo_type="dataset")
    print(message, flush=True)


def run(options: argparse.Namespace) -> None:
    api = HfApi()
    if options.shard < 1:
        raise ValueError("--shard: at least 1 row")
    state = begin(api, options)
    if state["complete"]:
        print(f"{options.target} is complete: {state['rows']} rows")
        return
    rows = read_rows(options, state)
    scorer = StoryScorer(
        options.model,
        operations=options.operations,
        windows=parse_windows(options.windows),
        approximate=options.approximate,
        loading={"dtype": options.dtype},
    )
    while batch := list(islice(rows, options.shard)):
        with tempfile.TemporaryDirectory() as scratch:
            shard = Path(scratch) / f"{options.split}-{state['shards']:05}.parquet"
            pyarrow.parquet.write_table(score(batch, state["rows"], scorer, options), shard)
            state |= {"rows": state["rows"] + len(batch), "shards": state["shards"] + 1}
            push(
                api,
                options,
                state,
                shard,
                f"Scores of rows {state['rows'] - len(batch)} to {state['rows'] - 1}",
            )
    if not state["rows"]:
        raise ValueError(f"{options.source} has no rows in {options.split}")
    state["complete"] = True
    push(api, options, state, None, f"Complete: {state['rows']} rows")


def main() -> None:
    try:
        run(parse_arguments())
    except (OSError, ValueError, HfHubHTTPError) as error:
        raise SystemExit(
            f"score_hub_dataset: {error}; nothing of what was pushed is lost"
        ) from None


if __name__ == "__main__":
    main()
