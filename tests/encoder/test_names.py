"""Names of encoders: folders, Hub ids, short names; and what happens without a connection."""

from __future__ import annotations

import pytest
from huggingface_hub import constants

from narrative_twins import StoryEncoder
from narrative_twins.encoder import names
from narrative_twins.encoder.names import resolve_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("user/model", "user/model"),
        ("bert-base-uncased", "bert-base-uncased"),
        ("xlm-roberta-base", "xlm-roberta-base"),
    ],
)
def test_short_names_are_of_sentence_transformers(name, expected):
    assert resolve_name(name, {"local_files_only": True}) == (expected, {"local_files_only": True})


def test_folders_come_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all-MiniLM-L6-v2").mkdir()
    assert resolve_name("all-MiniLM-L6-v2", {"token": "t"}) == ("all-MiniLM-L6-v2", {"token": "t"})
    assert resolve_name(tmp_path, {}) == (str(tmp_path), {})


def test_without_a_connection_the_error_comes_after_a_single_request(monkeypatch, tmp_path):
    requests = []

    def fail(url, **options):
        requests.append(url)
        raise ConnectionError("name or service not known")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(names, "get_hf_file_metadata", fail)
    for name in ("all-MiniLM-L6-v2", "user/model"):
        with pytest.raises(
            OSError,
            match=f"encoder '{name}' can't be loaded: it is no folder, the Hub can't be reached",
        ):
            StoryEncoder.from_pretrained(name, cache_dir=tmp_path)
    assert len(requests) == 2 and "sentence-transformers/all-MiniLM-L6-v2" in requests[0]
    # A copy in the cache is used as it is.
    monkeypatch.setattr(
        names, "try_to_load_from_cache", lambda *_, **__: str(tmp_path / "config.json")
    )
    assert resolve_name("user/model", {"token": "t"}) == (
        "user/model",
        {"token": "t", "local_files_only": True},
    )
