"""`pipeline("narrative-salience")`: results as plain data, for all forms of input and options of
transformers."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from itertools import count, islice

import pytest
import torch
from datasets import Dataset, IterableDataset
from sentence_transformers import SentenceTransformer
from transformers import pipeline
from transformers.pipelines import PIPELINE_REGISTRY
from transformers.pipelines.pt_utils import KeyDataset
from transformers.utils import logging as transformers_logging

import narrative_twins
from narrative_twins import Story, StoryEncoder, StoryError, score_stories
from narrative_twins.pipeline import TASK, register_pipeline

from support.models import encoder_of, modules
from support.processes import run_command, run_python

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
    return pipeline("narrative-salience", device="cpu")


@pytest.fixture(scope="module")
def expected(salience):
    return [result.to_dict() for result in score_stories(STORIES, salience.encoder)]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for result, other in zip(found, expected, strict=True):
        assert {**result, "scores": None} == {**other, "scores": None}
        for name, scores in other["scores"].items():
            assert result["scores"][name] == pytest.approx(scores, abs=1e-5)


def test_default_encoder_needs_no_network(salience):
    assert salience.encoder.context_tokens == 512
    assert salience.task == "narrative-salience"


def test_single_story_returns_single_result(salience, expected):
    assert_same([salience(story) for story in STORIES], expected)
    assert_same([salience(Story.parse(STORIES[0]))], expected[:1])
    assert list(expected[0]) == [
        "sentences",
        "spans",
        "windows",
        "scores",
        "truncated",
        "context_tokens",
        "cut_tokens",
        "approximate",
    ]


@pytest.mark.parametrize("batch_size", [None, 1, 2, 64])
def test_list_returns_list(salience, expected, batch_size):
    assert_same(salience(STORIES, batch_size=batch_size), expected)
    assert_same(salience(tuple(STORIES)), expected)
    assert salience([]) == []


def test_generators_and_datasets_are_lazy(salience):
    texts = [STORIES[0], STORIES[2]["text"]]
    expected = salience(texts)
    rows = Dataset.from_dict({"text": texts})
    mapped = type(
        "Texts",
        (torch.utils.data.Dataset,),
        {"__getitem__": lambda _, i: texts[i], "__len__": lambda _: 2},
    )()
    stream = IterableDataset.from_generator(lambda: ({"text": text} for text in texts))
    for inputs in (
        (text for text in texts),
        iter(texts),
        map(str, texts),
        rows,
        stream,
        rows["text"],
        KeyDataset(rows, "text"),
        mapped,
    ):
        results = salience(inputs)
        assert not isinstance(results, list)
        assert_same(list(results), expected)


def test_batch_size_limits_how_far_the_input_is_read(salience):
    taken = []

    def endless():
        for i in count():
            taken.append(i)
            yield f"In {i} the mill burned. Nadia ran."

    assert len(list(islice(salience(endless(), batch_size=3), 2))) == 2
    assert len(taken) == 3


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


def test_progress_bar_over_a_list(salience, capsys):
    salience(STORIES, progress=True)
    assert "3.0/3 stories" in capsys.readouterr().err


def test_invalid_calls(salience):
    with pytest.raises(ValueError, match="unknown operation 'delete'.*did you mean 'deletion'"):
        salience(STORIES[0], operations=["delete"])
    with pytest.raises(TypeError, match="unknown option 'window'"):
        salience(STORIES[0], window=5)
    with pytest.raises(TypeError, match="not int"):
        salience(5)


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


def test_half_precision(bert_folder):
    half = pipeline(TASK, model=bert_folder, device="cpu", dtype="bfloat16")
    assert half.model.dtype == torch.bfloat16
    assert len(half(STORIES[0])["scores"]["shifting"]) == 3


def test_loaded_model_and_tokenizer():
    model, tokenizer = encoder_of("modernbert")
    salience = pipeline(TASK, model=model, tokenizer=tokenizer, device="cpu")
    assert len(salience(STORIES[0])["scores"]["disruption"]) == 3


def test_saving_writes_no_code(salience, tmp_path):
    """A checkpoint with the pipeline's code would need `trust_remote_code`."""
    salience.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.py"))
    again = pipeline(TASK, model=str(tmp_path), device="cpu")
    assert_same([again(STORIES[0])], [salience(STORIES[0])])


def test_saving_keeps_the_pooling(bert_folder, tmp_path):
    pipeline(TASK, model=bert_folder, device="cpu", pooling="first").save_pretrained(tmp_path)
    assert pipeline(TASK, model=str(tmp_path), device="cpu").encoder.pooling == "first"


def test_registering_twice_changes_nothing():
    before = PIPELINE_REGISTRY.supported_tasks[TASK]
    register_pipeline()
    assert PIPELINE_REGISTRY.supported_tasks[TASK] is before


@pytest.mark.parametrize(
    "first", ["transformers.pipelines", "narrative_twins", "narrative_twins.pipeline"]
)
def test_the_task_is_known_in_any_order_of_imports(first):
    code = f"import {first}, narrative_twins, transformers.pipelines as pipelines"
    out = run_python("-c", f"{code}; print(pipelines.check_task({TASK!r})[1]['impl'].__module__)")
    assert out.strip() == "narrative_twins.pipeline"


def test_results_are_data_that_can_be_shown(salience):
    result, other = salience(STORIES[0]), salience(STORIES)[2]
    assert json.loads(json.dumps(result)) == result
    assert str(result.extract(1)) == result.top(1)[0].sentence
    assert "x: 2 sentences" in other._repr_html_()
    assert [each.salience.name for each in salience(STORIES)] == ["story 1", "story 2", "x"]


DEFAULT = (
    "import narrative_twins, transformers; transformers.pipeline('narrative-salience')('Nadia ran."
    " It rained.')"
)


def test_the_default_encoder_is_loaded_without_messages():
    done = run_command(sys.executable, "-c", DEFAULT)
    assert (done.returncode, done.stderr) == (0, "")


def test_progress_bars_that_are_wanted_are_shown():
    done = run_command(
        sys.executable, "-c", DEFAULT, env=os.environ | {"HF_HUB_DISABLE_PROGRESS_BARS": "0"}
    )
    assert done.returncode == 0 and "Loading weights: 100%" in done.stderr


def test_other_messages_of_transformers_are_kept(bert_folder, caplog, monkeypatch):
    """Settings of its progress bars too."""
    transformers_logging.enable_progress_bar()  # which a command in the same process may have disabled
    logger = logging.getLogger("transformers.pipelines")
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger.parent, "propagate", True)
    logger.warning("No model was supplied, defaulted to another/model and revision main.")
    logger.warning(
        f"No model was supplied, defaulted to {narrative_twins.default_encoder()} and revision"
        " main."
    )
    assert {"another/model" in record.getMessage() for record in caplog.records} == {True}
    assert transformers_logging.is_progress_bar_enabled()
    StoryEncoder.from_pretrained(bert_folder)
    list(transformers_logging.tqdm([1], desc="Loading weights", file=(shown := io.StringIO())))
    assert "Loading weights" in shown.getvalue()
