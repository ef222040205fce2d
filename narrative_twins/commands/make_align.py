"""`narrative-twins make align`: long narrative twins from several tellings of works."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from tqdm.auto import tqdm
from transformers.utils import logging as transformers_logging

from narrative_twins.commands.numbers import amount, count
from narrative_twins.commands.outputs import check_rows_file, kept_part
from narrative_twins.data.loading import load_window_twins
from narrative_twins.data.rows import RowError
from narrative_twins.files import STDIN, WholeFile, whole_lines
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.align.embedding import SentenceEmbedder, digest_of
from narrative_twins.making.align.filters import MAX_SIMILARITY, OTHERS, Counts, Filters
from narrative_twins.making.align.long_twins import LongTwins, read_works
from narrative_twins.making.align.works import Work, sources
from narrative_twins.making.facts import (
    begin_facts,
    card_path,
    check_recipe,
    facts_beside,
    facts_path,
    in_list,
    name_of,
    remove_card,
    write_beside,
    write_facts,
)
from narrative_twins.stories.reading import count_stories

Done: TypeAlias = dict[tuple[str, ...], list[list[str]]]
"""Of works that an earlier run was done with, by id and story: the twins."""

LIMITS = (
    "Nobody has read the twins, and sentences are aligned as an encoder has them. Who wrote the texts, and under what "
    "licence they are, a program can't know: say it before you share them."
)


def add_parser(makers: Any) -> None:
    """Add the command."""
    parser = makers.add_parser(
        "align",
        help="long narrative twins from several tellings of works",
        description="Long narrative twins from several tellings of works. Reads JSON Lines (id, story, twins), JSON, "
        "a folder or .zip of such files, and 'Tell me again!'; - for standard input.",
    )
    filters = Filters()
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="file, folder or .zip to read")
    add("-o", "--out", required=True, metavar="FILE", help="JSON Lines to write; facts and a card come beside it")
    add("--windows", type=count, default=5, metavar="N", help="even windows of a story (default: 5)")
    add("--encoder", metavar="NAME", help="sentence encoder that aligns: folder or Hub id (default: the package's own)")
    add("--device", help="such as cpu or cuda:0 (default: an accelerator if there is one)")
    add("--batch-size", type=count, default=32, metavar="N", help="sentences in a forward pass (default: 32)")
    add("--min-sentences", type=count, default=filters.min_sentences, metavar="N", help="of a story (default: 20)")
    add(
        "--max-difference",
        type=amount,
        default=filters.max_difference,
        metavar="X",
        help="sentences that a twin may be longer or shorter (default: 13.7, a standard deviation in the paper)",
    )
    add(
        "--min-window",
        type=count,
        default=filters.min_window,
        metavar="N",
        help="sentences of the twin in a window (default: 3)",
    )
    add(
        "--max-similarity",
        type=similarities,
        default=MAX_SIMILARITY,
        metavar="X,L=X",
        help="drop tellings above, where their similarity is given (default: "
        + ",".join(f"{'' if name == OTHERS else name + '='}{value}" for name, value in MAX_SIMILARITY.items())
        + "). fr=0.7 changes the number of one language; a number without a language is for all that are not named "
        "beside it, so 0.7 alone is for all",
    )
    add("--language", default="en", help="of the tellings, for the card (default: en)")
    add("--anonymized", action="store_true", help="of 'Tell me again!' take the texts with names replaced")
    add("--seed", type=int, default=0, help="of the draw among several twins (default: 0)")
    add("--resume", action="store_true", help="go on where an interrupted run stopped")
    add("-q", "--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=run, check=lambda options: check(parser, options), kept=kept)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    check_rows_file(parser, options.files, options.out)


def kept(options: argparse.Namespace) -> str | None:
    """What there is to go on from after an interruption."""
    return kept_part(options.out)


def run(options: argparse.Namespace) -> int:
    """Read, align, write; then say what was dropped."""
    filters = Filters(options.min_sentences, options.max_difference, options.min_window, options.max_similarity)
    out = WholeFile(options.out, keep=True, resume=options.resume, durable=True)
    recipe = _recipe(options, filters)
    done = _done(options.out) if options.resume else {}
    if done:
        check_recipe(options.out, recipe)
    facts_beside(options.out)
    transformers_logging.disable_progress_bar()
    embed = SentenceEmbedder(options.encoder, options.device, options.batch_size)
    twins = LongTwins(embed, options.windows, options.seed, filters)
    facts = DatasetFacts(
        "Long narrative twins", "Not finished.", recipe, LIMITS, language=options.language, tags=["narrative-twins"]
    )
    shown = sys.stderr.isatty() and not options.quiet
    with out:
        begin_facts(options.out, facts)
        found = read_works(sources(options.files), options.anonymized)
        for name, work in tqdm(found, total=count_stories(options.files) or None, unit=" works", disable=not shown):
            _do(name, work, twins, done, out)
    twins.counts.left = sum(map(len, done.values()))
    counted = list(twins.counts.in_words(filters))
    for words, number in counted:
        print(f"{number:>9,}  {words}")
    for warning in _warnings(twins.counts, embed.cut):
        print(f"narrative-twins: {warning}", file=sys.stderr)
    facts.what = _what(counted)
    if not twins.counts.rows:
        write_facts(options.out, facts)
        remove_card(options.out)
        return 1
    write_beside(options.out, facts, load_window_twins)
    print(f"\n{options.out}, with its card {card_path(options.out)} and its facts {facts_path(options.out)}")
    return 1 if twins.counts.unreadable else 0


def _warnings(counts: Counts, cut: int) -> Iterator[str]:
    """What to know of the rows that is not as one may think."""
    if counts.left:
        yield (
            f"{counts.left:,} rows of the earlier run are of works or twins that are not read now, and stay; start "
            "anew to be without them"
        )
    if cut:
        yield (f"{cut:,} sentences were longer than the encoder reads; their ends did not count when they were aligned")
    if not counts.rows:
        yield "no work is left, so there is no card; the counts say why"


def _do(name: str, work: Work | RowError, twins: LongTwins, done: Done, out: WholeFile) -> None:
    """Write the row of a work, unless there is one already, or tell of what can have none."""
    if not isinstance(work, RowError):
        # Works may have the same id and story, and other twins.
        earlier = done.get((work.id, *work.story), [])
        place = twins.recall(work, earlier)
        if place is not None:
            del earlier[place]
            return
        try:
            row = twins.row(work)
        except RowError as error:
            work = RowError(name, str(error))
        else:
            if row is not None:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
            return
    twins.counts.works += 1
    twins.counts.unreadable += 1
    tqdm.write(f"narrative-twins: {work}", file=sys.stderr)


def _recipe(options: argparse.Namespace, filters: Filters) -> str:
    """All that the rows depend on, in Markdown."""
    version = importlib.metadata.version("narrative_twins")
    encoder = options.encoder or f"the default encoder of narrative_twins {version}"
    digest = f" (digest {digest_of(encoder)})" if os.path.isdir(encoder) else ""
    works = ", ".join("standard input" if file == STDIN else Path(file).resolve().name for file in options.files)
    settings = {
        "works of": works,
        "sentence encoder": f"{name_of(encoder)}{digest}",
        "windows": f"{options.windows}, even in the story, in the twin by dynamic time warping",
        **filters.in_words(),
        "one of several twins": f"at random, seed {options.seed}",
        "texts": "with names replaced, where there is a choice" if options.anonymized else "as they are",
    }
    return in_list(f"`narrative-twins make align` (narrative_twins {version})", settings)


def _what(counted: list[tuple[str, int]]) -> str:
    """What the data set is, with what was dropped of what was read."""
    # Indented, reasons become lists within the list.
    lines = "\n".join(f"{'  ' if words.startswith('-') else '- '}{words}: {number:,}" for words, number in counted)
    return (
        "Stories in windows, each with a narrative twin: the same plot told by somebody else. Sentences of the twin "
        f"are in the windows of those sentences of the story that they are aligned to.\n\n{lines}"
    )


def _done(out: str) -> Done:
    """The works that an interrupted run has written.

    Raises:
        ValueError: the file is not of such a run.
    """
    done: Done = defaultdict(list)
    for number, line in enumerate(whole_lines(out), start=1):
        try:
            row = json.loads(line)
            story = [sentence for window in row["story"] for sentence in window]
            done[(row["id"], *story)].append(row["twin"])
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"can't resume {out}: its line {number} is no row of this command") from None
    return done


def similarities(text: str) -> dict[str, float]:
    """Numbers by language, the one without a language for all others; without it, the others stay as they are."""
    found: dict[str, float] = {}
    for item in text.split(","):
        language, _, value = item.rpartition("=")
        language = language.strip() or OTHERS
        if language in found:
            raise argparse.ArgumentTypeError(f"{text!r} has two numbers for {language}; give one")
        try:
            found[language] = float(value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no list of similarities such as 0.6,fr=0.681") from None
    return found if OTHERS in found else {**MAX_SIMILARITY, **found}
