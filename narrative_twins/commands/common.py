"""What several commands share: options, each declared once; messages and progress; checks of names
of files; and the log next to an output, which an interrupted run resumes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import click
from tqdm import tqdm

from narrative_twins.books.reading import BOOK_FORMATS, read_story_files
from narrative_twins.commands.signatures import Choices, Count, Group, Names, Option, Parsed
from narrative_twins.extras import user_module
from narrative_twins.prompting.chat import ATTEMPTS, Server
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.options import SCORING_OPTIONS, ScoringOptions
from narrative_twins.stories.reading import ROWS, Document
from narrative_twins.stories.sentences import Splitter, check_splitter
from narrative_twins.writing import STDIN, JsonlLog, for_terminal

if TYPE_CHECKING:
    from narrative_twins.encoder.story_encoder import StoryEncoder


FILES = (
    "A FILE is text, PDF, EPUB, Word or HTML (one story), JSON Lines (one per line), JSON, CSV,"
    " Parquet or a data set on the Hub (one per row), or a folder of these files; - or none is"
    " standard input."
)
INPUT_FORMATS = Choices(lambda: ["auto", *ROWS, *BOOK_FORMATS])


@dataclass(frozen=True)
class StoryFormat:
    """Options of how stories are read from files.

    Attributes:
        input_format: Format of the files (default: by their suffixes).
        column (NAME): Column or key of the stories in rows (default: text, story or a similar
            name).
        score_headings: Score headings as sentences (default: leave them out).
    """

    heading: ClassVar = "Stories"
    input_format: Annotated[str, INPUT_FORMATS] = "auto"
    column: str | None = None
    score_headings: bool = False

    def read(self, paths: Sequence[str]) -> Iterator[Document]:
        """Yield the stories in files and folders, see `read_story_files`."""
        return read_story_files(paths, self.input_format, column=self.column)

    def splitter(self, name: Splitter | None) -> Splitter | None:
        """Return the splitter for `Story.parse`: `name`, or to score headings, its function."""
        return check_splitter(name) if self.score_headings else name


@dataclass(frozen=True)
class EncoderOptions:
    """Options of the encoder to load, as for `StoryEncoder.from_pretrained`.

    Attributes:
        model (ENCODER): Folder or Hub id of the encoder (default: the default encoder, for
            English).
        revision (NAME): Branch, tag or commit of an encoder on the Hub.
        device (NAME): Device, such as cpu or cuda:0 (default: an accelerator, if any).
        dtype (NAME): Precision, such as float32 (default: the fastest that keeps ranks).
        pooling (NAME): mean, first, lasttoken or weightedmean (default: as in the checkpoint).
        prompt (TEXT): A text to read before every text (default: as in the checkpoint).
        prompt_name (NAME): A prompt of the checkpoint to read in place of its default.
        context_tokens (N): Tokens that are read at once (default: the encoder's maximum).
        batch_tokens (N): Tokens in a forward pass (default: by the device).
        attention (NAME): auto, packed or padded (default: auto).
    """

    heading: ClassVar = "Encoder"
    model: str | None = None
    revision: str | None = None
    device: str | None = None
    dtype: str = "auto"
    pooling: Annotated[str, Choices("encoder.loading", "POOLINGS")] | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    context_tokens: Count | None = None
    batch_tokens: Count | None = None
    attention: Annotated[str, Choices("encoder.loading", "ATTENTIONS")] = "auto"

    @property
    def loading(self) -> dict[str, Any]:
        """The keyword arguments for `StoryEncoder.from_pretrained`."""
        values = {name: value for name, value in asdict(self).items() if name != "model"}
        return {name: value for name, value in values.items() if value is not None}

    def load(self) -> StoryEncoder:
        """Load and return the encoder."""
        from narrative_twins.encoder.loading import no_progress_bars
        from narrative_twins.encoder.story_encoder import StoryEncoder

        with no_progress_bars():
            return StoryEncoder.from_pretrained(self.model, **self.loading)

    def settings(self, encoder: StoryEncoder, options: ScoringOptions) -> dict[str, Any]:
        """Return all that scores depend on, as JSON data. Only a run with equal data is resumed."""
        from narrative_twins.encoder.loading import encoder_settings

        return encoder_settings(self.model, encoder) | options.settings()


def _json_object(text: str) -> dict[str, Any]:
    """Parse a text as a JSON object; raise a `ValueError` if it is something else."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"{text!r} is not a JSON object")
    return value


@dataclass(frozen=True)
class RequestOptions:
    """Options of the requests to a language model, see `Server`.

    Attributes:
        key_variable (NAME): Environment variable of the API key, which is sent only to the server
            (default: OPENAI_API_KEY, if the server is OpenAI's or on this machine).
        temperature (T): For sampling.
        seed (N): For sampling (default: 0).
        concurrency (N): Requests at once.
        request (JSON): Further fields of each request; null removes a field. For example, for a
            reasoning model: '{"max_completion_tokens": 8000, "reasoning_effort": "low"}' (default:
            max_tokens 4000).
        prompts (FOLDER): Prompts that replace the package's.
        attempts (N): Answers to a question until it is rejected.
    """

    heading: ClassVar = "Requests to the language model"
    key_variable: str | None = None
    temperature: Annotated[float, click.FloatRange(min=0)] = Server.temperature
    seed: Annotated[int, click.IntRange(min=0)] = Server.seed
    concurrency: Count = Server.concurrency
    request: Annotated[dict[str, Any], _json_object] | None = None
    prompts: str | None = None
    attempts: Count = ATTEMPTS

    def server(self, url: str, model: str) -> Server:
        """Return the server at `url` for requests to `model` with these options."""
        settings = self.key_variable, self.temperature, self.seed, self.request or {}
        return Server(url, model, *settings, self.concurrency)


IMPORT = Option(
    ["--import", "imported"],
    type=Parsed(user_module),
    multiple=True,
    is_eager=True,
    metavar="MODULE",
    help="Import a module or a .py file, which registers operations; can be repeated.",
    heading="Options",
)


def _splitter(text: str) -> Any:
    """Return the function that `text` names as `MODULE:FUNCTION`, or `text`, a splitter's name."""
    module, colon, name = text.rpartition(":")
    function = getattr(user_module(module), name, None) if colon else None
    return function if callable(function) else text


def scoring_options(*names: str, **defaults: Any) -> Group:
    """Return the group of the scoring options `names`, by default of all but `on_error` and
    `progress`, which commands set. The group makes a dict of checked arguments of `ScoringOptions`.
    `defaults` replace defaults of `ScoringOptions`."""
    options: list[click.Parameter] = [IMPORT]
    for name in names or [name for name in SCORING_OPTIONS if name not in ("on_error", "progress")]:
        info = SCORING_OPTIONS[name]
        kind: Any = click.IntRange(min=1) if info.is_count else info.parse and Parsed(info.parse)
        if name == "operations":
            kind = Names(lambda: OPERATIONS)
        elif name == "splitter":
            kind = Parsed(_splitter)
        elif info.choices and not info.flags:
            kind = click.Choice(info.choices)
        settings: dict[str, Any] = {"type": kind, "heading": "Scoring"}
        settings["default"] = default = defaults.get(name, info.default)
        if info.flags:
            for flag, (value, text) in info.flags.items():
                text += " (default)" if value == str(default or "none") else ""
                options.append(Option([f"--{flag}", name], flag_value=value, help=text, **settings))
            continue
        flag = "split" if name == "splitter" else name.replace("_", "-")
        words = {"operations": "A,B", "splitter": "NAME"}
        settings["metavar"] = None if info.choices else words.get(name, "N")
        settings["show_default"] = bool(default) and "default" not in info.help
        options.append(Option([f"--{flag}", name], help=info.help, **settings))

    def checked(imported: Any, **values: Any) -> dict[str, Any]:
        """Check the values of the options, and return them; the text `none` becomes None."""
        values = {name: None if value == "none" else value for name, value in values.items()}
        ScoringOptions(**values)
        return values

    return Group(checked, options)


def percentage(text: str) -> float:
    """Parse a share above 0 and up to 1, written as `0.1` or `10%`."""
    number = text.removesuffix("%")
    try:
        value = float(number) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ValueError(f"{text!r} is not a share of the sentences, such as 10% or 0.1")
    return value


def shows_progress(quiet: bool) -> bool:
    """Return whether to show a progress bar: standard error is a terminal, and not `quiet`."""
    return sys.stderr.isatty() and not quiet


def watch(quiet: bool, factor: float = 1.0) -> Any:
    """Return a value for the option `progress` of scoring: False if `quiet`, else a `Watch`, which
    shows a bar in a terminal and tells the user if exact scoring takes long. `factor` multiplies
    its estimates: 10.0 if the progress counts one of ten shards."""
    from narrative_twins.salience.progress import Watch, format_duration

    def advise(exact: float, one_pass: float) -> None:
        """Tell the user estimates in seconds: for exact scoring, and for one pass."""
        tell(
            f"exact scores take about {format_duration(exact * factor)}; --fast takes about"
            f" {format_duration(one_pass * factor)}"
        )

    return not quiet and Watch(shows_progress(quiet), advise)


def tell(message: object) -> None:
    """Print a line for the user to standard error, without breaking a progress bar."""
    tqdm.write(for_terminal(f"narrative-twins: {message}"), file=sys.stderr)


def plural(number: int, singular: str, plural: str) -> str:
    """Return a number with its noun in the right form, such as `2 stories`."""
    return f"{number:,} {singular if number == 1 else plural}"


@contextmanager
def on_interrupt(hint: str) -> Iterator[None]:
    """Add `hint`, on how to continue, to the message after Ctrl-C within the `with` block."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(hint) from None


def is_complete(out: str, resume: bool) -> bool:
    """Return whether a run to resume has completed the output `out`; if so, tell the user."""
    if is_done := resume and os.path.exists(out) and not os.path.exists(f"{out}.part"):
        tell(f"{out} is complete; to score again, leave out --resume")
    return is_done


def write_resumable(
    out: str,
    resume: bool,
    settings: Mapping[str, Any],
    rows: Callable[[JsonlLog], Iterable[Mapping[str, Any]]],
) -> None:
    """Write JSON Lines to a log next to the output. The log becomes the output when it is complete.

    Args:
        out: the name of the output file.
        resume: whether to continue a log that an interrupted run left.
        settings: all that the rows depend on, as JSON data.
        rows: makes, from the log, the rows that come after the rows in the log.
    """
    log = JsonlLog(f"{out}.part", settings, resume)
    with on_interrupt(f"results so far are in {log.path}; continue with --resume"), log:
        for row in rows(log):
            log.append(row)
    log.complete(out)


def check_input(files: Sequence[str]) -> None:
    """Raise a `UsageError` if `files` is empty and standard input, read instead, is a terminal."""
    if not files and sys.stdin.isatty():
        raise click.UsageError("name a file, or - for standard input")


def check_output(files: Iterable[str], out: str) -> None:
    """Raise a `UsageError` if `out`, a file or folder, is, contains or is within one of `files`."""
    if out == STDIN:
        return
    path = os.path.realpath(out)
    for file in files:
        source = os.path.realpath(file)
        if source == path or source.startswith(os.path.join(path, "")):
            raise click.UsageError(f"{file} is read, and would be overwritten by --out {out}")
        if os.path.isdir(source) and path.startswith(os.path.join(source, "")):
            raise click.UsageError(f"--out {out} is in {file}, which is read")


def check_rows_file(files: Iterable[str], out: str) -> None:
    """Raise a `UsageError` if `out` is not a `.jsonl` or `.ndjson` file, or is one of `files`."""
    if not out.endswith((".jsonl", ".ndjson")):
        raise click.UsageError(
            f"--out {out}: name a file that ends in .jsonl, from which the rows can be loaded"
        )
    check_output(files, out)


def output_format(out: str, name: str | None, by_suffix: Mapping[str, str]) -> str:
    """Return the format of the output `out`: `name`; if None, the format in `by_suffix` for the
    suffix of `out`, or `text` without a suffix. Raises a `UsageError` for an unknown suffix."""
    suffix = os.path.splitext(out)[1].lower()
    if name is not None or out == STDIN or not suffix:
        return name or "text"
    if suffix not in by_suffix:
        raise click.UsageError(
            f"--out {out}: {suffix} is not the suffix of a format; use one of"
            f" {', '.join(by_suffix)}, or name the format with --format"
        )
    return by_suffix[suffix]
