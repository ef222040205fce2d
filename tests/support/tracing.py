"""The modules of the package that a call runs through, in the order in which a reader meets them,
and how often he comes back to one."""

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

PACKAGE = "narrative_twins."
# Code of a module, of a class body, and of what runs when they are imported, such as decorators.
_AT_IMPORT = ("<module>", "_find_and_load", "_find_and_load_unlocked")


def modules_run(call: Callable[[], Any]) -> dict[str, int]:
    """The modules of the package of which a function runs during a call, in order of the first
    call, without the package's name, each with the number of returns to it. Code that runs because
    a module is imported does not count: a reader of the way through need not read it.

    A module is returned to when a new call enters it after the way has gone on to a module that had
    not been seen before: once for each such step, however often it is called then.

    Args:
        call: what to follow, in all threads that it starts.
    """
    seen: dict[str, int] = {}
    last_entered: dict[str, int] = {}
    importing = threading.local()

    def follow(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return"):
            return
        if code.co_name in _AT_IMPORT:
            depth = getattr(importing, "depth", 0)
            importing.depth = depth + (1 if event == "call" else -1)
            return
        name = frame.f_globals.get("__name__", "")
        is_class_body = not code.co_flags & 0x0002  # without CO_NEWLOCALS
        if event == "call" and name.startswith(PACKAGE) and not getattr(importing, "depth", 0):
            if not is_class_body:
                module = name.removeprefix(PACKAGE)
                returns = seen.setdefault(module, 0)
                if last_entered.setdefault(module, len(seen)) < len(seen):
                    seen[module] = returns + 1
                last_entered[module] = len(seen)

    gc.collect()  # generators that earlier tests left open would be entered when they are closed
    threading.setprofile(follow)
    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen
