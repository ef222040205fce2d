"""Loading of encoders: resolving names, loading and checking models, reading their settings.

A checkpoint from somebody else is safe to load: weights are read from safetensors only and must fit
the model, none of its code runs, and only kernels that the user names are loaded.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import torch
from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, enable_progress_bars
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from narrative_twins.encoder.adapters import is_plain_lora, merge_adapters, merge_lora
from narrative_twins.extras import check_extra
from narrative_twins.text import LONGEST_MESSAGE, shortened
from narrative_twins.writing import digest_of_files

Pooling: TypeAlias = Literal["mean", "first", "lasttoken", "weightedmean"]

Attention: TypeAlias = Literal["auto", "packed", "padded"]

POOLINGS: tuple[str, ...] = get_args(Pooling)
ATTENTIONS: tuple[str, ...] = get_args(Attention)

PACKAGED = {name: Path(__file__).parent / name for name in ("default", "base", "multilingual")}
"""The folders of the encoders in this package, by their names. All but `default` are adapters, of
bases on the Hub."""
DEFAULT_ENCODER = PACKAGED["default"]

_HUB_OPTIONS = (
    "revision",
    "token",
    "cache_dir",
    "local_files_only",
    "force_download",
    "base_folder",
)
_DTYPES = ("auto", "checkpoint", "float32", "bfloat16", "float16", "float64")
_OTHER_MODELS = tuple(
    "albert- bart- bert- camembert- ctrl deberta- distilbert- distilroberta- electra- flaubert gpt"
    " roberta- t5- transfo-xl xlm- xlnet-".split()
)
"""Prefixes of the Hub ids without an organization, of the first models of transformers."""

_MODULES = ("Transformer", "Pooling", "Normalize")
POOLING_FLAGS = {"cls_token": "first", "mean_tokens": "mean", "lasttoken": "lasttoken"}
POOLING_FLAGS["weightedmean_tokens"] = "weightedmean"
"""The poolings by the names of their flags in configurations of sentence-transformers."""
_POOLINGS = POOLING_FLAGS | {"cls": "first"}
_FINGERPRINTED = (".json", ".safetensors", ".txt", ".model")
"""Suffixes of the files that determine an encoder's vectors: settings, weights, vocabularies."""
_BUFFERS = ("position_ids", "token_type_ids", "inv_freq", "attn.bias", "masked_bias")
"""Suffixes of the names of buffers, which checkpoints of earlier releases contain."""
_SIZES = ("hidden_size", "intermediate_size", "vocab_size", "max_position_embeddings")
_SMALL = 100_000  # sizes up to this need no weights
_USE = f"pooling= to {', '.join(map(repr, POOLINGS[:-1]))} or {POOLINGS[-1]!r}"
_SAVE = "save the model as safetensors with save_pretrained"


def default_encoder() -> str:
    """Return the path of the folder in this package with the default encoder and its model card."""
    return str(DEFAULT_ENCODER)


def encoder_path(name: str | Path | None) -> str:
    """Return the folder or Hub id that the name of an encoder means. None means the default
    encoder; `"default"`, `"base"` and `"multilingual"` are the encoders in this package, also where
    a folder has this name, which is `"./base"`. A name without an organization means a model of
    sentence-transformers: `"all-MiniLM-L6-v2"` → `"sentence-transformers/all-MiniLM-L6-v2"`."""
    resolved = str(PACKAGED.get(str(name or "default"), name))
    is_short = "/" not in resolved and not resolved.startswith(_OTHER_MODELS)
    if is_short and not os.path.exists(resolved):
        return f"sentence-transformers/{resolved}"
    return resolved


