"""Damaged and hostile checkpoints: by name, how a folder of an encoder is damaged, and a pattern of
the error."""

from __future__ import annotations

import json
import pickle
import shutil

import torch
from safetensors.torch import load_file, save_file


def weights(change):
    """A change of the weights of a folder."""

    def apply(folder):
        file = folder / "model.safetensors"
        save_file(change(load_file(file)), file, metadata={"format": "pt"})

    return apply


def file(name, content):
    def apply(folder):
        (folder / name).write_bytes(
            content if isinstance(content, bytes) else json.dumps(content).encode()
        )

    return apply


def truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def pickled(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


class Code:
    """An object whose pickle executes code when it is read: it writes a file."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return exec, (f"open({self.mark!r}, 'w')",)


def evil(path):
    """Write a pickle that writes the file `executed` in the folder of the encoder when it is
    read."""
    path.write_bytes(pickle.dumps(Code(path.parent / "executed")))


def evil_pickle(folder):
    (folder / "model.safetensors").unlink()
    evil(folder / "pytorch_model.bin")


def evil_parts(folder):
    """Weights in the parts of a pickle."""
    _sharded(folder, "pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin")
    evil(folder / "pytorch_model-00001-of-00001.bin")


def evil_index(folder):
    """Weights in a pickle that an index of safetensors names."""
    _sharded(folder, "model.safetensors.index.json", "evil.bin")
    evil(folder / "evil.bin")


def evil_variant(folder):
    """A configuration that names a pickle, beside weights in safetensors."""
    other_config(transformers_weights="adapter_model.bin")(folder)
    evil(folder / "adapter_model.bin")


def index_outside(folder):
    """Weights beside the folder."""
    shutil.copy(folder / "model.safetensors", folder.parent / "secret.safetensors")
    _sharded(folder, "model.safetensors.index.json", "../secret.safetensors")


def index_incomplete(folder):
    _sharded(folder, "model.safetensors.index.json", "model-00001-of-00002.safetensors")


def index_of(content):
    def apply(folder):
        (folder / "model.safetensors").unlink()
        file("model.safetensors.index.json", content)(folder)

    return apply


def _sharded(folder, index, part):
    """Replace the weights by an index in which a file has all of them."""
    names = list(load_file(folder / "model.safetensors"))
    (folder / "model.safetensors").unlink()
    (folder / index).write_text(
        json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, part)})
    )


def with_module(kind):
    """Another module of a class, with its code beside the encoder."""

    def apply(folder):
        path = folder / "modules.json"
        modules = [
            *json.loads(path.read_text()),
            {"idx": 2, "name": "2", "path": "2_Module", "type": kind},
        ]
        path.write_text(json.dumps(modules))
        (folder / "2_Module").mkdir()
        settings = {
            "in_features": 32,
            "out_features": 8,
            "activation_function": "torch.nn.modules.activation.Tanh",
        }
        (folder / "2_Module" / "config.json").write_text(json.dumps(settings))
        (folder / "2_Module" / "pytorch_model.bin").write_bytes(
            pickle.dumps(Code(folder / "executed"))
        )
        (folder / "evil.py").write_text(f"open({str(folder / 'executed')!r}, 'w')")

    return apply


def small_matrix(folder):
    """A matrix of embeddings with fewer rows than the tokenizer has tokens."""
    weights(lambda found: found | {"embeddings.word_embeddings.weight": torch.ones(50, 32)})(folder)
    other_config(vocab_size=50)(folder)


def without(pattern):
    def apply(folder):
        for path in folder.glob(pattern):
            path.unlink()

    return apply


def other_config(**changes):
    def apply(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return apply


def outside(folder):
    """A pooling from a folder beside that of the encoder."""
    shutil.copytree(folder / "1_Pooling", folder.parent / "other")
    path = folder / "modules.json"
    path.write_text(path.read_text().replace('"1_Pooling"', '"../other"'))


def with_code(folder):
    other_config(
        auto_map={"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}, model_type="evil"
    )(folder)
    (folder / "evil.py").write_text(f"open({str(folder / 'executed')!r}, 'w')")


WEIGHTS = {
    "no layer 1": (
        weights(
            lambda found: {name: value for name, value in found.items() if "layer.1." not in name}
        ),
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
    "other sizes": (other_config(intermediate_size=40), r"has the size \(48,\) instead of \(40,\)"),
    "fewer layers in the configuration": (
        other_config(num_hidden_layers=1),
        "16 of its weights are not part of",
    ),
    "truncated": (truncated, "model.safetensors is damaged .*; copy or download it again"),
    "no safetensors": (file("model.safetensors", b"abc"), "model.safetensors is damaged"),
    "pickle": (
        pickled,
        r"in a pickle \(pytorch_model.bin\), which can execute code; save the model",
    ),
    "evil pickle": (
        evil_pickle,
        r"in a pickle \(pytorch_model.bin\), which can execute code; save the model",
    ),
    "evil parts": (
        evil_parts,
        r"in a pickle \(pytorch_model-00001-of-00001.bin\), which can execute code; save the model",
    ),
    "evil index": (
        evil_index,
        r"model.safetensors.index.json names 'evil.bin', which is not in safetensors; save the",
    ),
    "evil configuration": (
        evil_variant,
        r"config.json names 'adapter_model.bin', which is not in safetensors; save the",
    ),
    "index outside": (
        index_outside,
        "names '../secret.safetensors', which is outside of the folder; correct it",
    ),
    "index of a missing file": (
        index_incomplete,
        "names 'model-00001-of-00002.safetensors', which is missing; copy or",
    ),
    "index is no JSON": (
        index_of(b"["),
        "model.safetensors.index.json is invalid .*; copy or download it again",
    ),
    "index is deep": (
        index_of(b"[" * 100_000),
        "model.safetensors.index.json is invalid .*; copy or download it again",
    ),
    "index of other types": (
        index_of({"weight_map": 5}),
        "model.safetensors.index.json is invalid .*; copy or downl",
    ),
    "index of lists": (
        index_of({"weight_map": {"a": []}}),
        r"index.json names \[\], which is not in safetensors; save",
    ),
    "index of nothing": (
        index_of({"weight_map": {}}),
        "model.safetensors.index.json names no weights; copy or downl",
    ),
    "index of a long name": (
        index_of({"weight_map": {"a": "b" * 300 + ".safetensors"}}),
        "', which is missing; copy",
    ),
    "no weights": (without("*.safetensors"), "no model.safetensors; save the model as safetensors"),
    "zero": (
        weights(lambda found: {name: 0 * value for name, value in found.items()}),
        "all weights are zero",
    ),
    "nan": (
        weights(lambda found: found | {"embeddings.LayerNorm.bias": torch.full((32,), torch.nan)}),
        "embeddings.LayerNorm.bias has values that are not finite",
    ),
    "infinite": (
        weights(
            lambda found: (
                found | {"embeddings.LayerNorm.bias": torch.tensor([*[0.0] * 31, torch.inf])}
            )
        ),
        "embeddings.LayerNorm.bias has values that are not finite",
    ),
    "no configuration": (without("config.json"), "config.json"),
    "configuration is no JSON": (file("config.json", b"{"), "config.json"),
    "configuration is a list": (file("config.json", []), "config.json"),
    "configuration of other types": (other_config(hidden_size="x"), "hidden_size"),
    "code": (with_code, "custom code"),
}
SETTINGS = {
    "pooling is a list": (file("1_Pooling/config.json", [1]), "modules.json of .* is invalid"),
    "pooling is a number": (
        file("1_Pooling/config.json", {"pooling_mode": 5}),
        "modules.json of .* is invalid",
    ),
    "pooling is no JSON": (file("1_Pooling/config.json", b"{"), "modules.json of .* is invalid"),
    "pooling is deep": (
        file("1_Pooling/config.json", b"[" * 100_000),
        "modules.json of .* is invalid",
    ),
    "modules are an object": (file("modules.json", {"a": 1}), "modules.json of .* is invalid"),
    "modules have no type": (file("modules.json", [{"path": ""}]), "modules.json of .* is invalid"),
    "module of other code": (with_module("evil.Module"), "'evil.Module' is not supported"),
    "pooling of other code": (with_module("evil.Pooling"), "'evil.Pooling' is not supported"),
    "pooling is outside": (outside, "'../other', which is outside of the folder"),
}
TOKENIZER = {
    "no tokenizer": (without("tokenizer*"), "tokenizer"),
    "tokenizer is no JSON": (file("tokenizer.json", b"{"), "tokenizer"),
    "tokenizer of another model": (
        small_matrix,
        "the tokenizer .*has the id .*, and the model 50 ids; .* of another",
    ),
}
