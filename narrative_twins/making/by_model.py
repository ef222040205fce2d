"""Rows by a language model: for each story it is asked, the answers are logged, and the row is
written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.generated import Report, describe_rows, facts_of, logger, public_name
from narrative_twins.prompting.chat import ATTEMPTS, Chat, Rejected, Server
from narrative_twins.writing import atomic_write, check_writable, digest

LICENCE = (
    "The licence of the stories also applies to what the model wrote, and the terms of the model"
    " may add restrictions."
)
"""A limit of all rows by a model."""
REJECT = ("step", "reason", "answer")
"""Columns that are added to a rejected story."""


@dataclass(frozen=True)
class Generated:
    """What a language model wrote.

    Attributes:
        rows: the rows, in the order of the stories.
        rejects: the rejected stories, with the step, the reason and the last answer.
        usage: the numbers of new answers and their tokens, as text.
    """

    rows: list[dict[str, Any]]
    rejects: list[dict[str, Any]]
    usage: str


def rows_by_model(
    stories: Sequence[Mapping[str, Any]],
    ask: Callable[[Chat, Mapping[str, Any]], Mapping[str, Any]],
    server: Server,
    out: str,
    facts: DatasetFacts,
    load: Callable[..., Any],
    attempts: int = ATTEMPTS,
    progress: bool = False,
    report: Report = logger.warning,
) -> Generated:
    """Ask a language model about each story, and write the rows.

    Every answer is logged at once in `OUT.answers`, so the same call resumes an interrupted run.
    `OUT` gets the rows, and `OUT.rejects` the rejected stories; neither is written if empty. The
    facts and the card of the rows are next to them, see `describe_rows`.

    Args:
        stories: the stories as rows.
        ask: asks about a story, and returns the new columns of its row.
        server: the language model.
        out: the JSON Lines file to write.
        facts: the facts of the rows, to whose description the numbers of rows are added.
        load: loads the rows, for their card.
        attempts: maximum number of attempts to get a valid answer to a question.
        progress: show a progress bar.
        report: is called with each problem.

    Raises:
        ServerError: the server can't be used.
        OSError, ValueError: a file can't be read or written; raised before the model is asked.
    """
    check_writable(out)
    facts_of(out)
    with Chat(server, f"{out}.answers", attempts) as chat:
        results = chat.ask_each(stories, lambda story: ask(chat, story), progress)
    generated = Generated([], [], chat.usage)
    for story, result in zip(stories, results, strict=True):
        if isinstance(result, Rejected):
            reject = {name: getattr(result, name) for name in REJECT}
            generated.rejects.append({**story, **reject})
        else:
            generated.rows.append({**story, **result})
    # All stories that an earlier run rejected may have a row now.
    Path(f"{out}.rejects").unlink(missing_ok=True)
    for path, rows in ((out, generated.rows), (f"{out}.rejects", generated.rejects)):
        if rows:
            with atomic_write(path) as file:
                file.write("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    if generated.rows:
        steps = Counter(reject["step"] for reject in generated.rejects).most_common()
        reasons = "; ".join(f"{count} at {step}" for step, count in steps)
        counts = (
            f"Of {len(stories):,} stories {len(generated.rows):,} have a row and"
            f" {len(generated.rejects):,} were rejected{f' ({reasons})' if reasons else ''}."
        )
        description = f"{facts.description} {counts}"
        describe_rows(out, replace(facts, description=description), load, report)
    return generated


def model_settings(server: Server, templates: Mapping[str, str], attempts: int) -> dict[str, Any]:
    """The settings that the answers of a language model depend on, for a card: prompts by digest,
    since the prompts of a user may be private."""
    fields = {"temperature": server.temperature, "seed": server.seed, **server.request}
    return {
        "language model": public_name(server.model),
        "fields of a request": {name: value for name, value in fields.items() if value is not None},
        "prompts": {name: digest(template)[:12] for name, template in templates.items()},
        "attempts": attempts,
    }
