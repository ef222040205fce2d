"""The pipeline as users of transformers and datasets expect it, beside a stock pipeline where there
is one."""

from __future__ import annotations

import json
import os
import pickle
from itertools import count, islice
from pathlib import Path

import pytest
import torch
from datasets import Dataset, IterableDataset, disable_progress_bars
from tqdm import tqdm
from transformers import pipeline
from transformers.pipelines.pt_utils import KeyDataset

from narrative_twins import StoryError
from narrative_twins.data import load_story_salience, load_story_twins, load_window_twins
from narrative_twins.encoder.checkpoint import default_encoder

from support.hub import Hub, running
from support.processes import run_python

disable_progress_bars()


@pytest.fixture(scope="module")
def salience():
    return pipeline("narrative-salience", device="cpu", dtype="float32", operations="summarization")


@pytest.fixture(scope="module")
def stock():
    return pipeline("feature-extraction", model=default_encoder(), device="cpu", dtype="float32")


@pytest.fixture(params=["stock", "salience"])
def pipe(request):
    """A stock pipeline and that of this package: whatever a test says holds for both."""
    return request.getfixturevalue(request.param)


def assert_same(found, expected):
    """Equal results but for rounding errors."""
    numbers = [], []
    plain = [
        json.loads(
            json.dumps(results), parse_float=lambda number, into=into: into.append(float(number))
        )
        for results, into in zip((found, expected), numbers, strict=True)
    ]
    assert plain[0] == plain[1]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-4)


TEXTS = [
    "Nadia ran. It rained.",
    "The mill burned. Nobody knew. It was gone.",
    "Omar wrote a word.",
]


# Rows of data sets


@pytest.mark.parametrize("load", [load_story_twins, load_story_salience, load_window_twins])
def test_rows_of_the_package_are_stories(load, salience, tmp_path):
    rows = load(split="validation[:2]", cache_dir=str(tmp_path))
    found = list(salience(rows))
    assert [result["id"] for result in found] == rows["id"][:]
    for result, row in zip(found, rows, strict=True):
        windows = row["story"] if isinstance(row["story"][0], list) else [row["story"]]
        assert [result["sentences"][lo:hi] for lo, hi in result["windows"]] == windows
    assert salience(rows[0]) == salience([rows[0]])[0]
    path = tmp_path / "rows.jsonl"
    rows.to_json(path)
    assert [salience(json.loads(line))["sentences"] for line in path.open()] == [
        row["sentences"] for row in found
    ]


STORIES = [["Nadia ran.", "It rained."], ["The mill burned.", "It was gone."]]


def test_batches_of_a_data_set(salience):
    """As in `datasets.map(batched=True)`: a column of a batch is a list of stories, a batch itself
    is not a story."""
    rows = Dataset.from_dict(
        {"id": ["a", "b"], "story": STORIES, "text": [" ".join(story) for story in STORIES]}
    )

    def scores(found):
        return {"scores": [result["scores"]["summarization"] for result in found]}

    columns = [
        rows.map(lambda batch, column=column: scores(salience(batch[column])), batched=True)[
            "scores"
        ][:]
        for column in ("story", "text")
    ]
    rowwise = rows.map(lambda row: {"scores": salience(row)["scores"]["summarization"]})["scores"][
        :
    ]
    assert columns == [rowwise, rowwise]
    for names in (["id", "story"], ["story"], ["text"], ["id", "text"]):
        with pytest.raises(
            StoryError, match=r"of a batch of rows pass a single column, such as batch\['text'\]"
        ):
            rows.select_columns(names).map(lambda batch: scores(salience(batch)), batched=True)
    with pytest.raises(
        StoryError, match="the id is list; .* of a batch of rows pass a single column"
    ):
        salience(rows[:2])


# Loading


