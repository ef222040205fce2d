"""Pushes of data sets, and the corpora of the package as a data set: plain libraries load them."""

import re
from pathlib import Path

import export_corpora
import pytest
from datasets import Dataset, DatasetDict, get_dataset_config_names, load_dataset
from huggingface_hub import DatasetCard

from narrative_twins.data import load_window_twins
from narrative_twins.data.sources import corpus_rows
from narrative_twins.hub import DatasetFacts, push_dataset

NAME = "somebody/stories"
CORPORA = ["stories", "synopses", "everyday", "prose", "translations"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "corpora"
    export_corpora.export_corpora(folder)
    return folder


def test_round_trip_of_a_data_set_with_two_configurations(hub, tmp_path):
    rows = [{"id": "1", "story": ["Omar-7 ran."], "twin": None}, {"id": "2", "story": ["He fell."]}]
    twins = DatasetDict(train=Dataset.from_list(rows), validation=Dataset.from_list(rows[:1]))
    labeled = Dataset.from_list([{"story": ["Omar ran.", "He fell."], "counts": [1, 4]}])
    data, facts = {"twins": twins, "labeled": labeled}, DatasetFacts(description="Two kinds")
    push_dataset(data, NAME, facts=facts, commit_message="Two kinds")
    assert hub.messages == ["Two kinds"]
    for name, content in hub.files("datasets", NAME).items():
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_bytes(content)
    for name, expected in (("twins", twins), ("labeled", {"train": labeled})):
        found = load_dataset(str(tmp_path / "folder"), name, cache_dir=str(tmp_path / "cache"))
        for split, part in expected.items():
            assert found[split].to_list() == part.to_list()
    card = (tmp_path / "folder" / "README.md").read_text()
    assert "Omar-7" not in card and "Two kinds" in card
    with pytest.raises(ValueError, match="no rows"):
        push_dataset({"twins": Dataset.from_list([])}, NAME)


def test_exported_rows_are_those_of_the_package(exported, tmp_path):
    cache = str(tmp_path / "cache")
    expected = corpus_rows("synopses")["validation"]
    stock = load_dataset(str(exported), "synopses", split="validation", cache_dir=cache)
    own = load_window_twins(exported, "validation", name="synopses", cache_dir=cache)
    assert stock.features == expected.features
    assert stock.to_list() == own.to_list() == expected.to_list()


def test_cards_of_the_exported_corpora(exported):
    assert get_dataset_config_names(str(exported)) == CORPORA
    card = DatasetCard.load(exported / "README.md")
    assert card.data.license == "cc0-1.0" and card.data.configs[0]["default"]
    assert "| `negative_twin` | list of string |" in card.text and "| train | 1,721 |" in card.text
    for name in CORPORA:
        for text in (card.text, (exported / name / "README.md").read_text()):
            assert f'load_dataset("user/name", "{name}")' in text
    for target in re.findall(r"\]\((?!http)([^)]+)\)", card.text):
        assert (exported / target).is_file(), "links of the card lead to files"


def test_the_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(export_corpora, "CORPORA", ["everyday"])
    (tmp_path / "empty").mkdir()
    parts = (f"{split}-00000-of-00001.parquet" for split in ("train", "validation"))
    files = ["README.md", *(f"everyday/{name}" for name in ("README.md", *parts))]
    assert export_corpora.export_corpora("empty") == files
    assert all((tmp_path / "empty" / file).is_file() for file in files)
    with pytest.raises(FileExistsError, match="a folder with files; name a new folder"):
        export_corpora.export_corpora("empty")
    with pytest.raises(OSError, match="No such file or directory"):
        export_corpora.export_corpora("no/where")
