"""Sources of data: files, patterns, folders, loaded rows and the Hub, as `datasets` reads them."""

import json
import shutil
from pathlib import Path

import huggingface_hub.constants
import pytest
from data.conftest import write
from datasets import Dataset, DatasetDict, IterableDataset, load_dataset

from narrative_twins.data import RowError, load_story_salience, load_story_twins
from narrative_twins.data.sources import source_files
from narrative_twins.hub.cards import card_of_rows
from narrative_twins.hub.facts import DatasetFacts


def twins(*ids: str) -> list[dict]:
    story = ["Nadia ran.", "It rained."]
    return [{"id": id_, "story": story, "twin": ["She hurried."]} for id_ in ids]


def ids(splits) -> dict[str, list[str]]:
    return {split: rows["id"][:] for split, rows in splits.items()}


@pytest.fixture
def load(cached):
    return cached(load_story_twins)


@pytest.fixture
def folder(tmp_path):
    """A folder as `push_dataset` publishes it, with two configurations."""
    folder = tmp_path / "published"
    content = {
        "twins": DatasetDict(
            train=Dataset.from_list(twins("a", "b")), validation=Dataset.from_list(twins("c"))
        ),
        "judged": DatasetDict(
            train=Dataset.from_list([{"id": "j", "story": ["A.", "B."], "votes": [1, 4]}])
        ),
    }
    for name, splits in content.items():
        (folder / name).mkdir(parents=True)
        for split, rows in splits.items():
            rows.to_parquet(folder / name / f"{split}-00000-of-00001.parquet")
    (folder / "README.md").write_text(str(card_of_rows(content, DatasetFacts(name="Stories"))))
    return folder


def test_loaded_rows(load):
    rows = Dataset.from_list([{"id": "a", "story": ["A."], "narrative_twin": ["C."], "theme": "x"}])
    assert ids(load(rows)) == {"train": ["a"]} and load(rows)["train"][0]["twin"] == ["C."]
    mine = Dataset.from_list(twins("b", "c")).select([1])
    assert ids(load(DatasetDict(train=rows, mine=mine))) == {"train": ["a"], "mine": ["c"]}
    assert [row["id"] for row in load(rows, "train", streaming=True)] == ["a"]
    with pytest.raises(RowError, match="row 0, id 'b': 'story': the story is empty"):
        load(Dataset.from_list([{"id": "b", "story": [], "twin": ["A."]}]))
    with pytest.raises(TypeError):
        load(IterableDataset.from_generator(lambda: iter(twins("a"))))


def test_folders_of_save_to_disk(load, tmp_path):
    rows = Dataset.from_list(twins("a", "b", "c")).select([2, 0])
    for saved in (rows, DatasetDict(train=rows, mine=rows)):
        saved.save_to_disk(tmp_path / "saved")
        splits = saved if isinstance(saved, DatasetDict) else {"train": saved}
        assert ids(load(tmp_path / "saved")) == {split: ["c", "a"] for split in splits}
        shutil.rmtree(tmp_path / "saved")


def test_files_and_patterns(load, tmp_path, monkeypatch):
    for name in ("b", "a", "c"):
        write(tmp_path / "data" / f"{name}.jsonl", twins(name))
    monkeypatch.chdir(tmp_path)
    listed = ["data/[ab].jsonl", "data/c.jsonl"]
    for source in ("data/*.jsonl", listed, {"train": "data/?.jsonl"}, "**/*.jsonl"):
        assert ids(load(source)) == {"train": ["a", "b", "c"]}
    stock = load_dataset("json", data_files="data/*.jsonl", cache_dir=str(tmp_path / "stock"))
    assert ids(stock) == ids(load("data/*.jsonl"))
    assert ids(load({"x": "data/a.jsonl", "y": ["data/b.jsonl"]})) == {"x": ["a"], "y": ["b"]}
    path = Path(write(tmp_path / "data" / "[x] y.jsonl", twins("x")))
    for source in ("data/[x] y.jsonl", path.as_uri(), [path.as_uri()], f"file://{path}"):
        assert ids(load(source)) == {"train": ["x"]}


def test_splits_of_a_folder_by_file_names(load, tmp_path):
    names = ["train-00000-of-00002.jsonl", "train-1.jsonl", "dev.json", "deep/test.ndjson.gz"]
    for name in [*names, "notes.json"]:
        write(tmp_path / "data" / name, twins(name))
    (tmp_path / "data" / "README.md").write_text("Mine.")
    expected = {"train": names[:2], "validation": ["dev.json"], "test": names[3:]}
    assert ids(load(tmp_path / "data")) == expected


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["a.jsonl", "b.parquet", "c.parquet"], "leaves out .*a.jsonl; pass the files"),
        (["train-1.jsonl", "train-2.json", "train.parquet"], "train-1.jsonl.*train-2.json; pass"),
        (["train-1.txt", "train-2.txt", "train-3.jsonl"], "train-3.jsonl; pass the files"),
        (["train.jsonl", "test.parquet"], "can't tell the data files .* pass its files by split"),
    ],
)
def test_no_file_of_a_folder_is_left_out_in_silence(load, tmp_path, names, problem):
    """`datasets` alone reads the most common format of each split."""
    for name in names:
        write(tmp_path / "data" / name, twins(name))
    with pytest.raises(ValueError, match=problem):
        load(tmp_path / "data")
    paths = [tmp_path / "data" / name for name in names if not name.endswith("txt")]
    assert len(load(paths, "train")) == len(paths)


