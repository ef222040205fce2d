"""`narrative-twins make align`: long narrative twins from several tellings of a work."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, get_args

from tqdm.auto import tqdm
from transformers.utils import logging as transformers_logging

from narrative_twins.commands.options import amount, check_rows_file, count, resume_hint
from narrative_twins.data.loading import load_window_twins
from narrative_twins.data.rows import RowError
from narrative_twins.encoder.checkpoint import default_encoder
from narrative_twins.files import STDIN, ResumableFile
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.alignment import SentenceEmbedder, SentencePooling
from narrative_twins.making.long_twins import (
    MAX_SIMILARITY,
    OTHER_LANGUAGES,
    Counts,
    Filters,
    LongTwins,
)
from narrative_twins.making.made import (
    card_path,
    facts_beside,
    facts_path,
    public_name,
    recipe_text,
    write_beside,
)
from narrative_twins.making.works import Work, read_documents, read_works
from narrative_twins.stories.reading import count_stories

Done: TypeAlias = dict[tuple[str, ...], list[list[str]]]
"""The twins in the rows of an earlier run, by the id and the story of the work."""

LIMITS = (
    "No human has checked the twins; sentences are aligned by the similarities of an encoder. The"
    " program does not know the authors and the licence of the texts: add them before you share the"
    " data."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Make long narrative twins from several tellings of a work. Reads JSON Lines (id, story,"
        " twins), JSON, folders and .zip archives of these, and 'Tell me again!'; - for standard"
        " input."
    )
    filters = Filters()
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="input file, folder or .zip")
    add(
        "-o",
        "--out",
        required=True,
        metavar="FILE",
        help="JSON Lines to write; facts and a card are written beside it",
    )
    add(
        "--windows", type=count, default=5, metavar="N", help="even windows of a story (default: 5)"
    )
    add(
        "--encoder",
        metavar="NAME",
        help="sentence encoder for the alignment: folder or Hub id (default: the package's)",
    )
    add(
        "--pooling",
        choices=get_args(SentencePooling),
        default="checkpoint",
        help=(
            "sentence vectors by the pooling that the encoder is saved with (mean if none), or by"
            " its trained pooler, as SimCSE needs it (default: checkpoint)"
        ),
    )
    add("--device", help="for example cpu or cuda:0 (default: an accelerator if there is one)")
    add(
        "--batch-size",
        type=count,
        default=32,
        metavar="N",
        help="sentences in a forward pass (default: 32)",
    )
    add(
        "--min-sentences",
        type=count,
        default=filters.min_sentences,
        metavar="N",
        help="fewest sentences of a story (default: %(default)s)",
    )
    add(
        "--max-difference",
        type=amount,
        default=filters.max_difference,
        metavar="X",
        help=(
            "largest difference of story and twin in sentences (default: 13.7, a standard deviation"
            " in the paper)"
        ),
    )
    add(
        "--min-window",
        type=count,
        default=filters.min_window,
        metavar="N",
        help="fewest sentences of the twin in a window (default: %(default)s)",
    )
    add(
        "--max-similarity",
        type=similarities,
        default=MAX_SIMILARITY,
        metavar="X,L=X",
        help=(
            "drop tellings that are more similar than this, if their similarity is given (default: "
        )
        + ",".join(
            f"{'' if name == OTHER_LANGUAGES else name + '='}{value}"
            for name, value in MAX_SIMILARITY.items()
        )
        + "). fr=0.7 changes the limit of one language; a number without a language is the limit of"
        " all languages that are not listed with it, so 0.7 alone is the limit of all",
    )
    add("--language", default="en", help="language of the tellings, for the card (default: en)")
    add(
        "--anonymized",
        action="store_true",
        help="twins of 'Tell me again!' with replaced names; the story keeps its own",
    )
    add("--seed", type=int, default=0, help="seed of the choice among several twins (default: 0)")
    add("--resume", action="store_true", help="continue an interrupted run")
    add("-q", "--quiet", action="store_true", help="no progress bar")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    check_rows_file(parser, options.files, options.out)


def on_interrupt(options: argparse.Namespace) -> str | None:
    """What to tell the user after an interruption."""
    return resume_hint(options.out)


def run(options: argparse.Namespace) -> int:
    """Read, align and write; print the counts of kept and dropped works."""
    filters = Filters(
        options.min_sentences, options.max_difference, options.min_window, options.max_similarity
    )
    transformers_logging.disable_progress_bar()
    # Report an unreadable file of facts before hours of work.
    facts_beside(options.out)
    embed = SentenceEmbedder(options.encoder, options.device, options.batch_size, options.pooling)
    settings = _settings(options, filters, embed.fingerprint)
    out = ResumableFile(options.out, settings, options.resume, sync=True)
    done = _done(out)
    keep_edits = out.repeats_complete_run
    twins = LongTwins(embed, options.windows, options.seed, filters)
    shown = sys.stderr.isatty() and not options.quiet
    with out:
        found = read_works(read_documents(options.files), options.anonymized)
        for name, work in tqdm(
            found, total=count_stories(options.files) or None, unit=" works", disable=not shown
        ):
            _align(name, work, twins, done, out)
    twins.counts.earlier_rows = sum(map(len, done.values()))
    counted = list(twins.counts.describe(filters))
    for words, number in counted:
        print(f"{number:>9,}  {words}")
    for warning in _warnings(twins.counts, embed.truncated):
        print(f"narrative-twins: {warning}", file=sys.stderr)
    facts = DatasetFacts(
        "Long narrative twins",
        _what(counted),
        recipe_text("narrative-twins make align", settings),
        LIMITS,
        language=options.language,
        tags=["narrative-twins"],
    )
    if not twins.counts.rows:
        write_beside(options.out, facts, None, keep_edits)
        return 1
    write_beside(options.out, facts, load_window_twins, keep_edits)
    print(
        f"\n{options.out}, with its card {card_path(options.out)} and its facts"
        f" {facts_path(options.out)}"
    )
    return 1 if twins.counts.unreadable else 0


def _warnings(counts: Counts, cut: int) -> Iterator[str]:
    if counts.earlier_rows:
        yield (
            f"{counts.earlier_rows:,} rows of the earlier run are of works or twins that are not in"
            " the input now, and are kept; start over to drop them"
        )
    if cut:
        yield (
            f"{cut:,} sentences were longer than the encoder's context; their ends had no effect on"
            " the alignment"
        )
    if not counts.rows:
        yield "no work is left, so there is no card; the counts show why"


def _align(
    name: str, work: Work | RowError, twins: LongTwins, done: Done, out: ResumableFile
) -> None:
    """Write the row of a work, unless the earlier run did, or report why there is none."""
    if not isinstance(work, RowError):
        # Works with the same id and story may have different twins.
        earlier = done.get((work.id, *work.story), [])
        index = twins.count_existing(work, earlier)
        if index is not None:
            del earlier[index]
            return
        try:
            row = twins.row(work)
        except RowError as error:
            work = RowError(name, str(error))
        else:
            if row is not None:
                out.write_row(row)
            return
    twins.counts.works += 1
    twins.counts.unreadable += 1
    tqdm.write(f"narrative-twins: {work}", file=sys.stderr)


def _settings(
    options: argparse.Namespace, filters: Filters, fingerprint: str | None
) -> dict[str, Any]:
    """All settings that the rows depend on."""
    return {
        "works of": [
            "standard input" if file == STDIN else Path(file).resolve().name
            for file in options.files
        ],
        "sentence encoder": public_name(options.encoder or default_encoder()),
        "encoder fingerprint": fingerprint,
        "sentence pooling": options.pooling,
        "windows": options.windows,
        **filters.settings(),
        "seed": options.seed,
        "names of 'Tell me again!' replaced": "in the twins only" if options.anonymized else "no",
    }


def _what(counted: list[tuple[str, int]]) -> str:
    """The description of the data set, with the counts of kept and dropped works."""
    # Counts by reason become nested lists.
    lines = "\n".join(
        f"{'  ' if words.startswith('-') else '- '}{words}: {number:,}" for words, number in counted
    )
    return (
        "Stories in windows, each with a narrative twin: the same plot told by someone else. The"
        " story is cut into even windows; a sentence of the twin is in the windows of the"
        f" sentences of the story that dynamic time warping aligns it to.\n\n{lines}"
    )


def _done(out: ResumableFile) -> Done:
    """The works in the output of an interrupted run; raises ResumeError if a line is not a row of
    this command."""
    done: Done = defaultdict(list)
    for number, row in enumerate(out.rows(), start=1):
        try:
            story = [sentence for window in row["story"] for sentence in window]
            done[(row["id"], *story)].append(row["twin"])
        except (KeyError, TypeError):
            raise out.not_resumable(number, "is not a row of this command") from None
    return done


def similarities(text: str) -> dict[str, float]:
    """Parse limits of similarity by language; without a limit for all other languages, these keep
    their defaults."""
    found: dict[str, float] = {}
    for item in text.split(","):
        language, _, value = item.rpartition("=")
        language = language.strip() or OTHER_LANGUAGES
        if language in found:
            raise argparse.ArgumentTypeError(
                f"{text!r} has two numbers for {language}; give one number"
            )
        try:
            found[language] = float(value)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a list of similarities such as 0.6,fr=0.681"
            ) from None
    return found if OTHER_LANGUAGES in found else {**MAX_SIMILARITY, **found}
