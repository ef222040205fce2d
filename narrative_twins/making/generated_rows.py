"""Files of generated rows, each with a file of facts about them (`twins.facts.yaml` for
`twins.jsonl`), from which `push_dataset` makes their card; and rows by a language model."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from narrative_twins.hub.facts import DatasetFacts, facts_text, read_facts
from narrative_twins.prompting.chat import Chat, Rejected, Server
from narrative_twins.writing import atomic_write, check_writable, digest

Columns: TypeAlias = dict[str, Any]
"""A row by its columns."""

FACTS = ".facts.yaml"
"""The suffix of the file of facts, in place of the suffix of the data file."""
LICENCE = (
    "The licence of the stories also applies to what the model wrote, and the terms of the model"
    " may add restrictions."
)
"""A sentence for the `limits` in the facts of all rows by a language model."""
REJECT = ("step", "reason", "answer")
"""The columns of a rejected story: the question, the reason and the last answer."""


def facts_of(data: str) -> DatasetFacts | None:
    """Return the facts of a data file from the file next to it, see `FACTS`; None if there is none.
    Raise ValueError if the facts can't be read."""
    path = Path(data).with_suffix(FACTS)
    return read_facts(DatasetFacts, path) if path.exists() else None


def write_rows(path: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows to the file `path`, as JSON Lines."""
    with atomic_write(path) as file:
        file.write("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def write_facts(out: str, facts: DatasetFacts) -> None:
    """Write the facts of the data file `out`, for `read_facts` and `push_dataset`. If it has facts
    already, which a user may have edited, only their description, source and language are replaced.
    Raises ValueError if these facts can't be read."""
    if earlier := facts_of(out):
        now = {name: getattr(facts, name) for name in ("description", "source", "language")}
        facts = replace(earlier, **now)
    with atomic_write(Path(out).with_suffix(FACTS)) as file:
        file.write(facts_text(facts))


def recipe_text(command: str, settings: Mapping[str, object]) -> str:
    """Return a command and its settings as Markdown, without settings that are None or empty."""
    lines = [
        f"- {name}: {_as_text(value)}"
        for name, value in settings.items()
        if value not in (None, [], {})
    ]
    version = metadata.version("narrative_twins")
    return "\n".join([f"Made by `{command}` (narrative_twins {version}):", "", *lines])


def _as_text(value: object) -> str:
    """Return a setting as a text: `{"a": [1, 2], "b": 3}` → `"a 1, 2, b 3"`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_as_text(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_as_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def public_name(source: str) -> str:
    """Return the name of a model or file for publication: the last part of a local path, any other
    name unchanged."""
    return Path(source).resolve().name if os.path.exists(source) else source


class Generated(NamedTuple):
    """What a language model wrote: `rows` in the order of the stories; `rejects`, the rejected
    stories with the columns `REJECT`; and `usage`, a text on new answers and tokens."""

    rows: list[Columns]
    rejects: list[Columns]
    usage: str


def rows_by_model(
    stories: Sequence[Columns],
    ask: Callable[[Chat, Columns], Columns],
    server: Server,
    out: str,
    facts: DatasetFacts,
    attempts: int,
    progress: bool,
) -> Generated:
    """Make a row of each story by asking a language model, and write the rows. Every answer is
    logged at once in `OUT.answers`, so the same call resumes an interrupted run. `OUT` gets the
    rows, and `OUT.rejects` the rejected stories; neither is written if empty. The facts are next to
    `OUT`.

    Args:
        stories: the stories as rows.
        ask: asks about a story, and returns the new columns of its row; may raise `Rejected`.
        server: the language model.
        out: the JSON Lines file to write.
        facts: the facts of the rows; the numbers of rows are added to their description.
        attempts: maximum number of attempts to get a valid answer to a question.
        progress: show a progress bar.

    Raises:
        ServerError: the server can't be used.
        OSError, ValueError: a file can't be read or written; raised before the model is asked.
    """
    check_writable(out)
    facts_of(out)
    with Chat(server, f"{out}.answers", attempts) as chat:
        results = chat.ask_each(stories, lambda story: ask(chat, story), progress)
    made = Generated([], [], chat.usage)
    for story, result in zip(stories, results, strict=True):
        if isinstance(result, Rejected):
            made.rejects.append(story | {name: getattr(result, name) for name in REJECT})
        else:
            made.rows.append(story | result)
    # All stories that an earlier run rejected may have a row now.
    Path(f"{out}.rejects").unlink(missing_ok=True)
    if made.rejects:
        write_rows(f"{out}.rejects", made.rejects)
    if made.rows:
        write_rows(out, made.rows)
        steps = Counter(reject["step"] for reject in made.rejects).most_common()
        reasons = "; ".join(f"{count} at {step}" for step, count in steps)
        counts = (
            f"Of {len(stories):,} stories {len(made.rows):,} have a row and"
            f" {len(made.rejects):,} were rejected{f' ({reasons})' if reasons else ''}."
        )
        write_facts(out, replace(facts, description=f"{facts.description} {counts}"))
    return made


def model_settings(server: Server, templates: Mapping[str, str], attempts: int) -> Columns:
    """Return the settings that answers depend on, by name, for a card. Prompts are shown as
    digests, since a user's prompts may be private."""
    fields = {"temperature": server.temperature, "seed": server.seed, **server.request}
    return {
        "language model": public_name(server.model),
        "fields of a request": {name: value for name, value in fields.items() if value is not None},
        "prompts": {name: digest(template)[:12] for name, template in templates.items()},
        "attempts": attempts,
    }