def resolve_name(name: str | Path | None, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the `encoder_path` of a name, and the options of `from_pretrained` to load it with: a
    copy of `options`, with `local_files_only` set if the Hub can't be reached. Raises OSError if
    the Hub can't be reached, and the encoder, or the base of an adapter in a folder, is neither a
    folder nor in the cache."""
    _check_name(name)
    path, options = encoder_path(name), dict(options)
    problem = f"encoder {str(name)!r} can't be loaded"
    if os.path.exists(f"{path}/adapter_config.json") and (adapter := adapter_at(path, **options)):
        base, base_hub = adapter
        cure = "connect once, or give the folder of the base: base_folder= (--base-folder DIR)"
        if not _is_reachable(base, base_hub, f"{problem} without its base {base!r}:", cure):
            options["local_files_only"] = True
    elif not _is_offline(options):
        cure = "connect, or name a folder"
        if not _is_reachable(path, options, f"{problem}: it is not a folder,", cure):
            options["local_files_only"] = True
    return path, options


def _check_name(name: str | Path | None) -> None:
    """Raise an OSError if a name is empty, or like that of an encoder in this package."""
    text = str(name)
    if name is None or text in PACKAGED or os.path.exists(text):
        return
    names = ", ".join(map(repr, PACKAGED))
    known = f"encoders of the package are {names}, and others are folders or Hub ids"
    if not text.strip():
        raise OSError(f"the name of the encoder is empty; {known}")
    similar = get_close_matches(text.strip(" /").lower(), PACKAGED, 1, cutoff=0.75)
    if similar and "/" not in text.strip("/"):
        raise OSError(f"there is no encoder {text!r}; do you mean {similar[0]!r}? ({known})")


def _is_offline(options: Mapping[str, Any]) -> bool:
    """Return whether the options or the environment say that the Hub is not asked."""
    return bool(options.get("local_files_only") or constants.HF_HUB_OFFLINE)


def _is_reachable(path: str, options: Mapping[str, Any], problem: str, cure: str) -> bool:
    """Return False if the Hub can't be reached and the checkpoint `path`, a Hub id, is in the
    cache; True if the Hub can be reached, or `path` is no Hub id. `options` are `hub_options`.
    Raises OSError, with the problem and its cure, if it can't be reached and there is no copy."""
    is_hub_id = path.count("/") == 1 and not path.startswith((".", "/", "~"))
    if os.path.exists(path) or not is_hub_id:
        return True
    revision = None if options.get("revision") is None else str(options["revision"])
    reason: Exception | str = "offline mode is set"
    if not _is_offline(options):
        try:  # asked once, since libraries would retry for minutes
            url = hf_hub_url(path, "config.json", revision=revision)
            get_hf_file_metadata(url, token=options.get("token"), timeout=10)
            return True
        except HfHubHTTPError:
            return True  # What the Hub answers is reported with more detail on loading.
        except Exception as error:
            reason = error
    cache = options.get("cache_dir")
    if try_to_load_from_cache(path, "config.json", cache_dir=cache, revision=revision):
        return False
    message = f"the Hub can't be reached ({reason}), and there is no copy in the cache; {cure}"
    raise OSError(shortened(f"{problem} {message}", LONGEST_MESSAGE))


def fingerprint(name: str | Path, config: Any) -> str | None:
    """Return an identifier of the exact version of an encoder: a digest of the files in a folder,
    or the commit in the `config` of a model from the Hub; None if there is no commit."""
    if Path(name).is_dir():
        return digest_of_files(name, _FINGERPRINTED)
    commit: str | None = getattr(config, "_commit_hash", None)
    return commit


def encoder_settings(name: str | Path | None, encoder: Any) -> dict[str, Any]:
    """Return what the vectors of an encoder depend on, as JSON data by name, such as `{"dtype":
    "float32", "context tokens": 512, ...}`. `encoder` is the `StoryEncoder` loaded from `name`,
    with None for the default encoder. A run can be resumed only with equal settings."""
    name = encoder_path(name)
    return {
        "model": Path(name).resolve().name if Path(name).exists() else name,
        "model fingerprint": fingerprint(name, encoder.model.config),
        "dtype": encoder.dtype_name,
        "context tokens": encoder.context_tokens,
        "prompt": encoder.prompt,
    }


class CheckpointError(Exception):
    """A checkpoint can't be loaded; the message has one line. The class is not derived from OSError
    or ValueError: after these, `transformers.pipeline` tries to load the model without checks."""


class AutoStoryModel:
    """Loads models of story encoders for `transformers.pipeline`, in place of `AutoModel`."""

    @classmethod
    def from_pretrained(cls, name: str, **options: Any) -> Any:
        """Return the model of `load_story_model`; raises CheckpointError in place of OSError."""
        try:
            # For an adapter on the Hub, `transformers.pipeline` gives a revision that is a
            # commit of its base.
            if type(options.get("revision")) not in (str, type(None)):
                plain = options | {"revision": str(options["revision"])}
                options = plain if adapter_at(name, **plain) is not None else options
            return load_story_model(name, **options)
        except OSError as error:
            raise CheckpointError(str(error)) from error


def load_story_model(name: str | Path, *, pooling: str | None = None, **options: Any) -> Any:
    """Load the model of a story encoder, with `options` as for `load_model`, and set three
    attributes of the model. `checkpoint_settings` are the settings of the checkpoint, whose pooling
    is read only if `pooling` is None. `default_pooling` is the pooling for a checkpoint that names
    none. `precision` is `"auto"` if the option `dtype` is `"auto"` or missing, otherwise None.
    Raises OSError if the model can't be loaded, and ValueError if the dtype is not supported."""
    dtype = str(options.get("dtype") or "auto").removeprefix("torch.")
    if dtype not in _DTYPES:
        raise ValueError(f"dtype {dtype!r} is not supported; use one of {', '.join(_DTYPES)}")
    if dtype == "checkpoint":
        options["dtype"] = "auto"  # which means this in transformers
    model = load_model(AutoModel, name, **options)
    model.checkpoint_settings = read_checkpoint_settings(name, pooling, **hub_options(options))
    # The default is the same as in sentence-transformers.
    is_decoder = "ForCausalLM" in str(model.config.architectures)
    is_decoder &= getattr(model.config, "is_causal", None) is not False
    model.default_pooling = "lasttoken" if is_decoder else "mean"
    model.precision = "auto" if dtype == "auto" else None
    return model


def load_tokenizer(name: str | Path, **options: Any) -> Any:
    """Load the tokenizer of an encoder; if the encoder is an adapter without a tokenizer, load the
    tokenizer of its base. Raises OSError if the tokenizer can't be loaded."""
    hub = hub_options(options)
    with loading_errors(name, "the tokenizer of encoder"):
        adapter = adapter_at(name, **hub)
        if adapter is not None and not find_file(name, "tokenizer_config.json", hub):
            name, options = adapter[0], _without_hub_options(options) | adapter[1]
        options = {"trust_remote_code": False, **options}
        options.pop("base_folder", None)
        return AutoTokenizer.from_pretrained(name, **options)


def load_model(kind: Any, name: str | Path, **options: Any) -> Any:
    """Load a model with `kind.from_pretrained`, and check that the weights in the checkpoint fit
    the model: transformers would fill missing weights with random numbers. If `name` is a PEFT
    adapter, load its base, and merge the adapter into the base. Raises OSError if the model can't
    be loaded, or the weights do not fit.

    Args:
        kind: an auto class of transformers, for example `AutoModel`.
        name: folder or Hub id.
        options: for `from_pretrained`. Code of the checkpoint is executed only if
            `trust_remote_code` is set.
    """
    if (adapter := adapter_at(name, **options)) is not None:
        base, base_hub = adapter
        model = load_model(kind, base, **_without_hub_options(options) | base_hub)
        _merge_adapter(model, name, base, hub_options(options))
        return model
    if options.pop("base_folder", None) is not None:
        raise OSError(f"base_folder= is for adapters, and encoder {str(name)!r} is none")
    # The attention that `config.json` names is not used: it could be a kernel of the Hub, whose
    # code would run.
    options = {"attn_implementation": None, **options, "use_safetensors": True}
    options |= {"weights_only": True, "trust_remote_code": bool(options.get("trust_remote_code"))}
    # Weights of other sizes are then reported in `info`, like missing ones.
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    with loading_errors(name), _quiet(name):
        # `attn_implementation` among the options takes effect on a loaded configuration too.
        if options.get("config") is None:
            keys = (*_HUB_OPTIONS, "subfolder", "trust_remote_code")
            config = AutoConfig.from_pretrained(
                name, **{key: options[key] for key in keys if key in options}
            )
            # Drop the attention that `config.json` names; the user's is among the options.
            config._attn_implementation = None
            # Move settings of the configuration, such as a dropout, from the options. They are
            # attributes of its class; `config.json` could have any other, such as `revision`.
            changed = (options.keys() & set(dir(type(config)))) - {"dtype", "torch_dtype"}
            config.update({key: options.pop(key) for key in changed})
            options["config"] = config
        _check_tensors(check_weights(name, options), options["config"])
        model, info = kind.from_pretrained(name, **options)
        if problem := _misfit(model, info) or _not_finite(model):
            raise ValueError(problem)
    return model


def adapter_at(name: str | Path, **options: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the folder or Hub id of the base of a PEFT adapter, and the options to find files of
    the base (see `hub_options`). Returns None if the checkpoint `name` is no adapter. `options` are
    as for `load_model`. Raises OSError if the adapter is invalid, or if its folder also has the
    weights of a whole model."""
    hub = hub_options(options)
    with loading_errors(name):
        files = ("model.safetensors", "model.safetensors.index.json")
        whole = any(find_file(name, file, hub) for file in files)
        # On the Hub, an adapter is looked for only if there are no other weights, as each missing
        # file costs a request.
        if whole and not Path(name).is_dir():
            return None
        config = read_json(name, "adapter_config.json", hub)
        if config is None:
            return None
        if whole:
            raise ValueError("it has both an adapter and weights of a whole model; remove one")
        return _base_of(config, hub)


def _base_of(adapter: Mapping[str, Any], hub: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the result of `adapter_at` from an `adapter_config.json`. Raises ValueError if the
    folder of the base does not exist."""
    folder = hub.get("base_folder")
    base = str(folder or adapter["base_model_name_or_path"])
    if not Path(base).exists() and (folder or Path(base).is_absolute()):
        setting = "base_folder" if folder else "base_model_name_or_path"
        raise ValueError(f"no base at {base!r}; correct {setting}")
    if folder and not Path(base, "config.json").is_file():
        raise ValueError(
            f"no base at {base!r}: it is no folder with a config.json; base_folder= (--base-folder)"
            f" is the folder of {adapter['base_model_name_or_path']!r}"
        )
    base_hub = {key: hub[key] for key in hub if key not in ("revision", "base_folder")}
    if adapter.get("revision") and not folder:
        base_hub["revision"] = adapter["revision"]
    return base, base_hub


def _merge_adapter(model: Any, name: str | Path, base: str, hub: dict[str, Any]) -> None:
    """Load the adapter `name`, a folder or Hub id, and merge it in place into its base, the loaded
    `model` of the folder or Hub id `base`. `hub` are the `hub_options` of the adapter. All weights
    of the model can be trained afterwards. Raises OSError if the adapter can't be loaded or
    merged."""
    with loading_errors(name), _quiet(name):
        file = find_file(name, "adapter_model.safetensors", hub)
        if file is None:
            raise ValueError(f"no adapter_model.safetensors; {_SAVE}")
        config, weights = read_json(name, "adapter_config.json", hub), load_file(file)
        is_plain = is_plain_lora(config, weights)
        if is_plain:
            wrong = merge_lora(model, config, weights)
        else:
            wrong = _load_with_peft(model, name, hub)
        if wrong:
            raise ValueError(
                f"{len(wrong)} weights of the adapter are missing or not part of the model"
                f" ({min(wrong)}, ...); it is for {config['base_model_name_or_path']!r}, and"
                f" {base!r} is another model"
            )
        if not is_plain:
            merge_adapters(model)
        if problem := _not_finite(model):
            raise ValueError(f"with the adapter, {problem}")
    # What depends on the encoder, such as saved scores, depends on the adapter, not on its base.
    model.name_or_path = str(name)


def _load_with_peft(model: Any, name: str | Path, hub: Mapping[str, Any]) -> set[str]:
    """Load an adapter into the layers of its base by its library, and return the names of weights
    that are missing or not part of the model. Arguments are as for `_merge_adapter`."""
    check_extra("peft")
    # `load_adapter` replaces the renamings of weights on loading, which saving reverts, by
    # renamings of the adapter's weights.
    renamings = getattr(model, "_weight_conversions", None)
    hub = {key: value for key, value in hub.items() if key != "base_folder"}
    info = model.load_adapter(str(name), adapter_kwargs=hub, use_safetensors=True)
    model._weight_conversions = renamings
    model.requires_grad_(True)  # the library freezes the weights of the base
    return {*info.missing_keys, *info.unexpected_keys}


def check_weights(name: str | Path, options: Mapping[str, Any]) -> list[str]:
    """Return the local paths of the files with the weights of the checkpoint `name`; no file is
    opened. `options` are as for `load_model`. Raises ValueError if there are no weights in
    safetensors, or if `config.json` or an index names any other file: a pickle can execute code."""
    hub = {**hub_options(options), "subfolder": options.get("subfolder") or ""}
    variant = f".{options['variant']}" if options.get("variant") else ""
    if file := getattr(options.get("config"), "transformers_weights", None):
        raise ValueError(f"config.json names {file!r}; rename the weights to model.safetensors")
    if path := find_file(name, f"model{variant}.safetensors", hub):
        return [path]
    source = f"model.safetensors.index{variant}.json"
    index = read_json(name, source, hub)
    if index is None:
        raise ValueError(f"no weights in safetensors, and pickles are not read; {_SAVE}")
    names = dict.fromkeys(index["weight_map"].values())
    for file in names:
        if not re.fullmatch(r"[^/\\]+\.safetensors", str(file)):
            raise ValueError(f"{source} names {file!r}, not safetensors in its folder; {_SAVE}")
    return [path for file in names if (path := find_file(name, file, hub)) is not None]


def same_weights(files: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether two checkpoints, each some safetensors files, have equal weights by name."""
    with ExitStack() as stack:
        one, other = (
            {
                name: file
                for path in paths
                for file in [stack.enter_context(safe_open(path, framework="torch"))]
                for name in file.keys()
            }
            for paths in (files, others)
        )
        return one.keys() == other.keys() and all(
            torch.equal(one[name].get_tensor(name), other[name].get_tensor(name)) for name in one
        )


def _check_tensors(files: Iterable[str], config: Any) -> None:
    """Check the types and shapes of the weights in safetensors files, before the weights are read.
    Raises ValueError for integers, which transformers would turn into floating-point numbers, and
    for sizes in `config` far beyond the weights: such a model would fill the memory."""
    count = numbers = 0
    is_quantized = bool(getattr(config, "quantization_config", None))
    for path in files:
        with safe_open(path, framework="numpy") as file:
            for key in file.keys():
                weight = file.get_slice(key)
                dtype, shape = weight.get_dtype(), weight.get_shape()
                count, numbers = count + 1, numbers + math.prod(shape)
                is_integer = dtype.startswith(("I", "U", "BOOL")) and not key.endswith(_BUFFERS)
                if is_integer and len(shape) > 1 and not is_quantized:
                    raise ValueError(f"{key} has integers ({dtype}); save the model in float32")
    # Layers may share their weights, so there can be more layers than weights.
    limits = dict.fromkeys(_SIZES, max(numbers, _SMALL)) | {"num_hidden_layers": max(count, 1000)}
    for name, limit in limits.items():
        size = getattr(config, name, None)
        if isinstance(size, int) and size > limit:
            raise ValueError(
                f"config.json has {name} {size:,}, and the checkpoint {count:,} weights of"
                f" {numbers:,} numbers; correct it"
            )


def _misfit(model: Any, info: Mapping[str, Any]) -> str | None:
    """Return what is wrong if the weights of a checkpoint do not fit the loaded model, else None.
    `info` is the report of `from_pretrained` on missing, unexpected and mismatched weights. Missing
    weights of heads and the pooler are not reported, as no token state depends on them; their names
    are set as `model.untrained`."""
    base = getattr(model, model.base_model_prefix, model)
    prefix = f"{model.base_model_prefix}."
    parts = {name for name, _ in base.named_children()} - {"pooler"}
    mismatched = [key for key, *_ in info.get("mismatched_keys", ())]
    for keys, problem in (
        (mismatched, "have other sizes than config.json says"),
        (info["missing_keys"], "are missing"),
        (info["unexpected_keys"], "are not part of the model"),
    ):
        names = sorted(
            name
            for key in keys
            if base is model or key.startswith(prefix)
            if (name := key.removeprefix(prefix)).partition(".")[0] in parts
            and not name.endswith(_BUFFERS)
        )
        if names:
            return f"{len(names)} of its weights {problem} ({names[0]}, ...); use its own weights"
    model.untrained = [key.removeprefix(prefix) for key in (*info["missing_keys"], *mismatched)]
    return None


def _not_finite(model: torch.nn.Module) -> str | None:
    """Return a message that names a weight with infinite or NaN values; None if there is none."""
    base = getattr(model, getattr(model, "base_model_prefix", ""), model)
    for name, weight in base.named_parameters():
        if not torch.isfinite(weight.detach().sum(dtype=torch.float32)):
            return f"{name} has values that are not finite; it is damaged, or training diverged"
    return None


class CheckpointSettings(NamedTuple):
    """Settings of a sentence-transformers checkpoint that change its vectors.

    Attributes:
        pooling: one of `POOLINGS`, or the name of a pooling that the package does not support; None
            if the checkpoint names none.
        lowercase: whether text is lowercased before it is tokenized.
        include_prompt: whether the tokens of the prompt are pooled.
        prompts: the prompts to choose from, texts by name.
        prompt: the text that is read before every text; empty for none.
    """

    pooling: str | None = None
    lowercase: bool = False
    include_prompt: bool = True
    prompts: Mapping[str, str] = {}
    prompt: str = ""

    def with_prompt(self, prompt: str | None, name: str | None) -> CheckpointSettings:
        """Return the settings with `prompt`, or if `prompt` is None, with the prompt of this
        `name`; unchanged if both are None. Raises ValueError for an unknown name."""
        if prompt is None and name is not None:
            if name not in self.prompts:
                names = ", ".join(map(repr, self.prompts)) or "none"
                raise ValueError(f"prompt_name={name!r}: the prompts of the checkpoint are {names}")
            prompt = self.prompts[name]
        return self if prompt is None else self._replace(prompt=prompt)

    def saved_prompts(self) -> dict[str, Any]:
        """Return the prompts as sentence-transformers saves them: `prompts` by name, and the name
        of `prompt` (or None) as `default_prompt_name`. A prompt without a name gets `"story"`."""
        prompts = dict(self.prompts)
        if self.prompt and self.prompt not in prompts.values():
            prompts["story"] = self.prompt
        names = (name for name, text in prompts.items() if text == self.prompt)
        return {"prompts": prompts, "default_prompt_name": next(names) if self.prompt else None}


def read_checkpoint_settings(
    name: str | Path, pooling: str | None = None, **hub: Any
) -> CheckpointSettings:
    """Return the settings of the checkpoint `name`, a folder or Hub id; the defaults if the
    checkpoint has no settings. An adapter without settings has the settings of its base. Unless
    `pooling` is None, the settings of the pooling are defaults, whatever the checkpoint has. `hub`
    are `hub_options`. Raises OSError if a file of the settings is invalid or missing."""
    with loading_errors(name, "the settings of encoder"):
        modules = read_json(name, "modules.json", hub)
        if modules is None:
            if (adapter := adapter_at(name, **hub)) is None:
                return CheckpointSettings()
            return read_checkpoint_settings(adapter[0], pooling, **adapter[1])
        # A class of another library keeps the name of its module here, and is refused later.
        theirs = re.compile(r"^sentence_transformers\..*\.")
        folders = {theirs.sub("", module["type"]): module["path"] for module in modules}
        if folders.get("Transformer"):
            raise ValueError(f"the transformer is in {folders['Transformer']}; load that folder")
        config: dict[str, Any] = {}
        if pooling is not None:
            folders = {}
        elif "Pooling" in folders:
            file = f"{folders['Pooling']}/config.json"
            if (config := read_json(name, file, hub)) is None:
                raise ValueError(f"{file} is missing; get it, or set {_USE}")
        transformer = read_json(name, "sentence_bert_config.json", hub) or {}
        general = read_json(name, "config_sentence_transformers.json", hub) or {}
        return CheckpointSettings(
            _pooling_name(folders, config),
            bool(transformer.get("do_lower_case")),
            bool(config.get("include_prompt", True)),
            *_saved_prompts(general),
        )


def _saved_prompts(config: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """Return the prompts by name, and the default prompt, as sentence-transformers saves them."""
    # Adding raises an error unless the prompt is a text.
    prompts = {name: "" + (text or "") for name, text in (config.get("prompts") or {}).items()}
    default = config.get("default_prompt_name")
    return prompts, "" if default is None else prompts[default]


def module_settings(model: Any) -> CheckpointSettings:
    """Return the settings of a loaded `SentenceTransformer`."""
    kinds = {type(module).__name__: module for module in model}
    config = kinds["Pooling"].get_config_dict() if "Pooling" in kinds else {}
    return CheckpointSettings(
        _pooling_name(kinds, config),
        bool(getattr(kinds.get("Transformer"), "do_lower_case", False)),
        config.get("include_prompt", True),
        dict(model.prompts),
        model.prompts.get(model.default_prompt_name) or "",
    )


def settings_of(model: Any, pooling: str | None = None) -> CheckpointSettings:
    """Return the settings of the checkpoint if plain `AutoModel` loaded `model` from a folder;
    otherwise the defaults. `pooling` is as in `read_checkpoint_settings`. Raises OSError if the
    settings are invalid."""
    name = getattr(model, "name_or_path", "")
    is_folder = name and Path(name).is_dir()
    return read_checkpoint_settings(name, pooling) if is_folder else CheckpointSettings()


def supported_pooling(name: str, is_causal: bool = False) -> Pooling:
    """Return the pooling `name` if it is supported. Raises ValueError if it is not, and for
    `"first"` if the model reads from left to right only (`is_causal`)."""
    problem = ""
    if not name.islower():  # the name of a class
        problem = f"module {name!r} is not supported, only Normalize after the pooling"
    elif name not in POOLINGS:
        problem = f"pooling {name!r} is not supported"
    elif is_causal and name == "first":
        problem = "the model reads from left to right, so its 'first' token has read no text"
    if problem:
        raise ValueError(f"{problem}; set {_USE}")
    return cast(Pooling, name)


def _pooling_name(kinds: Iterable[str], config: Mapping[str, Any]) -> str | None:
    """Return the pooling in the settings of a checkpoint, such as `"mean"`; None if there is none.
    Several poolings, or unsupported modules, are joined by `+`. `kinds` are the class names of the
    checkpoint's modules. `config` is the configuration of its pooling module, which has the key
    `pooling_mode` in sentence-transformers 6, and in earlier releases a flag for each pooling."""
    prefix = "pooling_mode_"
    unknown = [kind for kind in kinds if kind not in _MODULES]
    flags = [
        key.removeprefix(prefix) for key, on in config.items() if key.startswith(prefix) and on
    ]
    modes = unknown or config.get("pooling_mode") or flags
    modes = [modes] if isinstance(modes, str) else modes
    return "+".join(_POOLINGS.get(mode, mode) for mode in modes) or None


def hub_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that say where and how to find files, such as `revision` and `token`."""
    return {key: options[key] for key in _HUB_OPTIONS if key in options}


def _without_hub_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that `hub_options` does not return."""
    return {key: value for key, value in options.items() if key not in _HUB_OPTIONS}


def find_file(name: str | Path, file: str, hub: Mapping[str, Any]) -> str | None:
    """Return the local path of a file of the checkpoint `name`, after a download if the checkpoint
    is on the Hub; None if the checkpoint has no such file. `hub` are the `hub_options`."""
    options = {key: value for key, value in hub.items() if key != "base_folder"}
    options["_raise_exceptions_for_missing_entries"] = False
    path: str | None = cached_file(name, file, **options)
    return path


def read_json(name: str | Path, file: str, hub: Mapping[str, Any]) -> Any:
    """Return the content of a JSON file of a checkpoint; None if the checkpoint has no such file.
    Arguments are as for `find_file`. Raises ValueError if the file is invalid."""
    path = find_file(name, file, hub)
    try:
        return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is invalid ({error})") from error


@contextmanager
def loading_errors(name: str | Path, kind: str = "encoder") -> Iterator[None]:
    """Turn every error within the `with` block into an `OSError` with one line, for example
    `encoder 'x' (a folder) can't be loaded: ...`, where `kind` is `encoder` and `name` is `x`."""
    try:
        yield
    except Exception as error:
        place = "a folder" if Path(name).exists() else "no folder, so taken as a Hub id"
        problem = str(error)
        if isinstance(error, SafetensorError):
            problem = f"model.safetensors is damaged ({error}); copy or download it again"
        elif "trust_remote_code" in problem:
            problem = "it has custom code, which runs only with trust_remote_code=True in Python"
        elif not isinstance(error, (OSError, ValueError)):
            problem = f"{type(error).__name__}: {error}"
        message = f"{kind} {str(name)!r} ({place}) can't be loaded: {problem}"
        raise OSError(shortened(message, LONGEST_MESSAGE)) from error


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Hide the progress bars of transformers within the `with` block, except of downloads."""
    was_enabled = transformers_logging.is_progress_bar_enabled()
    downloads_shown = not are_progress_bars_disabled()
    transformers_logging.disable_progress_bar()
    if downloads_shown:
        enable_progress_bars()
    try:
        yield
    finally:
        if was_enabled:
            transformers_logging.enable_progress_bar()


@contextmanager
def _quiet(name: str | Path) -> Iterator[None]:
    """Hide the table of transformers on weights that do not fit, within the `with` block. If the
    checkpoint `name` is a folder, hide progress bars too; a download shows them."""
    logger = logging.getLogger("transformers.modeling_utils")

    def is_no_report(record: logging.LogRecord) -> bool:
        """Return False for the log record with the table, True for all others."""
        return "LOAD REPORT" not in record.getMessage()

    logger.addFilter(is_no_report)
    try:
        with no_progress_bars() if Path(name).is_dir() else nullcontext():
            yield
    finally:
        logger.removeFilter(is_no_report)


def hide_default_model_warning(model: str) -> None:
    """Hide the warning of `transformers.pipeline` that the user named no model, and that the
    pipeline loads its default `model`."""
    start = f"No model was supplied, defaulted to {model} "
    logging.getLogger("transformers.pipelines").addFilter(
        lambda record: not record.getMessage().startswith(start)
    )
