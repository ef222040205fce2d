"""Damaged and hostile checkpoints: by name, how a folder of an encoder is damaged, and a pattern of the error."""

from __future__ import annotations

import json
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
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())

    return apply


def truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def pickled(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


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
    other_config(auto_map={"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}, model_type="evil")(folder)
    (folder / "evil.py").write_text(f"open({str(folder / 'executed')!r}, 'w')")


WEIGHTS = {
    "no layer 1": (
        weights(lambda found: {name: value for name, value in found.items() if "layer.1." not in name}),
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
    "fewer layers in the configuration": (other_config(num_hidden_layers=1), "16 of its weights are not part of"),
    "truncated": (truncated, "model.safetensors is damaged .*; copy or download it again"),
    "no safetensors": (file("model.safetensors", b"abc"), "model.safetensors is damaged"),
    "pickle": (pickled, r"in a pickle \(pytorch_model.bin\), which can execute code; .* allow_pickle=True"),
    "no weights": (without("*.safetensors"), "no model.safetensors; save the model with save_pretrained"),
    "zero": (weights(lambda found: {name: 0 * value for name, value in found.items()}), "all weights are zero"),
    "nan": (
        weights(lambda found: found | {"embeddings.LayerNorm.bias": torch.full((32,), torch.nan)}),
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
    "pooling is a number": (file("1_Pooling/config.json", {"pooling_mode": 5}), "modules.json of .* is invalid"),
    "pooling is no JSON": (file("1_Pooling/config.json", b"{"), "modules.json of .* is invalid"),
    "pooling is deep": (file("1_Pooling/config.json", b"[" * 100_000), "modules.json of .* is invalid"),
    "modules are an object": (file("modules.json", {"a": 1}), "modules.json of .* is invalid"),
    "modules have no type": (file("modules.json", [{"path": ""}]), "modules.json of .* is invalid"),
    "pooling is outside": (outside, "'../other', which is outside of the folder"),
}
TOKENIZER = {
    "no tokenizer": (without("tokenizer*"), "tokenizer"),
    "tokenizer is no JSON": (file("tokenizer.json", b"{"), "tokenizer"),
}
