"""What worker processes run in tests/salience/test_processes.py, which they find it in this module
by its name."""

import os
from collections.abc import Callable
from typing import Any


class Problem(Exception):
    """An error that can't be pickled."""

    def __init__(self, first: str, second: str) -> None:  # noqa: B042
        super().__init__(first)


def start(number: int) -> Callable[[Any], Any]:
    return lambda task: work(number, task)


def fail_to_start(number: int) -> Callable[[Any], Any]:
    raise OSError("there is no encoder")


def work(number: int, task: Any) -> Any:
    if task == "die":
        os._exit(3)
    if task == "fail":
        raise ValueError("this task fails")
    if task == "strange":
        raise Problem("this task", "fails")
    return number, os.getpid(), task