@pytest.mark.parametrize("task", ["feature-extraction", "narrative-salience"])
@pytest.mark.parametrize(
    "options",
    [
        {"local_files_only": True},
        {"revision": "main", "token": False, "trust_remote_code": False},
        {"trust_remote_code": True, "use_fast": True},
        {"model_kwargs": {"cache_dir": "cache", "attn_implementation": "eager"}},
        {"device_map": "cpu"},
        {"device_map": {"": "cpu"}},
        {"device": -1, "batch_size": 2, "num_workers": 0},
        {"device": torch.device("cpu"), "dtype": torch.bfloat16},
        {"model_kwargs": {"dtype": "float16"}},
        {"config": default_encoder(), "tokenizer": default_encoder()},
    ],
    ids=str,
)
def test_options_of_loading(task, options, stock):
    pipe = pipeline(
        task,
        model=default_encoder(),
        **{**options, "model_kwargs": dict(options.get("model_kwargs", {}))},
    )
    assert pipe(TEXTS[0])
    dtype = options.get("dtype") or options.get("model_kwargs", {}).get("dtype")
    assert dtype is None or str(pipe.dtype).endswith(str(dtype).removeprefix("torch."))
    attention = options.get("model_kwargs", {}).get("attn_implementation")
    assert attention is None or pipe.model.config._attn_implementation == attention


@pytest.mark.parametrize("task", ["feature-extraction", "narrative-salience"])
@pytest.mark.parametrize(
    "options",
    [
        {"device_map": "cpu", "model_kwargs": {"device_map": "cpu"}},
        {"dtype": "float32", "model_kwargs": {"dtype": "float32"}},
        {"model_kwargs": {"nonsense": 1}},
    ],
    ids=str,
)
def test_options_of_loading_that_are_wrong(task, options):
    with pytest.raises(Exception, match="(?s)cannot use both|nonsense"):
        pipeline(task, model=default_encoder(), **options)


@pytest.mark.parametrize("name", ["cache_dir", "nonsense"])
def test_unknown_options_are_errors_with_the_cure(name):
    """Stock pipelines ignore them: their `cache_dir=` has no effect."""
    with pytest.raises(
        TypeError,
        match=f"unknown option '{name}'.*from_pretrained.* as model_kwargs={{'{name}': ...}}",
    ):
        pipeline("narrative-salience", **{name: "x"})


FROM_HUB = """
import json, sys
import narrative_twins
from transformers import pipeline

for options in json.loads(sys.argv[1]):
    found = []
    for task in ("feature-extraction", "narrative-salience"):
        try:
            pipe = pipeline(task, model="somebody/encoder", **options)
            found.append(bool(pipe("Nadia ran.")))
        except Exception as error:
            found.append(False)
    print(json.dumps(found))
"""


def test_loading_from_the_hub(tmp_path):
    """`revision`, `token`, a cache of its own, and then without requests: as a stock pipeline."""
    token, cache = {"token": "secret"}, {"model_kwargs": {"cache_dir": str(tmp_path / "cache")}}
    hub = Hub("secret")
    hub.put("models", "somebody/encoder", Path(default_encoder()), branch="v1")

    def run(*calls: dict, offline: str = "0") -> list[list[bool]]:
        settings = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1"}
        environment = os.environ | settings | {"HF_HUB_OFFLINE": offline}
        return [
            json.loads(line)
            for line in run_python("-c", FROM_HUB, json.dumps(calls), env=environment).splitlines()
        ]

    v1 = {"revision": "v1"}
    with running(hub):
        assert run(v1 | token | cache, v1 | {"token": "wrong"}, token) == [
            [True, True],
            [False, False],
            [False, False],
        ]
        hub.asked.clear()
        local = {"local_files_only": True} | v1
        assert run(local | cache, local) == [[True, True], [False, False]]
        # Where peft is installed, `transformers.pipeline` itself asks for an adapter, whatever
        # `local_files_only` is.
        asked = [path for _, path in hub.asked if not path.endswith("adapter_config.json")]
        assert not [path for path in asked if "somebody/encoder" in path]
    assert run(v1 | cache, offline="1") == [[True, True]]


