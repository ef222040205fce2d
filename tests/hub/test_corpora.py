"""The exported corpora of the package: plain `datasets` loads them, from the folder and from the
Hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from datasets import get_dataset_config_names, load_dataset
from huggingface_hub import DatasetCard

from narrative_twins.commands.cli import main
from narrative_twins.data import load_story_salience, load_story_twins, load_window_twins
from narrative_twins.hub.corpora import export_corpora
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.hub.push import push_dataset

from support.processes import run_python

NAMES = ["stories", "synopses", "everyday", "prose"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "corpora"
    export_corpora(folder)
    return folder


@pytest.mark.parametrize(
    ("name", "load"), [("stories", load_story_twins), ("synopses", load_window_twins)]
)
def test_datasets_loads_the_rows_of_the_package(exported, name, load, tmp_path):
    found = load_dataset(str(exported), name, cache_dir=str(tmp_path))
    expected = load()
    assert found.keys() == expected.keys()
    for split, rows in expected.items():
        assert found[split].features == rows.features and found[split].to_list() == rows.to_list()
    assert (
        load(exported, name=name, cache_dir=str(tmp_path / "own"))["train"].to_list()
        == expected["train"].to_list()
    )


@pytest.mark.parametrize("name", ["everyday", "prose"])
def test_judged_corpora_load(exported, name, tmp_path):
    found = load_dataset(str(exported), name, split="validation", cache_dir=str(tmp_path))
    expected = load_story_salience(split="validation", name=name)
    assert found["id"][:] == expected["id"][:] and found["story"][:] == expected["story"][:]
    again = load_story_salience(exported, "validation", name=name, cache_dir=str(tmp_path / "own"))
    assert again.to_list() == expected.to_list()


def test_cards(exported):
    assert get_dataset_config_names(str(exported)) == NAMES
    card = DatasetCard.load(exported / "README.md")
    assert card.data.license == "cc0-1.0" and [
        entry for entry in card.data.configs if entry.get("default")
    ]
    assert "| `negative_twin` | list of string |" in card.text and "| train | 1,721 |" in card.text
    for name in NAMES:
        assert (
            f'load_dataset("user/name", "{name}")' in card.text
            and f"({name}/README.md)" in card.text
        )
        text = (exported / name / "README.md").read_text()
        assert text.startswith("# ") and f'load_dataset("user/name", "{name}")' in text
    # Links of the cards lead to files.
    assert all(
        (exported / target).is_file() for target in re.findall(r"\]\((?!http)([^)]+)\)", card.text)
    )


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for folder in ("new", "empty"):
        assert main(["data", "export", folder]) == 0
        listed = capsys.readouterr().out.split()
        files = sorted(
            path.relative_to(folder).as_posix()
            for path in Path(folder).rglob("*")
            if path.is_file()
        )
        assert files == sorted(listed) and len(files) == 13
    assert main(["data", "export", "new"]) == 1
    assert (
        "new is a file, the working directory or a folder with files; name a new folder"
        in capsys.readouterr().err
    )
    assert main(["data", "export", "no/where"]) == 1
    assert "the folder of no/where does not exist" in capsys.readouterr().err


def test_an_export_is_whole_or_not_there(tmp_path, monkeypatch):
    written = []

    def full(self, data):
        if len(written) == 5:
            raise OSError("no space left")
        written.append(self)
        return write(self, data)

    write = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        export_corpora(tmp_path / "data")
    assert os.listdir(tmp_path) == []


def test_push_of_the_folder(exported, hub, tmp_path):
    (exported / "notes.txt").write_text("private")
    push_dataset(exported, "somebody/stories")
    files = hub.files("datasets", "somebody/stories")
    assert (
        len(files) == 14
        and "notes.txt" not in files
        and b"user/name" not in files["stories/README.md"]
    )
    assert b'load_dataset("somebody/stories", "stories")' in files["README.md"]
    settings = {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_DISABLE_XET": "1",
    }
    code = (
        'from datasets import load_dataset; print(load_dataset("somebody/stories",'
        ' "stories")["validation"]["id"][:])'
    )
    out = run_python("-c", code, env=os.environ | settings | {"HF_HUB_OFFLINE": "0"})
    assert out.strip() == str(load_story_twins(split="validation")["id"][:])


def test_folders_that_can_not_be_pushed(exported, tmp_path):
    with pytest.raises(ValueError, match=r"facts are for the card of rows; .* has a card"):
        push_dataset(exported, "somebody/stories", facts=DatasetFacts())
    with pytest.raises(FileNotFoundError, match=r"is not a folder with a README\.md"):
        push_dataset(tmp_path, "somebody/stories")
    (tmp_path / "README.md").write_text("# Rows\n")
    with pytest.raises(ValueError, match="has no `configs` in its metadata"):
        push_dataset(tmp_path, "somebody/stories")
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: a\n  data_files: rows.jsonl\n---\n"
    )
    (tmp_path / "rows.jsonl").symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match="outside of the folder"):
        push_dataset(tmp_path, "somebody/stories")
