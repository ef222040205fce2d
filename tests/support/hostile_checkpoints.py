"""Damaged and hostile checkpoints: by name, how a folder of an encoder is damaged, and a pattern of
the error."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers.utils.import_utils import KERNELS_MIN_VERSION

from support.processes import run_python

MODEL = "model.safetensors"
INDEX = "model.safetensors.index.json"


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
    """A change of the weights of a folder."""

    def apply(folder):
        save_file(change(load_file(folder / MODEL)), folder / MODEL, metadata={"format": "pt"})

    return apply


def file(name, content):
    """A file with these bytes, or with an object as JSON."""

    def apply(folder):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name).write_bytes(data)

    return apply


def without(pattern):
    def apply(folder):
        for path in folder.glob(pattern):
            path.unlink()

    return apply


def edited(name, **changes):
    """Other values in a JSON file."""

    def apply(folder):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return apply


def index_of(part, index=INDEX):
    """An index in place of the weights that names one file for all of them, or has other
    content."""

    def apply(folder):
        names = load_file(folder / MODEL)
        (folder / MODEL).unlink()
        content = {"metadata": {}, "weight_map": dict.fromkeys(names, part)}
        file(index, content if isinstance(part, str) else part)(folder)
        if isinstance(part, str) and "/" not in part and part.endswith(".bin"):
            evil(folder / part)

    return apply


def pickled(folder):
    """Harmless weights in a pickle."""
    torch.save(load_file(folder / MODEL), folder / "pytorch_model.bin")
    (folder / MODEL).unlink()


def evil_setting(folder):
    """A configuration that names a pickle, with weights in safetensors as well."""
    edited("config.json", transformers_weights="evil.bin")(folder)
    evil(folder / "evil.bin")


evil_parts = index_of("evil.bin", "pytorch_model.bin.index.json")
evil_index = index_of("evil.bin")


def index_outside(folder):
    shutil.copy(folder / MODEL, folder.parent / "secret.safetensors")
    index_of("../secret.safetensors")(folder)


def with_module(kind):
    """Another module of a class, with its code and its weights in a pickle."""

    def apply(folder):
        modules = json.loads((folder / "modules.json").read_text())
        modules.append({"idx": 2, "name": "2", "path": "2_Module", "type": kind})
        file("modules.json", modules)(folder)
        (folder / "2_Module").mkdir()
        settings = {
            "in_features": 32,
            "out_features": 8,
            "activation_function": "torch.nn.modules.activation.Tanh",
        }
        file("2_Module/config.json", settings)(folder)
        (folder / "2_Module" / "pytorch_model.bin").write_bytes(
            pickle.dumps(Code(folder / "executed"))
        )
        (folder / "evil.py").write_text(f"open({str(folder / 'executed')!r}, 'w')")

    return apply


def outside(folder):
    """A pooling from another folder."""
    shutil.copytree(folder / "1_Pooling", folder.parent / "other")
    path = folder / "modules.json"
    path.write_text(path.read_text().replace('"1_Pooling"', '"../other"'))


def with_code(folder):
    code = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
    edited("config.json", auto_map=code, model_type="evil")(folder)
    (folder / "evil.py").write_text(f"open({str(folder / 'executed')!r}, 'w')")


def small_matrix(folder):
    """A matrix of embeddings with fewer rows than the tokenizer has tokens."""
    weights(lambda found: found | {"embeddings.word_embeddings.weight": torch.ones(50, 32)})(folder)
    edited("config.json", vocab_size=50)(folder)


def _bias(value):
    return weights(lambda found: found | {"embeddings.LayerNorm.bias": torch.full((32,), value)})


_PICKLE = "no weights in safetensors; pickles, which can execute code, are not read: save the model"
_NAMED = "not safetensors in its folder; save the model as safetensors"
WEIGHTS = {
    "no layer 1": (
        weights(lambda found: {name: x for name, x in found.items() if "layer.1." not in name}),
        r"16 of its weights are missing \(encoder.layer.1.attention",
    ),
    "another layer": (
        weights(lambda found: found | {"encoder.layer.2.output.dense.bias": torch.ones(3)}),
        r"1 of its weights are not part of the model \(encoder.layer.2.output.dense.bias",
    ),
    "unrelated": (
        weights(lambda found: {f"x.{name}": value for name, value in found.items()}),
        r"37 of its weights are missing \(embeddings.LayerNorm.bias",
    ),
    "other sizes": (
        edited("config.json", intermediate_size=40),
        "weights have other sizes than config.json says",
    ),
    "truncated": (
        lambda folder: file(MODEL, (folder / MODEL).read_bytes()[:-100])(folder),
        "model.safetensors is damaged .*; copy or download it again",
    ),
    "no weights": (without("*.safetensors"), _PICKLE),
    "pickle": (pickled, _PICKLE),
    "evil parts": (evil_parts, _PICKLE),
    "evil index": (evil_index, f"model.safetensors.index.json names 'evil.bin', {_NAMED}"),
    "evil setting": (evil_setting, f"config.json names 'evil.bin', {_NAMED}"),
    "index outside": (index_outside, f"names '../secret.safetensors', {_NAMED}"),
    "index of a missing file": (index_of("gone.safetensors"), "gone.safetensors"),
    "index of a long name": (index_of("b" * 300 + ".safetensors"), "can't be loaded: No such file"),
    "index is no JSON": (index_of(b"["), "model.safetensors.index.json is invalid"),
    "index is deep": (index_of(b"[" * 100_000), "model.safetensors.index.json is invalid"),
    "zero": (
        weights(lambda found: {name: 0 * value for name, value in found.items()}),
        "all weights are zero",
    ),
    "constant": (
        weights(lambda found: {name: 0 * value + 0.5 for name, value in found.items()}),
        "all weights of each matrix are the same number",
    ),
    "integers": (
        weights(lambda found: {name: value.to(torch.int8) for name, value in found.items()}),
        r"embeddings.* has integers \(I8\)",
    ),
    "many layers": (
        edited("config.json", num_hidden_layers=10_000_000),
        "config.json names 10,000,000 layers",
    ),
    "a huge vocabulary": (
        edited("config.json", vocab_size=10**12),
        "config.json names the vocab_size 1,000,000,000,000",
    ),
    "control characters": (
        weights(lambda found: found | {"encoder.\x1b[31m\x9b\u202e": torch.ones(3)}),
        "1 of its weights are not part of the model",
    ),
    "nan": (_bias(torch.nan), "embeddings.LayerNorm.bias has values that are not finite"),
    "no configuration": (without("config.json"), "config.json"),
    "configuration is no JSON": (file("config.json", b"{"), "config.json"),
    "configuration of other types": (edited("config.json", hidden_size="x"), "hidden_size"),
    "code": (with_code, "custom code"),
}
_INVALID = "modules.json of .* is invalid"
SETTINGS = {
    "pooling is a number": (file("1_Pooling/config.json", {"pooling_mode": 5}), _INVALID),
    "pooling is deep": (file("1_Pooling/config.json", b"[" * 100_000), _INVALID),
    "pooling is missing": (
        lambda folder: shutil.rmtree(folder / "1_Pooling"),
        "1_Pooling/config.json is missing; get it, or set pooling= to 'mean' or 'first'",
    ),
    "pooling is a folder": (
        lambda folder: [
            (folder / "1_Pooling/config.json").unlink(),
            (folder / "1_Pooling/config.json").mkdir(),
        ],
        "1_Pooling/config.json is missing",
    ),
    "pooling is null": (file("1_Pooling/config.json", b"null"), _INVALID),
    "modules are null": (file("modules.json", b"null"), _INVALID),
    "transformer is elsewhere": (
        file("modules.json", [{"path": "0_T", "type": "sentence_transformers.models.Transformer"}]),
        "the transformer is in 0_T; load that folder",
    ),
    "modules are no JSON": (file("modules.json", b"{no"), _INVALID),
    "modules have no type": (file("modules.json", [{"path": ""}]), _INVALID),
    "module of other code": (with_module("evil.Module"), "'evil.Module' is not supported"),
    "pooling of other code": (with_module("evil.Pooling"), "'evil.Pooling' is not supported"),
    "pooling is outside": (outside, "'../other/config.json' is outside of the folder"),
}
TOKENIZER = {
    "no tokenizer": (without("tokenizer*"), "tokenizer"),
    "tokenizer is no JSON": (file("tokenizer.json", b"{"), "tokenizer"),
    "tokenizer of another model": (
        small_matrix,
        "the tokenizer .*has the id .*, and the model 50 ids; .* of another",
    ),
}

_KERNELS = """
import importlib.machinery
__version__ = "stub"
def _take(self, *args, **options):
    pass
