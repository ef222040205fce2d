'''A reader of typed signatures: a command is a function, and its docstring is the help.

```text
@command(extra="train")
def push(model: str, *, to: str, private: bool = False) -> int:
    """Push an encoder to the Hub.

    Args:
        model (FOLDER): the encoder.
        to (USER/NAME): Repository on the Hub.
        private: Make the repository private.
    """
```

Positional parameters are arguments of the command; a `Sequence` takes any number of files. Keyword
parameters are options: required without a default, flags if they are `bool`, choices if they are
`Literal`, and repeated if their default is `()`; other options can be used once. The docstring says
in parentheses how `--help` shows a value. The fields of a parameter that is a dataclass are options
under its `heading`.
'''

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import click

from narrative_twins.extras import check_extra

_SHORT = {"out": "-o", "format": "-f", "quiet": "-q"}
_DOCUMENTED = re.compile(r"^    (\w+)(?: \((.+?)\))?: (.+(?:\n {8}.+)*)", re.M)


class Choices(click.Choice[str]):
    """The type of an option whose value is a name in a registry. The registry is imported and read
    only when the option is used or shown in `--help`. The error for another name suggests one.

    Args:
        registry: a function that returns the names; or a module of this package and the name of a
            registry in it, such as `"making.twins", "RECIPES"`.
    """

    def __init__(self, *registry: Any) -> None:
        self.registry, self.case_sensitive = registry, True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names in the registry."""
        first, *rest = self.registry
        return tuple(getattr(import_module(f"narrative_twins.{first}"), *rest) if rest else first())

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the message for a text that is none of the names."""
        message = super().get_invalid_choice_message(value, ctx)
        similar = get_close_matches(str(value).lower(), self.choices, 1)
        return f"{message} Did you mean {similar[0]!r}?" if similar else message


class Names(Choices):
    """The type of an option whose value is names in a registry, separated by commas."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Parse names, `a,b` as `["a", "b"]`; fail if one of them is not in the registry."""
        names = value.split(",") if isinstance(value, str) else value
        return [Choices.convert(self, name.strip(), param, ctx) for name in names]


