"""The options that several commands share, each declared once.

A group of options is a decorator that passes their values to the command as one argument, so that
a new option reaches every command of its group, and from there the function that it is for.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, TypeAlias

import click
from tqdm import tqdm

from narrative_twins.extras import check_extra
from narrative_twins.writing import STDIN, for_terminal

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

COUNT = click.IntRange(min=1)
"""An integer of 1 or more."""


class Number(click.FloatRange):
    """A number in a range, but not NaN, which no comparison finds to be outside of it."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The number."""
        if math.isnan(number := super().convert(value, param, ctx)):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class Choices(click.Choice[str]):
    """One of the names of a registry, which is read when the option is used or shown: what is
    registered later is a choice, too, and the library that a registry imports is not needed for
    other options.

    Args:
        registry: a function that returns the names, or the module of this package and the name of
            the registry in it.
    """

    def __init__(self, *registry: Any) -> None:
        self.registry, self.case_sensitive = registry, True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names."""
        first, *rest = self.registry
        if rest:
            first = getattr(import_module(f"narrative_twins.{first}"), *rest)
        return tuple(first() if callable(first) else first)


class Names(Choices):
    """A comma-separated list of names of a registry."""

    name = "A,B"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The names in the order of the user."""
        names = value if isinstance(value, list) else value.split(",")
        return [Choices.convert(self, name.strip(), param, ctx) for name in names]


class OrNone(click.Choice[str]):
    """One of some choices, or `none`, whose value is None."""

    def __init__(self, choices: Iterable[str]) -> None:
        super().__init__([*choices, "none"])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The choice, or None."""
        chosen = super().convert(value, param, ctx)
        return None if chosen == "none" else chosen


class Parsed(click.ParamType[Any]):
    """What a function makes of the text of the user; its `ValueError` is shown."""

    name = "text"

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self.parse = parse

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of the function; a default that is not text is used as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Option(click.Option):
    """An option with the heading that `--help` lists it under."""

    def __init__(self, *args: Any, heading: str = "Options", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.heading = heading


class Command(click.Command):
    """A command; `extra` is the extra of the package whose libraries it needs."""

    def __init__(self, *args: Any, extra: str | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.extra = extra

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises an `ImportError` if a library of its extra is missing."""
        if self.extra is not None:
            check_extra(self.extra)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings of their groups."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                sections.setdefault(getattr(param, "heading", "Options"), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def command(help: str, **settings: Any) -> Callable[[Any], Command]:
    """Decorator that makes a function a command with this text in its `--help`."""
    return click.command(cls=Command, help=help, **settings)


def option(*flags: str, **settings: Any) -> Decorator:
    """Decorator that adds an option, see `click.option`."""
    return click.option(*flags, cls=Option, **settings)


