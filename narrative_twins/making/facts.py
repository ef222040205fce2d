"""What is said of rows that were made: the recipe and the counts, in a card and in a file of facts beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from narrative_twins.cards import DatasetFacts, facts_text, read_facts
from narrative_twins.files import WholeFile


def facts_path(data: str) -> Path:
    """The file of facts of a data file: `twins.facts.yaml` of `twins.jsonl`."""
    return Path(data).with_suffix(".facts.yaml")


def card_path(data: str) -> Path:
    """The card of a data file: `twins.card.md` of `twins.jsonl`."""
    return Path(data).with_suffix(".card.md")


def write_facts(data: str, facts: DatasetFacts) -> None:
    """Write facts beside a data file, as `read_facts` reads them; `push_dataset` takes these."""
    with WholeFile(str(facts_path(data))) as file:
        file.write(facts_text(facts))


def write_card(data: str, card: str) -> None:
    """Write a card beside a data file."""
    with WholeFile(str(card_path(data))) as file:
        file.write(card)


def in_list(made_by: str, settings: Mapping[str, object]) -> str:
    """A recipe in Markdown."""
    return "\n".join([f"Made by {made_by}:", "", *(f"- {name}: {value}" for name, value in settings.items())])


def check_recipe(data: str, recipe: str) -> None:
    """Refuse to go on with a data file that was begun by another recipe.

    Raises:
        ValueError: names the first setting that differs, or says that there are no facts to know the recipe by.
    """
    path = facts_path(data)
    if not path.exists():
        raise ValueError(f"can't resume {data}: {path} is not there, which says how it was begun; start anew")
    begun = read_facts(DatasetFacts, path).source.splitlines()
    asked = recipe.splitlines()
    if begun != asked:
        lines = (line for line in begun if line not in asked)
        raise ValueError(
            f"can't resume {data}: it was begun with other options ({next(lines, 'fewer of them')}); go on with the "
            "same options, or write to another file"
        )