# Calls


def test_results_are_in_order(pipe):
    alone = [pipe(text) for text in TEXTS]
    assert len({json.dumps(result) for result in alone}) == len(TEXTS)
    assert_same(pipe(TEXTS), alone)
    assert_same(pipe(TEXTS[::-1]), alone[::-1])


@pytest.mark.parametrize("batch_size", [1, 2, 3, 50])
def test_batches_do_not_change_the_results(pipe, batch_size):
    assert len(pipe(TEXTS, batch_size=batch_size)) == len(TEXTS)
    rows = KeyDataset(Dataset.from_dict({"text": TEXTS}), "text")
    assert len(list(pipe(rows, batch_size=batch_size))) == len(TEXTS)


def test_one_input_has_one_result_and_a_list_has_a_list(pipe):
    assert_same([pipe(TEXTS[0])], pipe(TEXTS[:1]))
    assert isinstance(pipe(TEXTS), list)
    for method in (pipe.predict, pipe.transform):
        assert_same(method(TEXTS), pipe(TEXTS))


@pytest.mark.parametrize("name", ["KeyDataset", "torch"])
def test_data_sets_have_a_length_and_can_be_read_again(pipe, name, capsys):
    texts = type(
        "T",
        (torch.utils.data.Dataset,),
        {"__getitem__": lambda _, i: TEXTS[i], "__len__": lambda _: 3},
    )()
    inputs = (
        KeyDataset(Dataset.from_dict({"text": TEXTS}), "text") if name == "KeyDataset" else texts
    )
    results = pipe(inputs)
    assert not isinstance(results, list)
    assert len(results) == 3
    first = next(iter(results))
    assert_same([first], [pipe(TEXTS[0])])
    assert_same(list(tqdm(results)), pipe(TEXTS))
    assert "3/3" in capsys.readouterr().err
    assert_same(list(results), pipe(TEXTS))


def test_generators_are_lazy_and_have_no_length(pipe):
    taken = []
    results = pipe((taken.append(i) or TEXTS[i % 3] for i in count()), batch_size=2)
    with pytest.raises(TypeError):
        _ = len(results)
    assert len(list(islice(results, 3))) == 3
    assert len(taken) <= 5


def test_streams_are_lazy(salience):
    rows = IterableDataset.from_generator(lambda: ({"text": text} for text in TEXTS))
    results = salience(rows)
    with pytest.raises(TypeError):
        _ = len(results)
    assert_same(list(results), salience(TEXTS))


def test_columns_have_a_length(salience):
    rows = Dataset.from_dict({"text": TEXTS})
    for inputs in (rows, rows["text"]):
        assert len(salience(inputs)) == 3
    results = salience(rows)
    assert next(results)["sentences"] == ["Nadia ran.", "It rained."]
    assert [len(result["sentences"]) for result in results] == [2, 3, 1]


def test_length_includes_stories_that_are_skipped(salience):
    results = salience(Dataset.from_dict({"text": ["", *TEXTS, ""]}), on_error="skip")
    assert len(results) == len(list(results)) == 5


def test_saved_and_loaded(pipe, tmp_path):
    pipe.save_pretrained(tmp_path)
    again = pipeline(
        pipe.task, model=str(tmp_path), device="cpu", dtype="float32", **pipe._forward_params
    )
    assert again.tokenizer.get_vocab() == pipe.tokenizer.get_vocab()
    assert_same(again(TEXTS), pipe(TEXTS))


def test_pickled(pipe):
    again = pickle.loads(pickle.dumps(pipe))
    assert_same(again(TEXTS), pipe(TEXTS))
    assert (again.task, again.device, again.dtype) == (pipe.task, pipe.device, pipe.dtype)


def test_options_of_a_call_are_not_kept(salience):
    before = salience(TEXTS[1])
    assert list(salience(TEXTS[1], operations="deletion", windows=3)["scores"]) == ["deletion"]
    assert salience(TEXTS[1]) == before
