"""Make the tables and figures of the paper from trained runs.

    python research/paper/make_tables.py --runs runs --out tables
    python research/paper/make_tables.py --data-stories igorsterner/rocstory-salience \\
        --data-synopses TRIPOD_FOLDER
    python research/paper/make_tables.py --show two_stories my_story.txt --show one_synopsis Juno
    python research/paper/make_tables.py --smoke

A plan names the runs, tables and figures. The seeds of a run that are in the folder
RUNS/NAME-seedSEED are evaluated; their scores are saved in OUT and not computed again. Cells of
runs that are not there stay empty, and the commands that fill them are listed below the table and
in OUT/missing.txt. Without other data, the stories and synopses of the package are used, whose
labels are not by people. A folder with TRIPOD's two tables is evaluated on all its 99 films.
`--show` names the stories of a figure: files, and ids in its data, of which a
beginning is enough. `--smoke` makes everything from
encoders of random weights after two steps of training, and from people and language models that choose
at random: its figures mean nothing. OUT/index.md has all tables and figures.
"""

import argparse
import logging
from pathlib import Path
from typing import Any, get_args

import datasets
from figures import make_curves, make_salience, make_sizes
from output import Output, write_index
from paper_tables import make_data, make_runs, make_table, make_tests
from plan import CurvesSpec, SizesSpec, read_plan, with_stories
from smoke import STORIES, make_smoke_results, smoke_plan, train_smoke_runs, with_people
from transformers.utils import logging as transformers_logging
from workspace import Workspace, split_of

from narrative_twins.data.rows import Cleaning
from narrative_twins.evaluation.labelled_stories import load_labelled
from narrative_twins.extras import check_extra


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--plan",
        type=Path,
        default=Path(__file__).parent / "plan.yaml",
        help="default: %(default)s",
    )
    add(
        "--runs",
        type=Path,
        default=Path("runs"),
        help="folder of the trained runs (default: %(default)s)",
    )
    add(
        "--data-stories",
        default="stories",
        metavar="FILE",
        help="file, folder or Hub id of stories with labels",
    )
    add(
        "--data-synopses",
        default="synopses",
        metavar="FILE",
        help="the same of synopses with turning points",
    )
    add(
        "--second-stories",
        metavar="FILE",
        help="labels of the same stories by a second group of people",
    )
    add(
        "--out",
        type=Path,
        default=Path("tables"),
        help="folder for tables and figures (default: %(default)s)",
    )
    add(
        "--dtype",
        default="auto",
        help="precision of encoders, for example float32 (default: %(default)s)",
    )
    add(
        "--cleaning",
        choices=get_args(Cleaning),
        default="full",
        help="of TRIPOD's sentences: released as with the paper (default: %(default)s)",
    )
    add(
        "--smoke",
        action="store_true",
        help="everything from encoders that are trained for two steps",
    )
    add(
        "--show",
        nargs="+",
        action="append",
        default=[],
        metavar=("FIGURE", "STORY"),
        help="the stories of a figure of salience: files, or ids in its data; can be repeated",
    )
    arguments = parser.parse_args()
    datasets.disable_progress_bars()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        make(arguments)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        raise SystemExit(f"make_tables: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("make_tables: interrupted; the same command resumes from here") from None


def make(arguments: argparse.Namespace) -> None:
    """Make all tables and figures; see `--help`."""
    check_extra("plot")
    plan, runs = read_plan(arguments.plan), arguments.runs
    for figure, *stories in arguments.show:
        plan = with_stories(plan, figure, stories)
    sources = {"stories": arguments.data_stories, "synopses": arguments.data_synopses}
    second = {"stories": arguments.second_stories}
    labelled = {
        key: load_labelled(
            source,
            split_of(key, source),
            second=second.get(key),
            cleaning=arguments.cleaning if key == "synopses" else "full",
        )
        for key, source in sources.items()
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.smoke:
        plan, runs = smoke_plan(plan), arguments.out / "smoke-runs"
        labelled = {
            key: with_people(stories.first(STORIES[key])) for key, stories in labelled.items()
        }
        train_smoke_runs(plan, runs, print)
        make_smoke_results(plan, labelled, runs)
    loading = {"dtype": arguments.dtype}
    places = plan, runs, arguments.out, sources, labelled
    workspace = Workspace(*places, arguments.cleaning, arguments.smoke, loading)
    outputs = make_outputs(workspace)
    for output in outputs:
        output.write(arguments.out)
    write_index(outputs, arguments.out)
    missing = len({line for output in outputs for line in output.missing})
    print(f"{len(outputs)} tables and figures: {arguments.out / 'index.md'}")
    if missing:
        print(f"{missing} commands would fill empty cells: {arguments.out / 'missing.txt'}")


def make_outputs(workspace: Workspace) -> list[Output]:
    """The tables and figures of a plan, in its order."""
    plan = workspace.plan
    comparisons = {
        data: workspace.compare(data)
        for data in dict.fromkeys(spec.data for spec in (*plan.tables, *plan.tests))
    }
    outputs = [make_table(spec, comparisons[spec.data], workspace) for spec in plan.tables]
    outputs += [make_tests(spec, comparisons[spec.data], workspace) for spec in plan.tests]
    makers: dict[type, Any] = {CurvesSpec: make_curves, SizesSpec: make_sizes}
    outputs += [makers.get(type(spec), make_salience)(spec, workspace) for spec in plan.figures]
    return [*outputs, make_data(workspace), make_runs(workspace)]


if __name__ == "__main__":
    main()
