"""How folders of encoders are damaged; tests/encoder/test_loading.py has the table of damages."""

import json
import pickle

from safetensors.torch import load_file, save_file

MODEL = "model.safetensors"


class Code:
    """An object whose pickle executes code when it is read: it writes a file."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return exec, (f"open({self.mark!r}, 'w')",)


def evil(path):
    """Write a pickle that writes the file `executed` in its folder when it is read."""
    path.write_bytes(pickle.dumps(Code(path.parent / "executed")))


def weights(change):

    def apply(folder):
        save_file(change(load_file(folder / MODEL)), folder / MODEL, metadata={"format": "pt"})

    return apply


def file(name, content):

    def apply(folder):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name).write_bytes(data)

    return apply


def edited(name, **changes):

    def apply(folder):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return apply
