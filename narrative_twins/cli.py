"""`narrative-twins`: the command-line door to the engine."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from typing import Any

from rich.console import Console
from tqdm.auto import tqdm
from transformers.utils import logging as transformers_logging

from narrative_twins.encoder import StoryEncoder
from narrative_twins.files import STDIN, WholeFile, count_stories, read_stories, whole_lines
from narrative_twins.formats import FORMATS, pieces
from narrative_twins.operations import OPERATIONS, Operation, resolve_operations
from narrative_twins.result import StorySalience
from narrative_twins.salience import score_stories
from narrative_twins.story import Story, StoryError, Windows

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code: 0, 1 if a story could not be scored, 130 after Ctrl-C (wrong calls exit
    with 2)."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.files and sys.stdin.isatty():
        parser.error("name a file, or - for standard input")
    if options.resume and (options.format != "jsonl" or options.out == STDIN):
        parser.error("--resume goes with --format jsonl and --out FILE")
    if options.out != STDIN and any(os.path.realpath(file) == os.path.realpath(options.out) for file in options.files):
        parser.error(f"--out {options.out} is also read; write to another file")
    try:
        options.operations = resolve_operations(
            options.operations, one_pass=options.approximate is not None, max_shifts=options.max_shifts
        )
        return _score(options)
    except KeyboardInterrupt:
        kept = _resumable(options) and os.path.exists(f"{options.out}.part")
        hint = f"; what is done is in {options.out}.part, go on with --resume" if kept else ""
        print(f"narrative-twins: interrupted{hint}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe has had enough; what is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError, ImportError) as error:
        print(f"narrative-twins: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="narrative-twins", description="Which sentences of a story carry it.")
    parser.add_argument("--version", action="version", version=metadata.version("narrative_twins"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    score = commands.add_parser(
        "score",
        help="score every sentence of stories",
        description="Score every sentence of stories. Reads standard input if no file is named, or where one is '-'.",
    )
    add = score.add_argument
    add(
        "files",
        nargs="*",
        metavar="FILE",
        help="text (one story), JSON Lines (a story a line) or JSON; - for standard input",
    )
    add("-f", "--format", choices=FORMATS, default="text", help="of the output (default: text)")
    add(
        "-o", "--out", default=STDIN, metavar="FILE", help="write there, whole or not at all (default: standard output)"
    )
    add(
        "--operations",
        type=_operations,
        metavar="A,B",
        help=f"of {','.join(OPERATIONS)} (default: all)",
    )
    add(
        "--approximate",
        choices=("one-pass",),
        help="all operations but shifting from one forward pass over a story; see the README for what that costs",
    )
    add("--max-shifts", type=_count, metavar="N", help="shifting to no more than the N nearest places")
    add("--windows", type=_windows, default="auto", metavar="N", help="a count, sizes as 7,7,6, or auto (default)")
    add("--model", help="folder or Hub id of the encoder (default: the default encoder)")
    add("--top", type=_count, metavar="K", help="only the K most salient sentences; json and jsonl name them as 'top'")
    add(
        "--input-format",
        choices=("auto", "text", "jsonl", "json"),
        default="auto",
        help="default: by the file's suffix",
    )
    add("--resume", action="store_true", help="go on where an interrupted --format jsonl --out FILE stopped")
    add(
        "--context-tokens",
        type=_count,
        metavar="N",
        help="read at most so many tokens at once (default: the encoder's limit)",
    )
    add("--batch-size", type=_count, default=32, metavar="N", help="stories held at once (default: 32)")
    add("--device", help="such as cpu or cuda:0 (default: an accelerator if there is one)")
    add("--dtype", default="auto", help="precision, such as float32 (default: the fastest that keeps ranks)")
    add("--on-truncation", choices=("warn", "error", "ignore"), default="warn", help="what to do where a story is cut")
    add("-q", "--quiet", action="store_true", help="no progress bar")
    return parser


def _score(options: argparse.Namespace) -> int:
    """Read, score, write. Stories that can't be scored are reported and passed over."""
    transformers_logging.disable_progress_bar()
    out = WholeFile(options.out, keep=_resumable(options), resume=options.resume)
    encoder = StoryEncoder.from_pretrained(
        options.model, device=options.device, dtype=options.dtype, context_tokens=options.context_tokens
    )
    stories = _Stories(options, _done(options, encoder.context_tokens) if options.resume else Counter())
    results = score_stories(
        stories,
        encoder,
        operations=options.operations,
        approximate=options.approximate,
        max_shifts=options.max_shifts,
        buffer=options.batch_size,
        on_error=stories.report,
        on_truncation=options.on_truncation,
        progress=sys.stderr.isatty() and not options.quiet,
    )
    # A terminal gets colours and its own width.
    console = Console() if options.out == STDIN and sys.stdout.isatty() else Console(file=io.StringIO(), width=120)
    with out:
        for piece in pieces(stories.checked_off(results), options.format, options.operations, options.top, console):
            out.write(piece)
    if not stories.found:
        print("narrative-twins: there is no story in the input", file=sys.stderr)
    return 1 if stories.problems else 0


