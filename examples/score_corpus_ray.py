r"""Score a corpus with Ray Data, on this machine or a cluster (`pip install
'narrative_twins[train]' 'ray[data]>=2.60'`):

    python examples/score_corpus_ray.py 'stories/*.parquet' --out scores --column text \
        --id-column id --workers 2

Each worker is an actor that holds its own encoder. Ray starts a worker again that ends, and after
an interruption of the whole run the same command resumes: Ray keeps the ids of the rows that are
written in `--checkpoint`, a folder that all machines can reach. Ids must be unique, and all of them
are held in memory.
"""

import argparse
import glob
import os
from pathlib import Path

import ray
import ray.data
from ray.data.checkpoint import CheckpointConfig

from narrative_twins import StoryScorer


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "source", help="files of Parquet or JSON Lines: a name or a pattern; or a folder of Parquet"
    )
    add("--out", required=True, help="folder of the scores, in Parquet")
    add(
        "--column",
        help="column of the stories (default: each row is a story, with text, sentences or story)",
    )
    add("--id-column", default="id")
    add("--checkpoint", help="folder of the ids that are written (default: OUT.checkpoint)")
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
    add("--workers", type=int, default=2, help="actors, each with an encoder")
    add("--gpus", type=float, default=0, help="GPUs of a worker; 0.5 puts two on one")
    add(
        "--blocks",
        type=int,
        help="parts of a corpus in JSON Lines, each written as a whole (default, and of Parquet:"
        " parts of --rows rows)",
    )
    add("--rows", type=int, default=500, help="rows of a batch")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    cores = slots = None  # A cluster has numbers of its own.
    if "RAY_ADDRESS" not in os.environ:
        # Workers share the cores: Ray gives torch as many threads as a worker has slots. Two more
        # slots read, write, and leave out what is written; without them Ray waits forever.
        slots = max(1, (os.cpu_count() or 1) // options.workers)
        cores = slots * options.workers + 2
    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    checkpoint = Path(options.checkpoint or f"{options.out.rstrip('/')}.checkpoint").resolve()
    context.checkpoint_config = CheckpointConfig(
        id_column=options.id_column,
        checkpoint_path=str(checkpoint),
        delete_checkpoint_on_success=False,
    )
    files = sorted(glob.glob(options.source)) or [options.source]
    read = ray.data.read_json if files[0].endswith((".json", ".jsonl")) else ray.data.read_parquet
    rows = read(files, override_num_blocks=options.blocks)
    if options.blocks is None or read is ray.data.read_parquet:
        # Ray reads a small file as one block, which a single worker would score.
        rows = rows.repartition(target_num_rows_per_block=options.rows)
    # Tables of pyarrow keep the types of columns, also in a batch of which no story can be scored.
    scored = rows.map_batches(
        StoryScorer,
        fn_constructor_kwargs={
            "encoder": options.model,
            "column": options.column,
            "operations": options.operations,
            "approximate": options.approximate,
            "loading": {"dtype": options.dtype},
        },
        batch_format="pyarrow",
        batch_size=options.rows,
        compute=ray.data.ActorPoolStrategy(size=options.workers),
        num_cpus=None if options.gpus else slots,
        num_gpus=options.gpus,
    )
    scored.write_parquet(str(Path(options.out).resolve()))


if __name__ == "__main__":
    main()
