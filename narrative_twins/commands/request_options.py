"""Options of requests to a language model, and the run of a command that makes rows by them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import click

from narrative_twins.books.story_files import read_story_files
from narrative_twins.commands.files import check_input, check_output, check_rows_file
from narrative_twins.commands.messages import on_interrupt, shows_progress, tell
from narrative_twins.commands.signatures import Count
from narrative_twins.commands.story_options import FILES, INPUT_FORMATS
from narrative_twins.prompting.chat import ATTEMPTS, Server, ServerError
from narrative_twins.stories.story import StoryError
from narrative_twins.text import counted
from narrative_twins.writing import STDIN

if TYPE_CHECKING:
    from narrative_twins.making.generated_rows import Generated


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


_SHOWN_REASONS = 5
"""The number of reasons for rejecting stories that are shown."""


INPUT = f"{FILES} The same command resumes an interrupted run."


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """Options of the commands that ask a language model about stories.

    Attributes:
        server (URL): OpenAI-compatible server, for example http://localhost:8000/v1.
        model (NAME): Language model on the server.
        out (FILE): Write the rows to this JSON Lines file.
        input_format: Format of the files (default: by their suffixes).
        language: Language of the stories, for the data card.
        quiet: Show no progress and no estimate.
    """

    server: str
    model: str
    out: str
    input_format: Annotated[str, INPUT_FORMATS] = "auto"
    language: str = "en"
    quiet: bool = False


def make_rows(
    files: Sequence[str],
    generation: GenerationOptions,
    requests: RequestOptions,
    parse: Callable[[Any], Any],
    make: Callable[..., Generated],
    **options: Any,
) -> int:
    """Read stories, ask a language model about them, write the rows and tell what was rejected.
    `parse` turns the content of a story into a source for `make`, or raises a `StoryError` or
    `RowError`; `make` gets all sources and `options`, asks the model and writes. Returns the exit
    code: 1 if a story could not be read or was rejected, else 0."""
    from narrative_twins.data.rows import RowError

    check_input(files)
    check_rows_file(files, generation.out)
    # The file of rejected stories is overwritten too.
    check_output(files, f"{generation.out}.rejects")
    sources, problems = [], 0
    for name, content, problem, *_ in read_story_files(files or [STDIN], generation.input_format):
        try:
            sources.append(parse(StoryError(problem) if problem else content))
        except (StoryError, RowError) as error:
            problems += 1
            tell(f"{name}: {error.problem}")
    if not sources:
        tell("there is no story in the input")
        return 1
    options |= {"language": generation.language, "attempts": requests.attempts}
    options |= {"progress": shows_progress(generation.quiet)}
    server = requests.server(generation.server, generation.model)
    hint = f"the answers so far are in {generation.out}.answers; resume with the same command"
    try:
        with on_interrupt(hint):
            generated = make(sources, server, generation.out, **options)
    except ServerError as error:
        raise ServerError(f"{error}; {hint}") from None
    rejected = counted(len(generated.rejects), "story", "stories")
    written = counted(len(generated.rows), "row")
    tell(f"{generation.out}: {written}; {rejected} rejected; {generated.usage}")
    reasons = Counter(f"{reject['step']}: {reject['reason']}" for reject in generated.rejects)
    for reason, number in reasons.most_common(_SHOWN_REASONS):
        tell(f"{number:,} × {reason}")
    if generated.rejects:
        tell(f"the rejected stories are in {generation.out}.rejects")
    return 1 if problems or generated.rejects else 0
