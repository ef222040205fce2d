"""`narrative-twins annotate`: serves a page on which people choose sentences."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from narrative_twins.commands.files import check_rows_file
from narrative_twins.commands.messages import tell
from narrative_twins.commands.serving_options import Serving
from narrative_twins.commands.signatures import command
from narrative_twins.writing import JsonlLog


@command(extra="demo")
def annotate(files: Sequence[str], server: Serving, *, out: str) -> int:
    """Serve a web page until Ctrl-C on which people read stories, sum up each in fewer than 12
    words, and choose its most important sentence. Their answers are labels for `evaluate`. The same
    command resumes.

    Args:
        files (FILE...): the files of the stories.
        out (FILE): JSON Lines of answers.
    """
    check_rows_file(files, out)

    from narrative_twins.app.annotate import AnnotationPage, Answers
    from narrative_twins.books.story_files import read_story_files
    from narrative_twins.stories.story import Story, StoryError

    stories = []
    for name, content, problem, *_ in read_story_files(files):
        try:
            stories.append(Story.parse(StoryError(problem) if problem else content, windows=1))
        except StoryError as error:
            raise ValueError(f"{name}: {error.problem}") from None
    with JsonlLog(out) as log, suppress(KeyboardInterrupt):
        answers = Answers(stories, log, tell)
        server.serve(lambda: AnnotationPage(answers))
    return 0
