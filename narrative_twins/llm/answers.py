"""Answers of a language model, saved on disk as soon as they arrive, so that paid answers are not
lost."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from narrative_twins.files import ResumableFile, complete_lines


@dataclass(frozen=True)
class Answer:
    """An answer of a language model.

    Attributes:
        key: a digest of everything that the answer depends on, see `Server.key_of`.
        story, step, attempt: see `Question`.
        model: the name of the model, as the server reports it.
        text: the answer.
        finish_reason: why generation stopped; `"length"` if the answer was cut off.
        max_tokens: the limit of its length.
        prompt_tokens, completion_tokens: numbers of tokens; estimated if the server does not report
            them.
    """

    key: str
    story: str
    step: str
    attempt: int
    model: str
    text: str
    finish_reason: str
    max_tokens: int
    prompt_tokens: int
    completion_tokens: int

    @property
    def is_truncated(self) -> bool:
        """Whether the answer was cut off at the token limit."""
        return self.finish_reason == "length"


class Answers:
    """Saved answers by key, in a JSON Lines file; within `with`, new answers are appended to it.

    During a run the file is `NAME.part`; an interrupted run leaves all of its answers in it.

    Args:
        path: the file; it need not exist. A symbolic link is refused.

    Raises:
        ValueError: a line of the file is not an answer.
        OSError: the file can't be written, or another run is writing it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._file = ResumableFile(self.path, resume=True, sync=True, follow=False)
        self._found: dict[str, Answer] = {}
        self._read()

    def __enter__(self) -> Answers:
        self._file.__enter__()
        # Another run may have added answers since the file was read; now it is locked.
        self._read()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._file.__exit__(*problem)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: str, max_tokens: int) -> Answer | None:
        """The saved answer, unless it was cut off and `max_tokens` now allows a longer one."""
        answer = self._found.get(key)
        if answer is not None and answer.is_truncated and answer.max_tokens < max_tokens:
            return None
        return answer

    def add(self, answer: Answer) -> None:
        """Save an answer; it is on disk when this returns."""
        self._file.write_row(asdict(answer))
        self._found[answer.key] = answer

    def _read(self) -> None:
        for number, line in enumerate(complete_lines(self.path), start=1):
            try:
                answer = Answer(**json.loads(line))
            except (ValueError, TypeError):
                raise ValueError(
                    f"{self.path}: line {number} is not an answer; remove it or use another file"
                ) from None
            self._found[answer.key] = answer
