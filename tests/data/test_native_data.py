"""The loaders as users of datasets expect them, beside `datasets.load_dataset` where there is a
counterpart."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from datasets import (
    Dataset,
    DatasetDict,
    IterableDataset,
    disable_progress_bars,
    load_dataset,
    load_from_disk,
)

from narrative_twins.data import (
    RowError,
    WindowTwinsBuilder,
    load_roc_stories,
    load_story_salience,
    load_story_twins,
    load_window_twins,
)
from narrative_twins.data.sources import corpus_files
from narrative_twins.hub.cards import card_of_rows, template
from narrative_twins.hub.facts import DatasetFacts

from support.hub import Hub, running
from support.processes import run_python

disable_progress_bars()


def twins(*ids: str) -> list[dict]:
    return [
        {"id": id_, "story": ["Nadia ran.", f"It rained {id_}."], "twin": ["She hurried."]}
        for id_ in ids
    ]


def ids(splits) -> dict[str, list[str]]:
    return {split: rows["id"][:] for split, rows in splits.items()}


@pytest.fixture
def load(tmp_path):
    return partial(load_story_twins, cache_dir=str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    """A folder as `push_dataset` publishes it, with two configurations."""
    folder = tmp_path / "published"
    content = {
        "twins": DatasetDict(
            train=Dataset.from_list(twins("a", "b")), validation=Dataset.from_list(twins("c"))
        ),
        "judged": Dataset.from_list([{"id": "j", "story": ["A.", "B."], "votes": [1, 4]}]),
    }
    for name, part in content.items():
        (folder / name).mkdir(parents=True)
        for split, rows in (part if isinstance(part, DatasetDict) else {"train": part}).items():
            rows.to_parquet(folder / name / f"{split}-00000-of-00001.parquet")
    (folder / "README.md").write_text(str(card_of_rows(content, DatasetFacts(name="Stories"))))
    return folder


# Sources


def test_loaded_rows(load, tmp_path):
    rows = Dataset.from_list(
        [{"id": "a", "story": ["A.", "B."], "narrative_twin": ["C."], "theme": "mills"}]
    )
    found = load(rows)
    assert ids(found) == {"train": ["a"]} and found["train"][0]["twin"] == ["C."]
    assert ids(
        load(DatasetDict(train=rows, mine=Dataset.from_list(twins("b", "c")).select([1])))
    ) == {"train": ["a"], "mine": ["c"]}
    assert ids(load({"dev": rows})) == {"dev": ["a"]}
    assert [row["id"] for row in load(rows, "train", streaming=True)] == ["a"]
    assert load(load()["train"].select([3]))["train"][0] == load()["train"][3]


def test_loaded_rows_that_are_invalid(load):
    with pytest.raises(RowError, match="row 1, id 'b': 'story' is empty"):
        load(Dataset.from_list([*twins("a"), {"id": "b", "story": [], "twin": ["A."]}]))
    with pytest.raises(TypeError, match="a stream of rows is not a source; pass a Dataset"):
        load(IterableDataset.from_generator(lambda: iter(twins("a"))))


def test_all_loaders_take_loaded_rows(tmp_path):
    cache = {"cache_dir": str(tmp_path)}
    votes = Dataset.from_list([{"id": "v", "story": ["A.", "B."], "votes": [1, 4]}])
    assert load_story_salience(votes, "train", **cache)["counts"][:] == [[1, 4]]
    assert load_story_salience(votes, "train", **cache)["labels"][:] == [[0.2, 0.8]]
    windows = Dataset.from_list([{"id": "w", "story": [["A."], ["B."]], "twin": [["C."], ["D."]]}])
    assert load_window_twins(windows, "train", **cache)["twin_windows"][:] == [[[0], [1]]]
    table = tmp_path / "roc.csv"
    header = "storyid,storytitle,sentence1,sentence2,sentence3,sentence4,sentence5"
    table.write_text(f"{header}\nx,The Mill,A.,B.,C.,D.,E.\ny,The Map,F.,G.,H.,I.,J.\n")
    labelled = Dataset.from_list(
        [{"id": "y", "story": ["F.", "G.", "H.", "I.", "J."], "choices": [2]}]
    )
    assert ids(load_roc_stories(table, exclude=labelled, **cache)) == {
        "train": ["x"],
        "labelled": ["y"],
    }


@pytest.mark.parametrize("splits", [None, ("train", "mine")])
def test_folders_of_save_to_disk(load, tmp_path, splits):
    rows = Dataset.from_list(twins("a", "b", "c")).select([2, 0])
    saved = rows if splits is None else DatasetDict(dict.fromkeys(splits, rows))
    saved.save_to_disk(tmp_path / "saved", num_shards=None if splits else 2)
    again = load_from_disk(tmp_path / "saved")
    again = {"train": again} if splits is None else again
    assert (
        ids(load(tmp_path / "saved"))
        == ids(again)
        == {split: ["c", "a"] for split in splits or ["train"]}
    )


def test_saved_folders_that_name_files_outside(load, tmp_path):
    (tmp_path / "secret.arrow").write_bytes(b"")
    folder = tmp_path / "saved"
    Dataset.from_list(twins("a")).save_to_disk(folder)
    state = json.loads((folder / "state.json").read_text())
    for name in ("../secret.arrow", str(tmp_path / "secret.arrow")):
        (folder / "state.json").write_text(
            json.dumps({**state, "_data_files": [{"filename": name}]})
        )
        with pytest.raises(ValueError, match="which is outside of the data set"):
            load(folder)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["../saved"]}))
    with pytest.raises(ValueError, match="names '../saved', which is outside"):
        load(folder)


@pytest.mark.parametrize(
    "content", [{}, {"_data_files": [{}]}, {"_data_files": "train"}, [], None, "state"]
)
def test_folders_with_another_file_of_that_name(load, tmp_path, content):
    (tmp_path / "train.jsonl").write_text(json.dumps(twins("a")[0]))
    (tmp_path / "validation.jsonl").write_text(json.dumps(twins("b")[0]))
    for name in ("state.json", "dataset_dict.json"):
        (tmp_path / name).write_text(json.dumps(content))
    assert ids(load(tmp_path)) == {"train": ["a"], "validation": ["b"]}


def test_patterns(load, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for name in ("b", "a", "c"):
        (tmp_path / "data" / f"{name}.jsonl").write_text(json.dumps(twins(name)[0]) + "\n")
    monkeypatch.chdir(tmp_path)
    for source in (
        "data/*.jsonl",
        ["data/[ab].jsonl", "data/c.jsonl"],
        {"train": "data/?.jsonl"},
        "**/*.jsonl",
    ):
        assert ids(load(source)) == {"train": ["a", "b", "c"]}
    stock = load_dataset("json", data_files="data/*.jsonl", cache_dir=str(tmp_path / "stock"))
    assert ids(stock) == ids(load("data/*.jsonl"))
    with pytest.raises(
        FileNotFoundError, match=r"no files are called data/\*.json; check the pattern"
    ):
        load("data/*.json")
    (tmp_path / "data" / "[x].jsonl").write_text(json.dumps(twins("x")[0]))
    assert ids(load("data/[x].jsonl")) == {"train": ["x"]}


# Configurations


def test_configurations_of_a_folder(load, folder, tmp_path):
    stock = partial(load_dataset, str(folder), cache_dir=str(tmp_path / "stock"))
    assert (
        ids(load(folder)) == ids(load(folder, name="twins")) == ids(stock()) == ids(stock("twins"))
    )
    judged = load_story_salience(folder, name="judged", cache_dir=str(tmp_path / "cache"))
    assert ids(judged) == ids(stock("judged")) == {"train": ["j"]}
    assert judged["train"][0]["labels"] == [0.2, 0.8]
    with pytest.raises(
        ValueError, match="no configuration 'other': .*published has only twins, judged"
    ):
        load(folder, name="other")


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ([{"config_name": "x", "data_files": "twins/*.parquet"}], {"train": ["a", "b", "c"]}),
        ([{"config_name": "x", "data_files": ["twins/validation*"]}], {"train": ["c"]}),
        ([{"config_name": "x", "data_dir": "twins"}], {"train": ["a", "b"], "validation": ["c"]}),
        ([{"config_name": "x", "data_files": [{"split": "mine", "path": ["twins/train*"]}]}], {"mine": ["a", "b"]}),
        ([{"config_name": "x", "data_dir": "judged"}, {"data_files": "twins/v*"}], {"train": ["c"]}),
        ([{"config_name": "x", "description": "no files"}], {"train": ["a", "b"], "validation": ["c"]}),
    ],
)  # fmt: skip
def test_forms_of_configurations(load, folder, configs, expected):
    (folder / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\nStories.")
    if "description" in configs[0]:
        (folder / "judged" / "train-00000-of-00001.parquet").unlink()
    assert ids(load(folder)) == expected


@pytest.mark.parametrize(
    ("card", "options", "problem"),
    [
        ('configs: [{"config_name": "x", "data_dir": "a"}, {"config_name": "y", "data_dir": "b"}]', {},
         "has several configurations; choose one with name=: x, y"),
        ('configs: [{"config_name": "x", "data_files": "../twins/*"}]', {}, "'../twins/.', which is outside"),
        ('configs: [{"config_name": "x", "data_files": "/etc/*.json"}]', {}, "outside of the data set"),
        ("configs: 3", {}, "'configs' of .* is not a list of configurations"),
        ("configs: [3]", {}, "'configs' of .* is not a list of configurations"),
        ("configs: [", {}, "the metadata of .* can't be read"),
        ("license: mit", {"name": "x"}, "no configuration 'x': .* has no configurations"),
    ],
)  # fmt: skip
def test_invalid_configurations(load, folder, card, options, problem):
    (folder / "README.md").write_text(f"---\n{card}\n---\nStories.")
    with pytest.raises(ValueError, match=problem):
        load(folder, **options)


def test_names_without_configurations(load, folder):
    with pytest.raises(
        ValueError, match="name='x' is not a corpus of the package for this; use stories"
    ):
        load(name="x")
    with pytest.raises(
        ValueError, match="name='x' applies only to a folder or a data set on the Hub"
    ):
        load(str(folder / "twins" / "*.parquet"), name="x")


FROM_HUB = """
import json, sys
from datasets import disable_progress_bars
from narrative_twins.data import load_story_salience, load_story_twins

