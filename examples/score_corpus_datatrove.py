"""Score a corpus with datatrove, in tasks that are fixed parts of the files (`pip install
'datatrove[io]'`):

    python examples/score_corpus_datatrove.py stories --out scores --tasks 8 --workers 2

The folder has JSON Lines with `text` and perhaps `id`. Each task reads its files, and writes
`scores/00000.jsonl` and so on, with the scores in `metadata`. The same command resumes after an
interruption: tasks that are complete (`--logs` has a file for each) are skipped, others start over.
The number of tasks can't change within a run. The reader leaves out documents without text. On a
cluster put `SlurmPipelineExecutor` in the place of `LocalPipelineExecutor`.
"""

import argparse
import multiprocessing
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

from narrative_twins import StoryScorer


class ScoreStories(PipelineStep):
    """A step that adds scores to the metadata of documents.

    Args:
        rows: documents that are held at once and share forward passes.
        options: of `StoryScorer`.
    """

    name = "📖 Narrative salience"
    type = "🔢 - TOKENIZER"

    def __init__(self, rows: int = 1000, **options: Any) -> None:
        super().__init__()
        self.rows = rows
        # It is pickled without an encoder, so each task loads its own.
        self.scorer = StoryScorer(**options)

    def run(self, data: Iterable[Any], rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """The documents of a task, with their scores."""
        # The first step of a pipeline may be given a list.
        data = iter(data)
        while documents := list(islice(data, self.rows)):
            with self.track_time():
                found = self.scorer.rows([document.text for document in documents])
            for document, row in zip(documents, found, strict=True):
                document.metadata |= row
                self.stat_update("scored" if row["error"] is None else "failed")
                yield document


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("source", help="folder of JSON Lines")
    add("--out", required=True, help="folder of the scores")
    add("--logs", help="folder that says which tasks are complete (default: OUT.logs)")
    add("--model", help="folder or Hub id of the encoder (default: that of the package)")
    add("--dtype", default="auto", help="precision of the encoder")
    add("--operations", nargs="+", help="default: all")
    add(
        "--exact",
        dest="approximate",
        action="store_const",
        const=None,
        default="one-pass",
        help="score exactly instead of in one pass, which is the default",
    )
    add("--tasks", type=int, default=2)
    add("--workers", type=int, default=2, help="tasks that run at once")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    step = ScoreStories(
        encoder=options.model,
        operations=options.operations,
        approximate=options.approximate,
        loading={"dtype": options.dtype},
    )
    executor = LocalPipelineExecutor(
        pipeline=[
            JsonlReader(options.source, glob_pattern="*.jsonl"),
            step,
            JsonlWriter(options.out, output_filename="${rank}.jsonl", compression=None),
        ],
        tasks=options.tasks,
        workers=options.workers,
        logging_dir=options.logs or f"{options.out.rstrip('/')}.logs",
        # Forked processes would share the threads of torch.
        start_method=(
            "spawn" if "spawn" in multiprocessing.get_all_start_methods() else "forkserver"
        ),
    )
    executor.run()


if __name__ == "__main__":
    main()