def get_kernel(name, *args, **options):
    print(name)
    raise RuntimeError("asked")
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {"__init__": _take, "__call__": lambda self, given: given})
"""
_LOADING = """
import sys
from transformers.utils.import_utils import is_kernels_available
from narrative_twins import StoryEncoder
print("available" * is_kernels_available())
StoryEncoder.from_pretrained(sys.argv[1], device="cpu")
print("ignored")
try:
    StoryEncoder.from_pretrained(sys.argv[1], attn_implementation="somebody/of_the_user")
except (OSError, ValueError) as error:
    print("asked" if "asked" in str(error) else error)
"""


def kernels_asked_for(folder: Path, stub: Path) -> list[str]:
    """What loading the encoder in a folder, whose configuration names a kernel of the Hub, asks a
    package `kernels` for, which is written to `stub`: first without an attention of the user, then
    with one."""
    for key in ("_attn_implementation", "attn_implementation"):
        edited("config.json", **{key: "somebody/kernel"})(folder)
    (stub / "kernels").mkdir(parents=True)
    (stub / "kernels" / "__init__.py").write_text(_KERNELS)
    about = stub / f"kernels-{KERNELS_MIN_VERSION}.dist-info"
    about.mkdir()
    version = f"Metadata-Version: 2.1\nName: kernels\nVersion: {KERNELS_MIN_VERSION}\n"
    (about / "METADATA").write_text(version)
    environment = {**os.environ, "PYTHONPATH": str(stub)}
    return run_python("-c", _LOADING, str(folder), env=environment).splitlines()
