"""Answers of a language model, saved on disk as soon as they arrive, so that paid answers are not
lost."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from narrative_twins.files import AtomicFile, complete_lines

_COMPLETE = ("stop", "eos", "eos_token", "end_turn", "stop_sequence")


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

    @property
    def is_complete(self) -> bool:
        """Whether the finish reason is known to mean that the answer is complete."""
        return self.finish_reason in _COMPLETE


class Answers:
    """Saved answers by key, in a JSON Lines file; within `with`, new answers are appended to it.

    During a run the file is `NAME.part`; an interrupted run leaves all of its answers in it.

    Args:
        path: the file; it need not exist.

    Raises:
        ValueError: a line of the file is not an answer.
        OSError: the file can't be written, or another run is writing it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._file = AtomicFile(self.path, keep=True, resume=True, sync=True)
        self._found: dict[str, Answer] = {}
        self._read()

    def __enter__(self) -> Answers:
        self._file.__enter__()
        # Another run may have added answers since the file was read; now it is locked.
        self._read()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.__exit__(kind, error, trace)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: str, max_tokens: int) -> Answer | None:
        """The saved answer, unless it was cut off and `max_tokens` now allows a longer one."""
        answer = self._found.get(key)
        return (
            None
            if answer is None or (answer.is_truncated and answer.max_tokens < max_tokens)
            else answer
        )

    def add(self, answer: Answer) -> None:
        """Save an answer; it is on disk when this returns."""
        self._file.write(json.dumps(asdict(answer), ensure_ascii=False) + "\n")
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


def digest(content: Any) -> str:
    """A short hash of JSON data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def seed_of(*parts: Any) -> int:
    """A seed from 0 to 2³¹ − 1 that is a hash of all arguments."""
    return int(digest(parts)[:8], 16) & 0x7FFFFFFF