class _Stories:
    """The stories of the files named, less those done before; one that can't be read keeps its place as an error."""

    def __init__(self, options: argparse.Namespace, done: Counter[Any]) -> None:
        self.paths: list[str] = options.files or [STDIN]
        self.form, self.windows, self.done = options.input_format, options.windows, done
        self.begun: dict[Any, set[Any]] = defaultdict(set)
        for *text, windows in done:
            self.begun[tuple(text)].add(windows)
        self.found = self.problems = 0
        self.names: dict[int, str] = {}

    def __length_hint__(self) -> int:
        return max(0, count_stories(self.paths, self.form) - self.done.total())

    def __iter__(self) -> Iterator[Story | StoryError]:
        count = 0
        for name, content, problem in read_stories(self.paths, self.form):
            self.found += 1
            try:
                story: Story | StoryError = Story.parse(StoryError(problem) if problem else content, self.windows)
            except StoryError as error:
                story = error
            if isinstance(story, Story) and self._is_done(*_key(story.id, story.sentences, story.windows)):
                continue
            self.names[count] = name
            count += 1
            yield story

    def _is_done(self, name: Any, sentences: Any, windows: Any) -> bool:
        """Whether a story was scored before; as often as it was, since the same story may stand there twice."""
        if windows not in self.begun.get((name, sentences), {windows}):
            raise ValueError("can't resume: it was begun with other windows; go on with the same options")
        key = name, sentences, windows
        if not self.done[key]:
            return False
        self.done[key] -= 1
        return True

    def report(self, error: StoryError) -> None:
        """Tell of a story that can't be scored."""
        self.problems += 1
        name = self.names.pop(error.index or 0)
        tqdm.write(f"narrative-twins: {name}: {error.problem}", file=sys.stderr)

    def checked_off(self, results: Iterable[StorySalience]) -> Iterator[StorySalience]:
        """The results, each one's name forgotten as it passes."""
        for result in results:
            self.names.pop(result.index)
            yield result


def _resumable(options: argparse.Namespace) -> bool:
    return bool(options.format == "jsonl" and options.out != STDIN)


def _done(options: argparse.Namespace, context_tokens: int) -> Counter[Any]:
    """The stories an interrupted run has scored, and how often.

    Raises:
        ValueError: the file is not of such a run, or of one with other options.
    """
    done: Counter[Any] = Counter()
    asked = {
        "operations": [operation.name for operation in options.operations],
        "context tokens": context_tokens,
        "--approximate": options.approximate or (options.max_shifts and f"max_shifts={options.max_shifts}"),
        "--top": options.top is not None,
    }
    for number, line in enumerate(whole_lines(options.out), start=1):
        try:
            row = json.loads(line)
            begun = {
                "operations": list(row["scores"]),
                "context tokens": row["context_tokens"],
                "--approximate": row.get("approximate"),
                "--top": "top" in row,
            }
            done[_key(row.get("id"), row["sentences"], row["windows"])] += 1
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"can't resume {options.out}: its line {number} is no result of this command") from None
        for what, value in asked.items():
            if begun[what] != value:
                raise ValueError(
                    f"can't resume {options.out}: it was begun with {what} {begun[what]}, not {value}; go on with the "
                    "same options, or write to another file"
                )
    return done


def _key(name: Any, sentences: Sequence[str], windows: Sequence[Sequence[int]]) -> tuple[Any, Any, Any]:
    """What tells a scored story from the others."""
    return name, tuple(sentences), tuple(map(tuple, windows))


def _operations(text: str) -> list[Operation]:
    try:
        return resolve_operations([name.strip() for name in text.split(",")])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _windows(text: str) -> Windows:
    if text == "auto":
        return "auto"
    try:
        sizes = [int(size) for size in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither auto, a count such as 5, nor sizes such as 7,7,6"
        ) from None
    return sizes[0] if len(sizes) == 1 else sizes


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count of 1 or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
