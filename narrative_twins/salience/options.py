"""The options of scoring. Functions, commands and the web page take their types, defaults and help
from this one declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

from narrative_twins.salience.operations import SIMILARITIES, resolve_operations
from narrative_twins.stories.sentences import Splitter, check_splitter
from narrative_twins.stories.story import StoryError, Windows, parse_windows

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[StoryError], None]
OnTruncation: TypeAlias = Literal["warn", "error", "ignore"]


@dataclass(frozen=True)
class OptionInfo:
    """Facts about an option of scoring, apart from its type.

    Attributes:
        default: the value of the option if it is not set.
        help: one line for users of commands and of the page.
        choices: the texts that can be the value; empty if the option is not a choice.
        is_count: whether the value is a whole number of at least 1.
        function: which function can be the value, in words; empty for none.
        parse: makes the value of text that a user typed; None if the value is the text.
        flags: the flags of commands for the option, each with its value (`none` for None) and help.
        affects_scores: whether scores depend on the option.
    """

    default: Any
    help: str
    choices: tuple[str, ...] = ()
    is_count: bool = False
    function: str = ""
    parse: Callable[[str], Any] | None = None
    flags: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    affects_scores: bool = True

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError unless `value` is a valid choice, count or function. Options that are
        none of these are not checked. `name` is the option's name, for the message."""
        valid = [repr(choice) for choice in self.choices]
        is_valid = isinstance(value, str) and value in self.choices
        if self.is_count:
            valid.append("a whole number of at least 1")
            is_valid = type(value) is int and value >= 1
        if self.function:
            valid.append(self.function)
            is_valid |= callable(value)
        if self.default is None:
            valid.append("None")
            is_valid |= value is None
        if not is_valid and (self.choices or self.is_count):
            raise ValueError(f"{name}={value!r:.60}: choose {' or '.join(valid)}")


def _option(default: Any, help: str, **info: Any) -> Any:
    """Return a dataclass field with an `OptionInfo` of these values as its metadata."""
    return field(default=default, metadata={"info": OptionInfo(default, help, **info)})


@dataclass(frozen=True)
class ScoringOptions:
    """The options of scoring, checked when they are made: once, where a call or a command begins.

    Attributes:
        operations: one or several names or `Operation` instances; default all registered operations
            that support the approximation. Once checked, a list of instances.
        approximate: `"one-pass"` computes the operations from the token states of one forward pass
            per story, at a fraction of the cost. None is exact. The default is None for stories,
            and `"one-pass"` for books and corpora (`FAST`).
        similarity: the similarity of texts by their vectors: `"cosine"`, `"dot"` or the negative
            distance `"euclidean"`. The one that a checkpoint was trained for is not looked up.
        splitter: how raw text is split into sentences, see `Story.parse`.
        windows: windows for stories without their own, see `Story.parse`.
        batch_size: how many stories are held at once; their variants share forward passes.
        on_error: for a bad story, `"raise"` its `StoryError` after the results before it, `"skip"`
            it with a warning, or call a function with the error, and continue with the next story.
        on_truncation: for a story that does not fit the encoder's context, `"warn"` once, treat it
            as a bad story (`"error"`) or `"ignore"` it. Results have `truncated` and `cut_tokens`.
            `"ignore"` also hides the warning that a text is not in the encoder's language.
        processes: how many processes share the work. Each has a copy of the encoder and a part of
            the threads, or one of several GPUs. Up to 2 * `processes` * `batch_size` stories are
            held at once. Scores equal one process's up to rounding. As always with new processes, a
            script needs `if __name__ == "__main__":`.
        progress: whether to show a progress bar; or a function that is called after each planned
            window and each forward pass with the number of stories done (in a book, sentences), a
            float. An exception that it raises stops the scoring.

    Raises:
        ValueError: a value is invalid, an operation is unknown, or options contradict each other.
        TypeError: an operation is neither a name nor an instance.
    """

    operations: Any = _option(None, "operations to score by, also of --import (default: all)")
    approximate: Literal["one-pass"] | None = _option(
        None,
        "approximate scores",
        choices=("one-pass",),
        flags={
            "fast": ("one-pass", "approximate scores from one pass over a story (docs/speed.md)"),
            "exact": ("none", "exact scores, as in the paper"),
        },
    )
    similarity: str = _option(
        "cosine", "how the vectors of texts are compared", choices=tuple(SIMILARITIES)
    )
    splitter: Splitter | None = _option(
        None,
        "the units of texts that are scored: auto (sentences, default), lines or paragraphs; a"
        " language, such as de; or by a function of yours, MODULE:FUNCTION",
    )
    progress: bool | Callable[[float], None] | Any = _option(
        False, "show progress", affects_scores=False
    )
    windows: Windows = _option(
        "auto", "a count, sizes (7,7,6), or auto (default)", parse=parse_windows
    )
    batch_size: int = _option(
        32, "stories that are held in memory at once", is_count=True, affects_scores=False
    )
    on_error: OnError = _option(
        "raise",
        "for stories that can't be scored",
        choices=("raise", "skip"),
        function="a function that takes the error",
        affects_scores=False,
    )
    on_truncation: OnTruncation = _option(
        "warn",
        "if a story exceeds the encoder's context",
        choices=get_args(OnTruncation),
        affects_scores=False,
    )
    processes: int = _option(
        1,
        "share the stories among N processes, each with a copy of the encoder",
        is_count=True,
        affects_scores=False,
    )

    def __post_init__(self) -> None:
        """Check all options, and make `operations` a list of instances."""
        for name, info in SCORING_OPTIONS.items():
            info.check(name, getattr(self, name))
        if self.splitter is not None:
            check_splitter(self.splitter)
        operations = resolve_operations(
            self.operations, one_pass=self.one_pass, similarity=self.similarity
        )
        object.__setattr__(self, "operations", operations)

    @classmethod
    def of_call(
        cls, options: ScoringOptions | None, changes: Mapping[str, Any], **defaults: Any
    ) -> ScoringOptions:
        """Return the options of a call that takes `options` or single fields (`changes`), or both;
        `defaults` are fields for a call without `options`."""
        if options is None:
            return cls(**{**defaults, **changes})
        return replace(options, **changes) if changes else options

    @property
    def one_pass(self) -> bool:
        """Whether scores are approximated from one forward pass; False if they are exact."""
        return self.approximate is not None

    def settings(self) -> dict[str, Any]:
        """Return the options that scores depend on, as JSON data by name, to compare runs by."""
        names = (name for name, info in SCORING_OPTIONS.items() if info.affects_scores)
        values = {name: getattr(self, name) for name in names}
        # An operation that is not in this package is named with its module.
        modules = {each.name: type(each).__module__ for each in self.operations}
        values["operations"] = [
            name if module.startswith("narrative_twins.") else f"{name} of {module}"
            for name, module in modules.items()
        ]
        return {name: getattr(value, "__name__", value) for name, value in values.items()}


SCORING_OPTIONS: dict[str, OptionInfo] = {
    option.name: option.metadata["info"] for option in fields(ScoringOptions) if option.metadata
}
"""What is known of the options of scoring, by name."""

FAST: dict[str, Any] = {"approximate": "one-pass"}
"""The defaults of functions and commands for books and corpora, where speed is expected."""
