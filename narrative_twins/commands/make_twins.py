"""`narrative-twins make twins`: narrative twins and distractors, by a language model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import click

from narrative_twins.commands.request_options import (
    INPUT,
    GenerationOptions,
    RequestOptions,
    make_rows,
)
from narrative_twins.commands.signatures import Choices, Names, command

_COLUMNS = ("twin", "negative", "negative_twin")


@command(INPUT, extra="train")
def make_twins(
    files: Sequence[str],
    generation: GenerationOptions,
    requests: RequestOptions,
    *,
    recipe: Annotated[str, Choices("making.twins", "RECIPES")] = "stories",
    columns: Annotated[Sequence[str], Names("making.twins", "COLUMNS")] = _COLUMNS,
    twin_overlap: Annotated[float, click.FloatRange(0, 1)] = 0.7,
    distractor_overlap: Annotated[float, click.FloatRange(0, 1)] = 0.5,
) -> int:
    """Have a language model write narrative twins and distractors of stories, as rows to train on.

    Args:
        files ([FILE]...): the files of the stories.
        recipe (NAME): Twins and distractors of short stories, or of synopses in five sections
            (synopses).
        columns (A,B): Texts to make (default: twin,negative,negative_twin).
        twin_overlap (X): Most word overlap with the story.
        distractor_overlap (X): Least word overlap with the story.
    """
    from narrative_twins.making.twins import TwinOptions, make_twins, source_row

    twins = TwinOptions(recipe, columns, twin_overlap, distractor_overlap, requests.prompts)
    parse = partial(source_row, options=twins)
    return make_rows(files, generation, requests, parse, make_twins, options=twins)