disable_progress_bars()
for source, options in json.loads(sys.argv[1]):
    load = load_story_salience if options.get("name") == "judged" else load_story_twins
    try:
        print(json.dumps({split: rows["id"][:] for split, rows in load(source, **options).items()}))
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}".splitlines()[0]))
"""


def test_configurations_and_paths_on_the_hub(folder, tmp_path):
    hub = Hub("secret")
    hub.put("datasets", "somebody/stories", folder)
    hub.put("datasets", "somebody/stories", folder, branch="refs/pr/1")

    def run(*calls: tuple[object, dict], offline: str = "0") -> list:
        settings = {
            "HF_ENDPOINT": hub.address,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_DISABLE_XET": "1",
        }
        environment = os.environ | settings | {"HF_HUB_OFFLINE": offline, "HF_TOKEN": "secret"}
        return [
            json.loads(line)
            for line in run_python("-c", FROM_HUB, json.dumps(calls), env=environment).splitlines()
        ]

    path, both = "hf://datasets/somebody/stories", {"train": ["a", "b"], "validation": ["c"]}
    calls: list[tuple[object, dict]] = [
        ("somebody/stories", {"name": "judged"}),
        ("somebody/stories", {}),
        (path, {"name": "twins"}),
        (f"{path}/twins", {}),
        (f"{path}/twins/train-*.parquet", {}),
        ({"mine": f"{path}@main/twins/validation-00000-of-00001.parquet"}, {}),
        ([f"{path}@refs%2Fpr%2F1/twins/*.parquet"], {"download_mode": "force_redownload"}),
    ]
    expected = [
        {"train": ["j"]},
        both,
        both,
        both,
        {"train": ["a", "b"]},
        {"mine": ["c"]},
        {"train": ["a", "b", "c"]},
    ]
    with running(hub):
        assert run(calls[0]) == expected[:1]
        assert set(hub.given) == {"README.md", "judged/train-00000-of-00001.parquet"}
        assert run(*calls) == expected
        unknown, missing = run(("somebody/stories", {"name": "x"}), (f"{path}/none/*.json", {}))
    assert unknown == "ValueError: no configuration 'x': somebody/stories has only twins, judged"
    assert missing.startswith(f"FileNotFoundError: no data files are called {path}/none/*.json")
    assert run(*calls[:-1], offline="1") == expected[:-1]


# Options


def test_download_mode(load, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, twins("a", "b"))))
    (first,) = load(path, "train").cache_files
    before = os.stat(first["filename"]).st_ino
    load(path, "train", download_mode="reuse_dataset_if_exists")
    assert os.stat(first["filename"]).st_ino == before
    load(path, "train", download_mode="force_redownload")
    assert os.stat(first["filename"]).st_ino != before
    with pytest.raises(ValueError, match="nonsense"):
        load(path, download_mode="nonsense")


def test_keep_in_memory(load):
    assert load(split="train").cache_files
    assert load(split="train", keep_in_memory=True).cache_files == []
    assert load(keep_in_memory=True)["validation"].cache_files == []


def files_of_rows(folder: Path, *contents: list[dict]) -> list[Path]:
    paths = [folder / f"rows{number}.jsonl" for number in range(len(contents))]
    for path, rows in zip(paths, contents, strict=True):
        path.write_text("\n".join(map(json.dumps, rows)))
    return paths


def test_several_processes(load, tmp_path):
    paths = files_of_rows(tmp_path, twins("a", "b"), twins("c"), twins("d"))
    assert ids(load(paths, num_proc=2)) == {"train": ["a", "b", "c", "d"]}
    with pytest.raises(ValueError, match="num_proc=2 does not apply to streaming"):
        load(paths, num_proc=2, streaming=True)


def test_errors_in_several_processes(load, tmp_path):
    paths = files_of_rows(tmp_path, twins("a"), [{"id": "b", "story": [], "twin": ["A."]}])
    with pytest.raises(RowError, match=r"rows1.jsonl, row 0 \(line 1\), id 'b': 'story' is empty"):
        load(paths, num_proc=2)


def test_rows_left_out_in_several_processes(tmp_path, caplog):
    """Each process tells of its files, and so does each load from the cache."""
    short = {"story": [["A."], ["B."]], "twin": [["C."], ["D."]]}
    paths = files_of_rows(tmp_path, [short], [short, short])
    for _ in range(2):
        caplog.clear()
        rows = load_window_twins(
            paths, "train", min_window=2, num_proc=2, cache_dir=str(tmp_path / "cache")
        )
        for words in ("1 of 1 rows are left out", "2 of 2 rows are left out"):
            assert words in caplog.text and words in rows.info.description
    assert (
        rows.info.description.startswith(WindowTwinsBuilder.ABOUT)
        and WindowTwinsBuilder.ABOUT not in caplog.text
    )


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (load_story_twins, "narrative twins"),
        (load_window_twins, "turning points"),
        (load_story_salience, "human labels"),
    ],
)
def test_data_sets_say_what_they_are(load, words, caplog):
    info = load(split="validation[:1]").info
    assert (
        words in info.description and "Contrastive Learning with Narrative Twins" in info.citation
    )
    assert load(split="validation", streaming=True).info.description == info.description
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "load"), [("stories", load_story_twins), ("synopses", load_window_twins)]
)
def test_cards_begin_with_plain_datasets(name, load, tmp_path):
    """The corpora of the package with their cards, as they are on the Hub."""
    card = template(f"dataset_card_{name}.md")
    assert card.index("from datasets import load_dataset") < card.index(
        "from narrative_twins.data import"
    )
    for file in (file for files in corpus_files(name).values() for file in files):
        shutil.copy(file, tmp_path)
    (tmp_path / "README.md").write_text(card)
    stock = load_dataset(str(tmp_path), cache_dir=str(tmp_path / "cache"))
    assert ids(stock) == ids(load(tmp_path, cache_dir=str(tmp_path / "cache"))) == ids(load())
