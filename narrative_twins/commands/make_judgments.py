"""`narrative-twins make judgments`: votes for sentences of stories, by a language model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from narrative_twins.commands.request_options import (
    INPUT,
    GenerationOptions,
    RequestOptions,
    make_rows,
)
from narrative_twins.commands.signatures import Count, command
from narrative_twins.prompting.prompted import SAMPLES
from narrative_twins.stories.story import Story, Windows, parse_windows


@command(INPUT, extra="train")
def make_judgments(
    files: Sequence[str],
    generation: GenerationOptions,
    requests: RequestOptions,
    *,
    style: Literal["choose", "shares"] = "choose",
    samples: Count = SAMPLES,
    windows: Annotated[Windows, parse_windows] = "auto",
) -> int:
    """Have a language model vote for the most important sentences of stories, as rows for
    SalienceLoss to train on.

    Args:
        files ([FILE]...): the files of the stories.
        style: Ask --samples times for the most important sentence of a window, each answer a vote,
            or once for the shares of ten votes.
        samples (N): Votes for each window, for choose.
        windows (N): A count, sizes (7,7,6), or auto (default).
    """
    from narrative_twins.making.judgments import make_judgments

    parse = partial(Story.parse, windows=windows)
    votes: Any = {"style": style, "samples": samples, "windows": windows}
    votes["prompts"] = requests.prompts
    return make_rows(files, generation, requests, parse, make_judgments, **votes)
