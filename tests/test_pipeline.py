"""`pipeline("narrative-salience")` as users of transformers and datasets expect it, next to a stock
pipeline where there is one: results as plain data for all forms of input, options, loading,
saving."""

from __future__ import annotations

import json
import logging
import pickle
import sys
from itertools import count, islice
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
from datasets import Dataset, IterableDataset, disable_progress_bars
from sentence_transformers import SentenceTransformer
from tqdm import tqdm
from transformers import pipeline
from transformers.pipelines import PIPELINE_REGISTRY
from transformers.pipelines.pt_utils import KeyDataset

import narrative_twins
from narrative_twins import Story, StoryEncoder, StoryError, score_stories
from narrative_twins.data import load_story_salience, load_story_twins, load_window_twins
from narrative_twins.encoder.loading import CheckpointError, default_encoder
from narrative_twins.pipeline import TASK, register_pipeline

from support.models import encoder_of, modules
from support.processes import run_command

disable_progress_bars()

TEXTS = [
    "Nadia ran. It rained.",
    "The mill burned. Nobody knew. It was gone.",
    "Omar wrote a word.",
]
STORIES = [
    "Omar cleaned the windows of a tower. A man cried at his desk. Omar wrote a word in the foam.",
    {
        "sentences": [
            "Nadia ran.",
            "The mill burned down.",
            "It rained all night.",
            "Nobody knew.",
        ],
        "windows": 2,
    },
    {"id": "x", "text": "I was there. She didn't answer."},
]


