"""A stand-in for Windows: with its folder in PYTHONPATH every Python process, also one that another
starts, treats the modules of this package as Windows does. Libraries, which choose by
`sys.platform`, are left alone, so what counts is the module that calls.

- Files that are opened as text without an encoding are an error. Standard streams have cp1252.
- Files that this process has open or mapped can't be replaced or deleted, see `_is_open`.
- Files and folders with names that Windows does not have can't be created.
- Processes are spawned, and the signal of Ctrl-Break exists (it is SIGUSR1).

Modules, and attributes of `os` and `signal`, that Windows lacks are found by mypy instead, see
`make lint`.
"""

import builtins
import errno
import io
import os
import re
import signal
import sys
import warnings

PACKAGE = "narrative_twins"
_LIBRARIES_OF_FILES = {"pathlib", "shutil", "contextlib", __name__}
_RESERVED = re.compile(r"(con|prn|aux|nul|(com|lpt)\d)([. ].*)?", re.IGNORECASE)


def _is_of_package(name):
    return (name or "").partition(".")[0] == PACKAGE


def _package_calls():
    """Whether a module of the package calls, by itself or by pathlib, for example."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in _LIBRARIES_OF_FILES:
        frame = frame.f_back
    return frame is not None and _is_of_package(frame.f_globals.get("__name__"))


def _check_name(path):
    for part in os.fspath(path).split("/"):
        if part not in (".", "..") and (
            re.search(r'[:*?"<>|\\\0-\x1f]|[. ]$', part) or _RESERVED.fullmatch(part)
        ):
            raise OSError(errno.EINVAL, "The filename is incorrect", path)


def _open(file, mode="r", buffering=-1, encoding=None, *args, **options):
    if _package_calls():
        if encoding in (None, "locale") and "b" not in mode:
            raise EncodingWarning(f"{file} is opened without an encoding")
        if set(mode) & set("wax") and isinstance(file, (str, os.PathLike)):
            _check_name(file)
    return _real_open(file, mode, buffering, encoding, *args, **options)


def _is_open(path):
    """Whether this process has a file open, or maps it into memory."""
    path = os.path.realpath(path)
    descriptors = "/proc/self/fd"
    with _real_open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        mapped = any(line.rstrip("\n").endswith(f" {path}") for line in maps)
    return mapped or path in {
        os.path.realpath(f"{descriptors}/{number}") for number in os.listdir(descriptors)
    }


def _refusing(function, paths):
    def refuse(*args, **options):
        if _package_calls():
            for path in args[:paths]:
                if _is_open(path):
                    raise PermissionError(errno.EACCES, "It is being used by another process", path)
            _check_name(args[paths - 1])
        return function(*args, **options)

    return refuse


def _mkdir(path, *args, **options):
    if _package_calls():
        _check_name(path)
    return _real_mkdir(path, *args, **options)


_real_open, _real_mkdir = builtins.open, os.mkdir
builtins.open = io.open = _open
os.mkdir = _mkdir
os.replace, os.rename = _refusing(os.replace, 2), _refusing(os.rename, 2)
os.unlink = os.remove = _refusing(os.unlink, 1)
warnings.filterwarnings("ignore", category=EncodingWarning)
# Of what does not go through `open`, such as `subprocess` and `io.TextIOWrapper`.
warnings.filterwarnings("error", category=EncodingWarning, module=rf"{PACKAGE}(\.|$)")
signal.SIGBREAK = signal.SIGUSR1

import multiprocessing  # noqa: E402

_spawn = multiprocessing.get_context("spawn")
multiprocessing.set_start_method("spawn", force=True)
multiprocessing.get_context = lambda method=None: _spawn
