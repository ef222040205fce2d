"""Stories with human labels, which are left out of the training stories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from narrative_twins.data.records import read_records
from narrative_twins.data.rows import check_sentences, require_column


class HeldOutStories:
    """The ids and texts of stories with human labels.

    Args:
        files: data files with rows of `story` (or `sentences`). Raises RowError as `read_records`,
            and for a row without a story.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self.ids: set[str] = set()
        self.id_of_text: dict[str, str] = {}
        for record in (record for file in files for record in read_records(file)):
            story = check_sentences(
                require_column(record.row, record.where, "story", "sentences"),
                "story",
                record.where,
            )
            self.ids.add(record.id)
            self.id_of_text[_normalized(story)] = record.id

    def match(self, id: str, story: Sequence[str]) -> str | None:
        """The id of the story that has this id, or else this text; None if there is none."""
        return id if id in self.ids else self.id_of_text.get(_normalized(story))


def _normalized(story: Sequence[str]) -> str:
    """The text in one case, with single spaces."""
    return " ".join(" ".join(story).split()).casefold()
