"""The names of encoders: folders, Hub ids, and short names of models of sentence-transformers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError

from narrative_twins.encoder.loading import hub_options, one_line

_ORGANIZATION = "sentence-transformers"
_OTHER_MODELS = (
    *(
        "albert-",
        "bart-",
        "bert-",
        "camembert-",
        "ctrl",
        "deberta-",
        "distilbert-",
        "distilroberta-",
        "electra-",
    ),
    *("flaubert", "gpt", "roberta-", "t5-", "transfo-xl", "xlm-", "xlnet-"),
)
"""How names of the first models of transformers begin, which have no organization either."""
_FILE = "config.json"
_SECONDS = 10


def resolve_name(name: str | Path, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The folder or Hub id that a name stands for, and the options to load it with. A name without
    an organization, such as `all-MiniLM-L6-v2`, is one of sentence-transformers, as in that
    library.

    What is on the Hub is asked for once, so that without a connection an error comes at once, or
    the copy in the cache is used; libraries try again for minutes.

    Args:
        name: a folder, Hub id or short name.
        options: options for `from_pretrained`.

    Raises:
        OSError: the encoder is neither a folder nor in the cache, and the Hub can't be reached.
    """
    found, options = str(name), dict(options)
    if os.path.exists(found):
        return found, options
    if "/" not in found and not found.startswith(_OTHER_MODELS):
        found = f"{_ORGANIZATION}/{found}"
    hub = hub_options(options)
    if hub.get("local_files_only") or constants.HF_HUB_OFFLINE or not _is_hub_id(found):
        return found, options
    revision = hub.get("revision")
    try:
        url = hf_hub_url(found, _FILE, revision=None if revision is None else str(revision))
        get_hf_file_metadata(url, token=hub.get("token"), timeout=_SECONDS)
    except HfHubHTTPError:
        pass  # What the Hub answers is told with more detail where the files are loaded.
    except Exception as error:
        cached = try_to_load_from_cache(
            found, _FILE, cache_dir=hub.get("cache_dir"), revision=hub.get("revision")
        )
        if not isinstance(cached, str):
            raise OSError(
                one_line(
                    f"encoder {str(name)!r} can't be loaded: it is no folder, the Hub can't be"
                    f" reached ({error}), and there is no copy in the cache; connect, or name a"
                    " folder"
                )
            ) from error
        options["local_files_only"] = True
    return found, options


def _is_hub_id(name: str) -> bool:
    return name.count("/") == 1 and not name.startswith((".", "/", "~"))
