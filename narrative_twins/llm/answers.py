"""What a language model has answered, on disk before the next is asked: an answer that was paid for is never lost."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from narrative_twins.files import AtomicFile, complete_lines

_ENDS = ("stop", "eos", "eos_token", "end_turn", "stop_sequence")


@dataclass(frozen=True)
class Answer:
    """An answer of a language model.

    Attributes:
        key: what was asked, as a digest of all that the answer depends on.
        story, step, attempt: what it was asked for: the digest of a story, the step of a recipe, and the how-manieth
            time.
        model: its name, as the server has it.
        text: the answer.
        finish_reason: why it ends; `"length"` is one that was cut off.
        max_tokens: where it would have been cut off.
        prompt_tokens, completion_tokens: what was paid for; by characters, where the server does not say.
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
    def cut(self) -> bool:
        """Whether it was cut off."""
        return self.finish_reason == "length"

    @property
    def ended(self) -> bool:
        """Whether it ends where the model meant it to, as far as is known."""
        return self.finish_reason in _ENDS


class Answers:
    """The answers in a file of JSON Lines, by their key; within `with` further ones are added to it.

    A run that was broken off, by whatever, left all of its answers there. While it lasts the file is `NAME.part`.

    Args:
        path: the file; it need not exist.

    Raises:
        ValueError: a line of the file is no answer.
        OSError: no file can be written there, or another run is writing it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._file = AtomicFile(self.path, keep=True, resume=True, sync=True)
        self._found: dict[str, Answer] = {}
        self._read()

    def __enter__(self) -> Answers:
        self._file.__enter__()
        # Between the reading and the lock another run may have added some.
        self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.__exit__(kind, error, trace)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: str, max_tokens: int) -> Answer | None:
        """The answer to what was asked, unless it was cut off and could now be longer."""
        answer = self._found.get(key)
        return None if answer is None or (answer.cut and answer.max_tokens < max_tokens) else answer

    def add(self, answer: Answer) -> None:
        """Keep an answer; it is on disk when this returns."""
        self._file.write(json.dumps(asdict(answer), ensure_ascii=False) + "\n")
        self._found[answer.key] = answer

    def _read(self) -> None:
        for number, line in enumerate(complete_lines(self.path), start=1):
            try:
                answer = Answer(**json.loads(line))
            except (ValueError, TypeError):
                raise ValueError(
                    f"{self.path}: its line {number} is no answer of a language model; take the line out, or name "
                    "another file"
                ) from None
            self._found[answer.key] = answer


def digest(content: Any) -> str:
    """A short name for plain data: the same for equal data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def seed_of(*parts: Any) -> int:
    """A seed that depends on all of these, from 0 to 2³¹ − 1."""
    return int(digest(parts)[:8], 16) & 0x7FFFFFFF
