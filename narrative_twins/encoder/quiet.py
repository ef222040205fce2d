"""Loading without messages that users can do nothing about."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging as transformers_logging

_WANTED = "HF_HUB_DISABLE_PROGRESS_BARS"
_ON = ("1", "ON", "YES", "TRUE")


def progress_bars_wanted() -> bool:
    """Whether the user has asked for the progress bars of Hugging Face libraries, by
    HF_HUB_DISABLE_PROGRESS_BARS=0."""
    return os.environ.get(_WANTED, "1").upper() not in _ON


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Without any progress bar of transformers, of downloads neither, unless they are wanted."""
    hide = transformers_logging.is_progress_bar_enabled() and not progress_bars_wanted()
    if hide:
        transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if hide:
            transformers_logging.enable_progress_bar()


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Without the table of transformers on weights that do not fit, which takes many lines, and
    without its progress bar over the weights, unless it is wanted. Downloads keep theirs."""
    logger = logging.getLogger("transformers.modeling_utils")

    def is_other(record: logging.LogRecord) -> bool:
        return "LOAD REPORT" not in record.getMessage()

    logger.addFilter(is_other)
    try:
        with _no_bar_of_weights():
            yield
    finally:
        logger.removeFilter(is_other)


@contextmanager
def _no_bar_of_weights() -> Iterator[None]:
    set_hook = getattr(
        transformers_logging, "set_tqdm_hook", None
    )  # early releases of transformers 5 lack it
    if set_hook is None or progress_bars_wanted():
        yield
        return
    active = True

    def hook(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if active and kwargs.get("desc") == "Loading weights":
            kwargs = {**kwargs, "disable": True}
        return factory(*args, **kwargs) if earlier is None else earlier(factory, args, kwargs)

    earlier = set_hook(hook)
    try:
        yield
    finally:
        active = False
        found = set_hook(earlier)
        if found is not hook:
            set_hook(
                found
            )  # of another thread that is loading; it ends with ours, which has no effect any more


def hide_default_model_warning(model: str) -> None:
    """Hide what `transformers.pipeline` says if no model is named, that this is not for production,
    where `model` is the default of the task: it comes with the package, and changes with it
    only."""
    start = f"No model was supplied, defaulted to {model} "
    logging.getLogger("transformers.pipelines").addFilter(
        lambda record: not record.getMessage().startswith(start)
    )