def test_a_folder_without_data_files(load, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.txt").write_text("A text.")
    with pytest.raises(FileNotFoundError, match=r"no data files in .*data; supported: \*.jsonl"):
        load(tmp_path / "data")
    write(tmp_path / "data" / "train.jsonl", twins("a"))
    (tmp_path / "data" / "train.txt").rename(tmp_path / "data" / "train.jsonl.notes")
    assert ids(load(tmp_path / "data")) == {"train": ["a"]}, "notes are not data"


MISSING = [
    ("rows.jsonl", FileNotFoundError, "'rows.jsonl' is not a local path, and not a Hub id"),
    ("https://example.com/rows", FileNotFoundError, "not a Hub id"),
    ("somebody/rows", FileNotFoundError, "'somebody/rows' is not a local path, and can't be"),
    ("data/*.json", FileNotFoundError, r"data/\*.json is not a file, and no files match it"),
    ({"train": []}, ValueError, "no files; give at least one"),
    (__file__, ValueError, r"test_sources.py has an unknown format; .* \*.jsonl"),
    (".", FileNotFoundError, "data files"),
]


def test_missing_sources_and_options_that_do_not_apply(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source, error, message in MISSING:
        with pytest.raises(error, match=message):
            load_story_twins(source, cache_dir=str(tmp_path / "cache"))
    for options, message in (
        ({"source": ".", "revision": "v1"}, "revision='v1' does not apply to"),
        ({"name": "x"}, "name='x' is not a corpus of the package for this"),
        ({"source": __file__, "name": "x"}, "name='x' does not apply to str "),
    ):
        with pytest.raises(ValueError, match=message):
            load_story_twins(**options)


def test_configurations_of_a_folder(load, cached, folder, tmp_path):
    def stock(name=None):
        return load_dataset(str(folder), name, cache_dir=str(tmp_path / "stock"))

    expected = ids(stock())
    assert expected == ids(load(folder)) == ids(load(folder, name="twins"))
    judged = cached(load_story_salience)(folder, name="judged")
    assert ids(judged) == ids(stock("judged")) == {"train": ["j"]}
    with pytest.raises(ValueError, match="'other' not found.*twins.*judged"):
        load(folder, name="other")


ONE, OTHER = {"config_name": "x", "data_dir": "twins"}, {"config_name": "default"}
FORMS = [
    ([ONE], {"train": ["a", "b"], "validation": ["c"]}),
    ([ONE, OTHER | {"data_files": "twins/v*"}], {"train": ["c"]}),
]
INVALID = [
    ([ONE, {"config_name": "y"}], "(?s)Config name is missing.*'x', 'y'"),
    ([{"config_name": "x", "data_files": "../secret/*"}], "secret.* outside of the data set"),
    ([{"config_name": "x", "data_files": "SECRET/*.jsonl"}], "outside of the data set"),
    (3, "can't tell the data files of .*configs"),
]


def test_configurations_of_cards(load, folder, tmp_path):
    """A card may be from a stranger: it can't name files outside of its folder."""
    write(tmp_path / "secret" / "rows.jsonl", twins("secret"))

    def found(configs):
        card = json.dumps(configs).replace("SECRET", str(tmp_path / "secret"))
        (folder / "README.md").write_text(f"---\nconfigs: {card}\n---\nStories.")
        return ids(load(folder))

    for configs, expected in FORMS:
        assert found(configs) == expected
    for configs, problem in INVALID:
        with pytest.raises(ValueError, match=problem):
            found(configs)


def test_data_of_the_hub_and_then_offline(folder, hub, monkeypatch):
    """Later, no network is needed."""
    hub.put("datasets", "somebody/stories", folder)
    hub.put("datasets", "somebody/stories", folder, branch="refs/pr/1")

    def files(source, **options) -> dict[str, list[str]]:
        found = source_files(source, **options)
        return {split: [file[-30:] for file in of_split] for split, of_split in found.items()}

    expected = files(folder)
    assert files("somebody/stories", name="judged") == files(folder, name="judged")
    path = "hf://datasets/somebody/stories"
    train, validation = expected["train"], expected["validation"]
    pull_request = f"{path}@refs%2Fpr%2F1/twins/*.parquet"
    single = f"{path}@main/twins/validation-00000-of-00001.parquet"
    for _ in range(2):
        assert files("somebody/stories") == files(path, name="twins") == expected
        assert files(f"{path}/twins") == expected
        assert files(f"{path}/twins/train-*.parquet") == {"train": train}
        assert files({"mine": single}) == {"mine": validation}
        assert files([pull_request]) == {"train": [*train, *validation]}
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(FileNotFoundError, match=r"none/\*.json is not a file"):
        files(f"{path}/none/*.json")


def test_revisions_and_tokens_of_the_hub(folder, hub):
    hub.put("datasets", "somebody/tagged", folder, branch="v1")
    for name, token in (("somebody/tagged", "wrong"), ("somebody/other", None)):
        with pytest.raises(FileNotFoundError, match=f"'{name}' .* can't be found on the Hub"):
            source_files(name, token=token)
    assert len(source_files("somebody/tagged", "v1")["train"]) == 1
    with pytest.raises(Exception, match="Revision"):
        source_files("somebody/tagged", "v2")
