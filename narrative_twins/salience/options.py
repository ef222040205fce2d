"""The options of scoring: the one declaration of their types, defaults and help, from which
functions, commands and the web page take them. Nothing here imports numpy, torch or
transformers."""

# Without `from __future__ import annotations`: `SCORING_OPTIONS` is read from the annotations.

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict, get_args

from narrative_twins.stories.sentences import SplitName, Splitter
from narrative_twins.stories.story import StoryError, Windows, parse_windows

if TYPE_CHECKING:
    from narrative_twins.salience.operations import Operation

Approximation: TypeAlias = Literal["one-pass"]
OnError: TypeAlias = Literal["raise", "skip"] | Callable[[StoryError], None]
OnTruncation: TypeAlias = Literal["warn", "error", "ignore"]


@dataclass(frozen=True)
class Option:
    """What is known of an option apart from its type.

    Attributes:
        default: its value where it is not given.
        help: one line for users of commands and of the page.
        choices: the texts that it can be; empty for an option of another type.
        is_count: whether it is a number from 1.
        function: a function that it can be, in words.
        parse: makes its value from text that a user typed, if the text is not the value.
        flags: the flags of commands that set it, each with its value; None is typed as `none`.
        affects_scores: whether scores depend on it.
    """

    default: Any
    help: str
    choices: tuple[str, ...] = ()
    is_count: bool = False
    function: str = ""
    parse: Callable[[str], Any] | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    affects_scores: bool = True

    def check(self, name: str, value: Any) -> None:
        """Raise a `ValueError` for a choice, a count or a function that the option can't be."""
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


class BookOptions(TypedDict, total=False):
    """The options of scoring that stories and books share.

    Attributes:
        operations: names or `Operation` instances; default all registered operations.
        approximate: `"one-pass"` computes the operations from the token states of one forward pass
            per story, at a fraction of the cost. None is exact. The default is
            None for stories, and `"one-pass"` for books and corpora (`FAST`).
        max_shifts: another approximation: exact shifting to at most this many other positions, the
            nearest.
        splitter: how raw text is split into sentences, see `Story.parse`.
        progress: whether to show a progress bar, or a function to call with the number of stories
            (of sentences of a book) done, a float, after each planned window and forward pass. An
            exception that it raises stops the scoring.
    """

    operations: Annotated[
        "str | Operation | Iterable[str | Operation] | None",
        Option(None, "operations to score by (default: all)"),
    ]
    approximate: Annotated[
        Approximation | None,
        Option(
            None,
            "one-pass: approximate scores from one pass over a story (docs/speed.md);"
            " none: exact scores",
            choices=get_args(Approximation),
            flags={"fast": "one-pass", "exact": None},
        ),
    ]
    max_shifts: Annotated[
        int | None, Option(None, "shifting to the N nearest other positions only", is_count=True)
    ]
    splitter: Annotated[
        Splitter | None,
        Option(
            None,
            "the units of texts that are scored (default: sentences); lines for verse",
            choices=get_args(SplitName),
            function="a function from a text to its sentences",
        ),
    ]
    progress: Annotated[
        bool | Callable[[float], None], Option(False, "show progress", affects_scores=False)
    ]


class ScoringOptions(BookOptions, total=False):
    """The options of scoring.

    Attributes:
        windows: windows for stories without their own, see `Story.parse`.
        batch_size: number of stories held at once, whose variants share forward passes and whose
            results come together.
        on_error: for a bad story, `"raise"` its `StoryError` after the results before it, `"skip"`
            it with a warning, or call a function with the error, and continue with the next story.
        on_truncation: for a story that does not fit the encoder's context, `"warn"` once, treat it
            as a bad story (`"error"`) or `"ignore"` it. Results have `truncated` and `cut_tokens`
            in any case.
        processes: how many processes share the work, each with a copy of the encoder and its part
            of the threads, or on a GPU of its own if there are several; up to 2 * `processes` *
            `batch_size` stories are held at once. Scores are those of one process up to rounding.
            As always with new processes, a script needs `if __name__ == "__main__":`.
    """

    windows: Annotated[
        Windows, Option("auto", "a count, sizes (7,7,6), or auto (default)", parse=parse_windows)
    ]
    batch_size: Annotated[
        int,
        Option(32, "stories that are held in memory at once", is_count=True, affects_scores=False),
    ]
    on_error: Annotated[
        OnError,
        Option(
            "raise",
            "for stories that can't be scored",
            choices=("raise", "skip"),
            function="a function that takes the error",
            affects_scores=False,
        ),
    ]
    on_truncation: Annotated[
        OnTruncation,
        Option(
            "warn",
            "if a story exceeds the encoder's context",
            choices=get_args(OnTruncation),
            affects_scores=False,
        ),
    ]
    processes: Annotated[
        int,
        Option(
            1,
            "share the stories among N processes, each with a copy of the encoder",
            is_count=True,
            affects_scores=False,
        ),
    ]


SCORING_OPTIONS: dict[str, Option] = {
    name: annotation.__metadata__[0] for name, annotation in ScoringOptions.__annotations__.items()
}
"""The options of scoring by name."""

FAST: dict[str, Any] = {"approximate": "one-pass"}
"""The defaults of functions and commands for books and corpora, where speed is expected."""


def approximation(options: Mapping[str, Any]) -> str | None:
    """The approximation of scores with some options, as results name it; None if they are exact."""
    shifts = options.get("max_shifts")
    return options.get("approximate") or (None if shifts is None else f"max_shifts={shifts}")


def checked_options(options: Mapping[str, Any]) -> ScoringOptions:
    """All scoring options: those given, checked, and the defaults of the others.

    Its `operations` are a list of instances; by default those that support the approximation.

    Raises:
        TypeError: there is no such option.
        ValueError: a value is invalid, an operation is unknown, or options contradict each other.
    """
    from narrative_twins.salience.operations import resolve_operations

    for name in options:
        if name not in SCORING_OPTIONS:
            raise TypeError(f"unknown option {name!r}; choose from {', '.join(SCORING_OPTIONS)}")
    checked: Any = {}
    for name, option in SCORING_OPTIONS.items():
        checked[name] = options.get(name, option.default)
        option.check(name, checked[name])
    checked["operations"] = resolve_operations(
        checked["operations"],
        one_pass=checked["approximate"] is not None,
        max_shifts=checked["max_shifts"],
    )
    complete: ScoringOptions = checked
    return complete


def score_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options among some that scores depend on, as JSON data by name: a run is resumed with the
    same ones only."""
    from narrative_twins.salience.operations import resolve_operations

    settings = {
        name.replace("_", " "): getattr(value, "__name__", value)
        for name, value in options.items()
        if SCORING_OPTIONS[name].affects_scores
    }
    operations = resolve_operations(options.get("operations"))
    return settings | {"operations": [operation.name for operation in operations]}
