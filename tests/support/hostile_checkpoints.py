"""Damaged and hostile checkpoints: by name, how the folder of an encoder is damaged, and a pattern
of the error."""

import json
import pickle
import shutil

import torch
from safetensors.torch import load_file, save_file

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
    """Files removed."""
    return lambda folder: [path.unlink() for path in folder.glob(pattern)]


def edited(name, **changes):
    """Other values in a JSON file."""

    def apply(folder):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return apply


def index_of(part, index=INDEX):
    """An index in place of the weights that names one file, or has other content; the file is an
    evil pickle."""

    def apply(folder):
        (folder / MODEL).rename(folder.parent / "secret.safetensors")
        file(
            index, part if isinstance(part, bytes) else {"metadata": {}, "weight_map": {"x": part}}
        )(folder)
        if part == "evil.bin":
            evil(folder / part)

    return apply


def pickled(folder):
    """Harmless weights in a pickle."""
    torch.save(load_file(folder / MODEL), folder / "pytorch_model.bin")
    (folder / MODEL).unlink()


def both(*changes):
    return lambda folder: [change(folder) for change in changes]


evil_parts = index_of("evil.bin", "pytorch_model.bin.index.json")
evil_index = index_of("evil.bin")


def with_module(kind):
    """Another module of a class, with its code."""
    folders = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [
        {"path": path, "type": f"sentence_transformers.models.{name}"}
        for name, path in folders.items()
    ]
    return both(
        file("modules.json", [*modules, {"path": "2_Module", "type": kind}]),
        lambda folder: (folder / "evil.py").write_text(f"open({str(folder / 'executed')!r}, 'w')"),
    )


def _bert(name, value):
    return weights(lambda tensors: tensors | {name: value})


_CODE = {"auto_map": {"AutoConfig": "evil.C", "AutoModel": "evil.M"}, "model_type": "evil"}
_PICKLE = "no weights in safetensors, and pickles are not read; save the model as safetensors"
_NAMED = "not safetensors in its folder; save the model as safetensors"
_MODULES = "modules.json of .* is invalid"
_EMBEDDINGS = "embeddings.word_embeddings.weight"
_TRANSFORMER = [{"path": "0_T", "type": "sentence_transformers.models.Transformer"}]
_PROMPTS = "config_sentence_transformers.json"
# fmt: off
WEIGHTS = {
    "no layer 1": (weights(lambda found: {name: x for name, x in found.items() if "layer.1." not in name}),
                   r"16 of its weights are missing \(encoder.layer.1.attention"),
    "another layer": (_bert("encoder.layer.2.output.dense.bias", torch.ones(3)),
                      r"1 of its weights are not part of the model \(encoder.layer.2.output.dense.bias"),
    "control characters": (_bert("encoder.\x1b[31m\x9b\u202e", torch.ones(3)), "not part of the model"),
    "unrelated": (weights(lambda found: {f"x.{name}": value for name, value in found.items()}),
                  r"37 of its weights are missing \(embeddings.LayerNorm.bias"),
    "other sizes": (edited("config.json", intermediate_size=40), "have other sizes than config.json says"),
    "truncated": (lambda folder: file(MODEL, (folder / MODEL).read_bytes()[:-100])(folder),
                  "model.safetensors is damaged .*; copy or download it again"),
    "no weights": (without("*.safetensors"), _PICKLE),
    "pickle": (pickled, _PICKLE),
    "evil parts": (evil_parts, _PICKLE),
    "evil index": (evil_index, f"model.safetensors.index.json names 'evil.bin', {_NAMED}"),
    "evil setting": (both(edited("config.json", transformers_weights="evil.bin"), lambda x: evil(x / "evil.bin")),
                     "config.json names 'evil.bin'; rename the weights to model.safetensors"),
    "index outside": (index_of("../secret.safetensors"), f"names '../secret.safetensors', {_NAMED}"),
    "index of a missing file": (index_of("gone.safetensors"), "gone.safetensors"),
    "index is no JSON": (index_of(b"["), f"{INDEX} is invalid"),
    "index is deep": (index_of(b"[" * 100_000), f"{INDEX} is invalid"),
    "nan": (_bert("embeddings.LayerNorm.bias", torch.full((32,), torch.nan)), "LayerNorm.bias has values that are not"),
    "integers": (weights(lambda found: {name: x.to(torch.int8) for name, x in found.items()}), r"has integers \(I8\)"),
    "many layers": (edited("config.json", num_hidden_layers=10**7), "config.json has num_hidden_layers 10,000,000"),
    "a huge vocabulary": (edited("config.json", vocab_size=10**12), "config.json has vocab_size 1,000,000,000,000"),
    "no configuration": (without("config.json"), "config.json"),
    "configuration is no JSON": (file("config.json", b"{"), "config.json"),
    "configuration of other types": (edited("config.json", hidden_size="x"), "hidden_size"),
    "code": (both(edited("config.json", **_CODE), file("evil.py", b"1/0")), "custom code"),
}
SETTINGS = {
    "pooling is a number": (file("1_Pooling/config.json", {"pooling_mode": 5}), _MODULES),
    "pooling is deep": (file("1_Pooling/config.json", b"[" * 100_000), _MODULES),
    "pooling is missing": (lambda folder: shutil.rmtree(folder / "1_Pooling"),
                           "1_Pooling/config.json is missing; get it, or set pooling= to 'mean', 'first', 'lasttoken' or"),
    "pooling is null": (file("1_Pooling/config.json", b"null"), _MODULES),
    "modules are null": (file("modules.json", b"null"), _MODULES),
    "transformer is elsewhere": (file("modules.json", _TRANSFORMER), "the transformer is in 0_T; load that folder"),
    "modules are no JSON": (file("modules.json", b"{no"), _MODULES),
    "modules have no type": (file("modules.json", [{"path": ""}]), _MODULES),
    "module of other code": (with_module("evil.Module"), "'evil.Module' is not supported"),
    "prompts are no texts": (both(file("modules.json", _TRANSFORMER[:0]), file(_PROMPTS, {"prompts": {"a": 5}})),
                             "invalid .can only concatenate str"),
    "prompts are a list": (both(file("modules.json", _TRANSFORMER[:0]), file(_PROMPTS, {"prompts": ["a"]})), _MODULES),
    "prompt is unknown": (both(file("modules.json", _TRANSFORMER[:0]), file(_PROMPTS, {"default_prompt_name": "a"})),
                          "invalid .'a'"),
    "pooling is outside": (file("modules.json", [{"path": "../o", "type": "sentence_transformers.models.Pooling"}]),
                           "'../o/config.json' is outside of the folder"),
    "no tokenizer": (without("tokenizer*"), "tokenizer"),
    "tokenizer is no JSON": (file("tokenizer.json", b"{"), "tokenizer"),
    "tokenizer of another model": (both(_bert(_EMBEDDINGS, torch.ones(50, 32)), edited("config.json", vocab_size=50)),
                                   "the tokenizer .*has the id .*, and the model 50 ids; .* of another"),
}