@pytest.fixture(scope="module")
def salience():
    return pipeline(TASK, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def small_salience(bert_folder):
    """One operation with a small random encoder, for tests where scores are not the subject."""
    return pipeline(
        TASK, model=bert_folder, device="cpu", dtype="float32", operations="summarization"
    )


@pytest.fixture(scope="module")
def stock():
    return pipeline("feature-extraction", model=default_encoder(), device="cpu", dtype="float32")


@pytest.fixture(params=["stock", "salience"])
def pipe(request):
    """A stock pipeline and that of this package: whatever a test says holds for both."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def expected(salience):
    return [result.to_dict() for result in score_stories(STORIES, salience.encoder)]


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
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-5)


# Input and results


def test_one_story_has_one_result_and_a_list_has_a_list(salience, expected):
    assert salience.task == TASK and salience.encoder.context_tokens == 512
    assert_same([salience(story) for story in STORIES], expected)
    assert_same([salience(Story.parse(STORIES[0]))], expected[:1])
    for batch_size in (1, 2, 64):
        assert_same(salience(STORIES, batch_size=batch_size), expected)
    assert_same(salience(tuple(STORIES[::-1])), expected[::-1])
    assert salience([]) == []


def test_variants_of_a_list_share_forward_passes(salience, monkeypatch):
    calls = []
    encode = StoryEncoder.encode
    monkeypatch.setattr(
        StoryEncoder, "encode", lambda self, *rest: calls.append(1) or encode(self, *rest)
    )
    salience(STORIES * 4)
    assert len(calls) == 1


def test_list_of_single_sentences_warns(salience, caplog):
    salience(STORIES)
    assert not caplog.records
    assert len(salience(["Nadia ran.", "It rained."])) == 2
    assert "each of the 2 stories is one sentence" in caplog.text


def test_results_are_data_that_can_be_shown(salience):
    result, other = salience(STORIES[0]), salience(STORIES)[2]
    assert json.loads(json.dumps(result)) == result
    assert str(result.extract(1)) == result.top(1)[0].sentence
    assert "x: 2 sentences" in other._repr_html_()
    assert [each.salience.name for each in salience(STORIES)] == ["story 1", "story 2", "x"]


def test_bad_stories(salience, caplog):
    with pytest.raises(StoryError, match="story 2: the story is empty"):
        salience([STORIES[0], "", STORIES[2]])
    with pytest.raises(StoryError, match="story 1: the story is empty"):
        salience("")
    found = salience(["", STORIES[0], 7, STORIES[2], ""], on_error="skip")
    assert [result is None for result in found] == [True, False, True, False, True]
    assert "skipped story 3: a story is a text" in caplog.text
    malformed = [{"text": ["A b.", "C d."]}, {"sentences": ["A b."], "text": 5}]
    assert salience([*malformed, STORIES[0]], on_error="skip")[:2] == [None, None]
    assert salience("", on_error="skip") is None
    assert salience(["", ""], on_error="skip") == [None, None]
    errors = []
    assert salience(["", STORIES[0], ""], on_error=errors.append)[::2] == [None, None]
    assert [error.index for error in errors] == [0, 2]


def test_invalid_calls(salience):
    with pytest.raises(ValueError, match="unknown operation 'delete'.*did you mean 'deletion'"):
        salience(STORIES[0], operations=["delete"])
    with pytest.raises(TypeError, match="unknown option 'window'"):
        salience(STORIES[0], window=5)
    with pytest.raises(TypeError, match="not int"):
        salience(5)


def test_methods_of_pipelines(pipe):
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


def test_other_iterables(salience):
    rows = Dataset.from_dict({"text": TEXTS})
    stream = IterableDataset.from_generator(lambda: ({"text": text} for text in TEXTS))
    expected = salience(TEXTS)
    for inputs in (iter(TEXTS), map(str, TEXTS), stream):
        assert_same(list(salience(inputs)), expected)
    for inputs in (rows, rows["text"]):
        assert len(salience(inputs)) == 3
    results = salience(rows)
    assert next(results)["sentences"] == ["Nadia ran.", "It rained."]
    assert_same(list(results), expected)
    skipped = salience(Dataset.from_dict({"text": ["", *TEXTS, ""]}), on_error="skip")
    assert len(skipped) == len(list(skipped)) == 5


@pytest.mark.parametrize("load", [load_story_twins, load_story_salience, load_window_twins])
def test_rows_of_the_package_are_stories(load, small_salience, tmp_path):
    rows = load(split="validation[:2]", cache_dir=str(tmp_path))
    found = list(small_salience(rows))
    assert [result["id"] for result in found] == rows["id"][:]
    for result, row in zip(found, rows, strict=True):
        windows = row["story"] if isinstance(row["story"][0], list) else [row["story"]]
        assert [result["sentences"][lo:hi] for lo, hi in result["windows"]] == windows
    assert small_salience(rows[0]) == small_salience([rows[0]])[0]
    path = tmp_path / "rows.jsonl"
    rows.to_json(path)
    assert [small_salience(json.loads(line))["sentences"] for line in path.open()] == [
        row["sentences"] for row in found
    ]


ROWS = [["Nadia ran.", "It rained."], ["The mill burned.", "It was gone."]]


def test_batches_of_a_data_set(small_salience):
    """As in `datasets.map(batched=True)`: a column of a batch is a list of stories, a batch itself
    is not a story."""
    rows = Dataset.from_dict(
        {"id": ["a", "b"], "story": ROWS, "text": [" ".join(story) for story in ROWS]}
    )

    def scores(found):
        return {"scores": [result["scores"]["summarization"] for result in found]}

    def scores_of_row(row):
        return {"scores": small_salience(row)["scores"]["summarization"]}

    columns = [
        rows.map(lambda batch, column=column: scores(small_salience(batch[column])), batched=True)[
            "scores"
        ][:]
        for column in ("story", "text")
    ]
    rowwise = rows.map(scores_of_row)["scores"][:]
    assert columns == [rowwise, rowwise]
    for names in (["id", "story"], ["story"], ["text"], ["id", "text"]):
        with pytest.raises(
            StoryError, match=r"of a batch of rows pass a single column, such as batch\['text'\]"
        ):
            rows.select_columns(names).map(
                lambda batch: scores(small_salience(batch)), batched=True
            )
    with pytest.raises(
        StoryError, match="the id is list; .* of a batch of rows pass a single column"
    ):
        small_salience(rows[:2])


# Options and loading


def test_options_of_the_pipeline_and_of_a_call(salience):
    for names in (["summarization", "deletion"], iter(["summarization", "deletion"])):
        assert list(salience(STORIES[1], operations=names)["scores"]) == [
            "summarization",
            "deletion",
        ]
    assert salience(STORIES[0], windows=3)["windows"] == [[0, 1], [1, 2], [2, 3]]
    assert salience("a;b", splitter=lambda text: text.split(";"))["sentences"] == ["a", "b"]
    assert salience("a. b\nc", splitter="lines")["sentences"] == ["a. b", "c"]
    short = pipeline(
        TASK,
        device="cpu",
        operations="deletion",
        context_tokens=20,
        on_truncation="ignore",
        batch_size=2,
    )
    assert list(short(STORIES[0])["scores"]) == ["deletion"]
    assert short(STORIES[0])["truncated"]
    assert list(short(STORIES[0], operations="shifting")["scores"]) == ["shifting"]
    # Those of a call are not kept.
    assert list(short(STORIES[0])["scores"]) == ["deletion"]


@pytest.mark.parametrize(
    "options",
    [
        {"local_files_only": True, "device_map": "cpu"},
        {"revision": "main", "token": False, "trust_remote_code": True, "use_fast": True},
        {"model_kwargs": {"cache_dir": "cache", "attn_implementation": "eager"}},
        {"device": torch.device("cpu"), "dtype": torch.bfloat16, "batch_size": 2},
        {"config": default_encoder(), "tokenizer": default_encoder(), "num_workers": 0},
    ],
    ids=str,
)
def test_options_of_loading(options):
    pipe = pipeline(TASK, model=default_encoder(), **options)
    assert pipe(TEXTS[0])
    assert str(pipe.dtype) == str(options.get("dtype", pipe.dtype))
    attention = options.get("model_kwargs", {}).get("attn_implementation")
    assert attention is None or pipe.model.config._attn_implementation == attention


@pytest.mark.parametrize("name", ["cache_dir", "nonsense"])
def test_unknown_options_are_errors_with_the_way_to_pass_them(name):
    """Stock pipelines ignore them: their `cache_dir=` has no effect."""
    with pytest.raises(
        TypeError,
        match=f"unknown option '{name}'.*from_pretrained.* as model_kwargs={{'{name}': ...}}",
    ):
        pipeline("narrative-salience", **{name: "x"})


def test_loading_from_the_hub(hub, bert_folder, tmp_path, monkeypatch):
    """`revision`, `token`, a cache of its own, and then without requests: as a stock pipeline."""
    monkeypatch.delenv("HF_TOKEN")
    token, cache = {"token": "secret"}, {"model_kwargs": {"cache_dir": str(tmp_path / "cache")}}
    hub.put("models", "somebody/encoder", Path(bert_folder), branch="v1")

    def loads(**options):
        """Whether a stock pipeline and that of this package are loaded, which must agree."""
        found = set()
        for task in ("feature-extraction", TASK):
            try:
                found.add(bool(pipeline(task, model="somebody/encoder", **options)("Nadia ran.")))
            except (OSError, CheckpointError):
                found.add(False)
        (same,) = found
        return same

    v1 = {"revision": "v1"}
    assert loads(**v1, **token, **cache)
    assert not loads(**v1, token="wrong")
    assert not loads(**token), "there is no branch main"
    hub.asked.clear()
    local = {"local_files_only": True} | v1
    assert loads(**local, **cache) and not loads(**local)
    # Where peft is installed, `transformers.pipeline` itself asks for an adapter, whatever
    # `local_files_only` is.
    asked = [path for _, path in hub.asked if not path.endswith("adapter_config.json")]
    assert not [path for path in asked if "somebody/encoder" in path]
    hub.asked.clear()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert loads(**v1, **cache) and not hub.asked


def test_encoders_from_disk(bert_folder, tmp_path):
    plain = pipeline(TASK, model=bert_folder, device="cpu")
    assert plain.encoder.pooling == "mean"
    parts = [modules.Transformer(bert_folder), modules.Pooling(32, pooling_mode="cls")]
    SentenceTransformer(modules=parts).save_pretrained(str(tmp_path), create_model_card=False)
    first = pipeline(TASK, model=str(tmp_path), device="cpu")
    assert first.encoder.pooling == "first"
    direct = next(
        score_stories(STORIES[:1], StoryEncoder.from_pretrained(tmp_path, device="cpu"))
    ).to_dict()
    assert_same([first(STORIES[0])], [direct])
    assert first(STORIES[0])["scores"] != plain(STORIES[0])["scores"]
    assert pipeline(TASK, model=str(tmp_path), pooling="mean").encoder.pooling == "mean"


def test_loaded_model_and_tokenizer():
    model, tokenizer = encoder_of("modernbert")
    salience = pipeline(TASK, model=model, tokenizer=tokenizer, device="cpu")
    assert len(salience(STORIES[0])["scores"]["disruption"]) == 3


# Saving


def test_saved_and_loaded(pipe, tmp_path):
    pipe.save_pretrained(tmp_path)
    again = pipeline(
        pipe.task, model=str(tmp_path), device="cpu", dtype="float32", **pipe._forward_params
    )
    assert again.tokenizer.get_vocab() == pipe.tokenizer.get_vocab()
    assert_same(again(TEXTS), pipe(TEXTS))
    # Code in a checkpoint would need `trust_remote_code`.
    assert not list(tmp_path.glob("*.py"))


def test_saving_keeps_the_pooling(bert_folder, tmp_path):
    pipeline(TASK, model=bert_folder, device="cpu", pooling="first").save_pretrained(tmp_path)
    assert pipeline(TASK, model=str(tmp_path), device="cpu").encoder.pooling == "first"


def test_pickled(pipe):
    again = pickle.loads(pickle.dumps(pipe))
    assert_same(again(TEXTS), pipe(TEXTS))
    assert (again.task, again.device, again.dtype) == (pipe.task, pipe.device, pipe.dtype)


# Registration and messages


def test_the_task_is_registered_once():
    before = PIPELINE_REGISTRY.supported_tasks[TASK]
    register_pipeline()
    assert PIPELINE_REGISTRY.supported_tasks[TASK] is before


@pytest.mark.slow
@pytest.mark.parametrize("imports", ["transformers.pipelines, narrative_twins", "narrative_twins"])
def test_the_default_encoder_is_loaded_without_messages(imports):
    """In any order of imports."""
    code = f"import {imports}, transformers; transformers.pipeline({TASK!r})({TEXTS[0]!r})"
    done = run_command(sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_other_messages_of_transformers_are_kept(caplog, monkeypatch):
    logger = logging.getLogger("transformers.pipelines")
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger.parent, "propagate", True)
    message = "No model was supplied, defaulted to {} and revision main."
    logger.warning(message.format("another/model"))
    logger.warning(message.format(narrative_twins.default_encoder()))
    assert {"another/model" in record.getMessage() for record in caplog.records} == {True}
