"""Errors of the operating system in libraries that are written in Rust."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def os_errors(folder: str | Path) -> Iterator[None]:
    """Raise errors of the operating system as `OSError` that names a folder, where safetensors and
    tokenizers write into it: they raise exceptions of other kinds, with the number of the error in
    the message."""
    try:
        yield
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if isinstance(error, OSError) or number is None:
            raise
        raise OSError(f"{folder} can't be written: {os.strerror(int(number[1]))}") from error