class Parsed(click.ParamType[Any]):
    """The type of an option whose text a function parses; its `ValueError` is shown to the user."""

    name = "text"

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self.parse = parse

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Parse a text. A value that is not text, such as a default, is returned unchanged."""
        try:
            return self.parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


Count: TypeAlias = Annotated[int, click.IntRange(min=1)]
"""A whole number of 1 or more."""


class Option(click.Option):
    """An option that `--help` lists under `heading`."""

    def __init__(self, *args: Any, heading: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.heading = heading


@dataclass(frozen=True)
class Group:
    """Several options that together make one argument of a command.

    Attributes:
        make: makes the argument from the values of the options, by name; may raise `ValueError`.
        options: the options whose values `make` needs.
    """

    make: Callable[..., Any]
    options: list[click.Parameter]

    def value(self, values: dict[str, Any]) -> Any:
        """Remove the values of the options from `values`; return the argument made of them."""
        with usage_errors():
            names = {str(one.name) for one in self.options}
            return self.make(**{name: values.pop(name) for name in names})


def read(source: Callable[..., Any], without: Collection[str] = ()) -> list[click.Parameter]:
    """Return the click parameters that the signature and the docstring of a function or a dataclass
    declare, except the parameters named in `without`."""
    documented = _documented(source)
    hints = get_type_hints(source, include_extras=True)
    heading = getattr(source, "heading", "Options")
    parameters: list[click.Parameter] = []
    for name, argument in inspect.signature(source).parameters.items():
        if name in without:
            continue
        metavar, text = documented.get(name, (None, ""))
        if group := _group(hints[name]):
            parameters += group.options
        elif argument.kind is argument.KEYWORD_ONLY or isinstance(source, type):
            parameters.append(_option(argument, hints[name], metavar, text, heading))
        else:
            parameters.append(_argument(name, hints[name], metavar))
    return parameters


def _documented(source: Callable[..., Any]) -> dict[str, tuple[str | None, str]]:
    """Return what the docstring of a function, or of a dataclass and its bases, says about each
    parameter: how `--help` shows its value, and its help."""
    classes = reversed(inspect.getmro(source)) if isinstance(source, type) else [source]
    return {
        name: (metavar or None, " ".join(text.split()))
        for each in classes
        for name, metavar, text in _DOCUMENTED.findall(inspect.cleandoc(each.__doc__ or ""))
    }


def _group(hint: Any) -> Group | None:
    """Return the options that together make a parameter of type `hint`; None for a plain type."""
    if isinstance(hint, type) and is_dataclass(hint):
        return Group(hint, read(hint))
    return next((note for note in getattr(hint, "__metadata__", ()) if type(note) is Group), None)


def _argument(name: str, hint: Any, metavar: str | None) -> click.Argument:
    """Return the click argument for a positional parameter; `[FILE]...` need not be there."""
    number = -1 if get_origin(hint) is Sequence else 1
    is_required = not (metavar or "").startswith("[")
    return click.Argument([name], metavar=metavar, nargs=number, required=is_required)


def _option(
    argument: inspect.Parameter, hint: Any, metavar: str | None, text: str, heading: str
) -> Option:
    """Return the click option for a parameter of the type `hint`; `text` is its help."""
    name, is_required = argument.name, argument.default is argument.empty
    default = None if is_required else argument.default
    return Option(
        [*filter(None, [_SHORT.get(name)]), f"--{name.replace('_', '-')}", name],
        help=text,
        metavar=metavar,
        type=_type(hint),
        is_flag=hint is bool,
        multiple=default == (),
        required=is_required,
        default=default,
        show_default=bool(default) and "default" not in text,
        heading=heading,
    )


def _type(hint: Any) -> Any:
    """Return the click type for a parameter of the type `hint`; None for a plain type."""
    if get_origin(hint) in (Union, UnionType):  # with None
        hint = get_args(hint)[0]
    if get_origin(hint) is Literal:
        return Choices(partial(get_args, hint))
    note = next(iter(getattr(hint, "__metadata__", ())), None)
    return Parsed(note) if inspect.isfunction(note) else note


class Command(click.Command):
    """A command whose `--help` lists options under headings. An option can be used once, unless it
    is declared as repeated."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; fail if an option, or two flags for one value, are repeated."""
        uses = self.make_parser(ctx).parse_args([*args])[2]
        rest = super().parse_args(ctx, args)  # ends here if there is `--help`
        flags: dict[str | None, str] = {}
        for option in uses:
            if isinstance(option, Option) and not option.multiple:
                flag, earlier = option.opts[-1], flags.get(option.name)
                if earlier == flag:
                    values = f": {flag} A,B" if isinstance(option.type, Names) else ""
                    ctx.fail(f"{flag} is repeated; use it once{values}")
                if earlier is not None:
                    ctx.fail(f"{earlier} and {flag} contradict each other; use one")
                flags[option.name] = flag
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings; the heading `Options` is the first."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                sections.setdefault(getattr(param, "heading", "Options"), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def command(
    more_help: str = "", extra: str | None = None
) -> Callable[[Callable[..., int]], Command]:
    """Return a decorator that makes a function a command. `more_help` is added to its help. Without
    the libraries of `extra`, an extra of this package, the command raises an `ImportError`."""

    def decorate(function: Callable[..., int]) -> Command:
        """Return the command that calls `function`."""
        hints = get_type_hints(function, include_extras=True)
        groups = {name: group for name, hint in hints.items() if (group := _group(hint))}

        def run(**values: Any) -> int:
            """Call `function` with the values of the options, and return the exit code."""
            if extra is not None:
                check_extra(extra)
            made = {name: group.value(values) for name, group in groups.items()}
            return function(**values, **made)

        text = inspect.cleandoc(function.__doc__ or "").partition("Args:")[0].strip()
        settings: Any = {"params": read(function), "help": f"{text} {more_help}"}
        return Command(function.__name__, callback=run, **settings)

    return decorate


@contextmanager
def usage_errors() -> Iterator[None]:
    """Raise a `ValueError` within the `with` block as a `UsageError`, with exit code 2."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None