def option_group(
    argument: str,
    heading: str,
    options: Mapping[str, Mapping[str, Any]],
    kind: Callable[..., Any] = dict,
) -> Decorator:
    """Decorator that adds a group of options to a command.

    Args:
        argument: the argument of the command that has their values.
        heading: of the group in `--help`.
        options: the settings of each option by its name, see `click.option`; `flags` if they are
            not `--NAME`; `others` for those of further options that set it.
        kind: makes the argument of the values by name.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(**given: Any) -> Any:
            values = {name: given.pop(name) for name in options}
            return function(**given, **{argument: kind(**values)})

        decorated: Callable[..., Any] = run
        for name, settings in reversed(list(options.items())):
            for each in reversed([settings, *settings.get("others", ())]):
                found = {"flags": [f"--{name.replace('_', '-')}"], **each}
                flags, _ = found.pop("flags"), found.pop("others", None)
                decorated = option(*flags, name, heading=heading, **found)(decorated)
        return decorated

    return decorate


def valued(metavar: str | None, help: str, **settings: Any) -> dict[str, Any]:
    """The settings of an option with a value, for `option_group`."""
    return {"metavar": metavar, "help": help, **settings}


def counted(kind: Any, metavar: str, default: Any, help: str) -> dict[str, Any]:
    """The settings of an option with a number, whose default the help names."""
    shown = f"{help} (default: {default})." if default is not None else f"{help}."
    return valued(metavar, shown, type=kind, default=default)


_ENCODER = {
    "model": valued("ENCODER", "Folder or Hub id of the encoder (default: the default encoder)."),
    "revision": valued("NAME", "Branch, tag or commit of an encoder on the Hub."),
    "device": valued("NAME", "Device, such as cpu or cuda:0 (default: an accelerator, if any)."),
    "dtype": valued(
        "NAME",
        "Precision, such as float32 (default: the fastest that keeps ranks).",
        default="auto",
    ),
    "pooling": valued(
        "NAME",
        "mean or first (default: that of the checkpoint, or mean).",
        type=Choices("encoder.loading", "POOLINGS"),
    ),
    "context_tokens": valued(
        "N", "Tokens that are read at once (default: the encoder's maximum).", type=COUNT
    ),
    "batch_tokens": valued("N", "Tokens in a forward pass (default: by the device).", type=COUNT),
    "attention": valued(
        "NAME",
        "auto, packed or padded (default: auto).",
        type=Choices("encoder.loading", "ATTENTIONS"),
        default="auto",
    ),
}


def encoder_options(*without: str) -> Decorator:
    """The options of the encoder, as the argument `loading`: the arguments of
    `StoryEncoder.from_pretrained`, of which `model` is the first."""
    options = {name: settings for name, settings in _ENCODER.items() if name not in without}
    return option_group("loading", "Encoder", options)


_NOT_TYPED = ("on_error", "progress")
"""Scoring options that commands set themselves: bad stories are reported, and progress is shown in
terminals."""


def scoring_options(*only: str, **defaults: Any) -> Decorator:
    """The options of scoring, as the argument `scoring`: the arguments of `score_stories`.
    `defaults` are those of this command that differ."""
    from narrative_twins.salience.operations import OPERATIONS
    from narrative_twins.salience.options import SCORING_OPTIONS

    options = {}
    for name in only or [name for name in SCORING_OPTIONS if name not in _NOT_TYPED]:
        known = SCORING_OPTIONS[name]
        default = defaults.get(name, known.default)
        kind: Any = COUNT if known.is_count else None
        if name == "operations":
            kind = Names(lambda: OPERATIONS)
        elif known.choices:
            kind = (OrNone if known.flags else click.Choice)(known.choices)
        elif known.parse is not None:
            kind = Parsed(known.parse)
        options[name] = valued(
            "A,B" if name == "operations" else None if known.choices else "N",
            known.help,
            flags=("--split",) if name == "splitter" else (f"--{name.replace('_', '-')}",),
            type=kind,
            default=default,
            show_default=default is not None and "default" not in known.help,
        )
        options[name]["others"] = [
            {
                "flags": (f"--{flag}",),
                "flag_value": value or "none",
                "type": kind,
                "help": f"Short for --{name} {value or 'none'}.",
            }
            for flag, value in known.flags.items()
        ]
    return option_group("scoring", "Scoring", options)


quiet_option = option("-q", "--quiet", is_flag=True, help="Show no progress and no estimate.")
resume_option = option("--resume", is_flag=True, help="Continue an interrupted run.")


def shows_progress(quiet: bool) -> bool:
    """Whether a progress bar is shown: in a terminal, unless the user wants none."""
    return sys.stderr.isatty() and not quiet


def watch(quiet: bool, factor: float = 1.0) -> Any:
    """The option `progress` of commands: a progress bar in a terminal, and an estimate with advice
    if exact scoring takes long; nothing if the user wants none. `factor` is how many times as much
    is scored as the progress is of."""
    from narrative_twins.salience.progress import Watch, format_duration

    def advise(exact: float, one_pass: float) -> None:
        exact, one_pass = exact * factor, one_pass * factor
        tell(
            f"exact scores take about {format_duration(exact)}; --fast (--approximate one-pass)"
            f" takes about {format_duration(one_pass)}"
        )

    return not quiet and Watch(shows_progress(quiet), advise)


def tell(message: object) -> None:
    """Print a line for the user, without breaking a progress bar."""
    tqdm.write(for_terminal(f"narrative-twins: {message}"), file=sys.stderr)


def plural(number: int, singular: str, plural: str) -> str:
    """A number with the noun in the right form."""
    return f"{number:,} {singular if number == 1 else plural}"


@contextmanager
def usage_errors() -> Iterator[None]:
    """A `ValueError` in the block is about the arguments: the command ends with exit code 2."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None


@contextmanager
def on_interrupt(hint: str) -> Iterator[None]:
    """After Ctrl-C in the block, the command ends with a hint on how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(hint) from None


def check_input(files: Sequence[str]) -> None:
    """Refuse to wait for stories that are typed into the terminal, unless `-` asks for it."""
    if not files and sys.stdin.isatty():
        raise click.UsageError("name a file, or - for standard input")


def check_output(files: Iterable[str], out: str) -> None:
    """Refuse an output file or folder that is also an input, or is in a folder whose files are all
    read, or from which a file is read."""
    if out == STDIN:
        return
    path = os.path.realpath(out)
    for file in files:
        read = os.path.realpath(file)
        if read == path or read.startswith(os.path.join(path, "")):
            raise click.UsageError(f"{file} is read, and would be overwritten by --out {out}")
        if os.path.isdir(read) and path.startswith(os.path.join(read, "")):
            raise click.UsageError(f"--out {out} is in {file}, which is read")


def output_format(out: str, given: str | None, by_suffix: Mapping[str, str]) -> str:
    """The format of an output: the one that is given, else by the suffix of the file; text if it
    has none."""
    suffix = os.path.splitext(out)[1].lower()
    if given is not None or out == STDIN or not suffix:
        return given or "text"
    if suffix not in by_suffix:
        raise click.UsageError(
            f"--out {out}: {suffix} is not the suffix of a format; use one of"
            f" {', '.join(by_suffix)}, or name the format with --format"
        )
    return by_suffix[suffix]


def check_rows_file(files: Iterable[str], out: str) -> None:
    """Refuse an output file for rows that loaders would not recognize, or that is also an input."""
    if not out.endswith((".jsonl", ".ndjson")):
        raise click.UsageError(
            f"--out {out}: name a file that ends in .jsonl, from which the rows can be loaded"
        )
    check_output(files, out)
