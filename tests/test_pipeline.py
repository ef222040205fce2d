"""`pipeline("narrative-salience")` as users of transformers and datasets expect it: results as plain
data for all forms of input, options, loading, saving."""

import copy
import json
import logging
import sys
import warnings
from itertools import count, islice
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
from datasets import Dataset, IterableDataset, disable_progress_bars
from datasets.fingerprint import Hasher
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from tqdm import tqdm
from transformers import pipeline
from transformers.pipelines.pt_utils import KeyDataset

import narrative_twins
from narrative_twins import SaliencePipeline, Story, StoryError, score_stories
from narrative_twins.encoder.loading import CheckpointError, default_encoder
from narrative_twins.pipeline import TASK

from support.models import encoder_of
from support.oracle import Oracle
from support.processes import run_command
from support.scoring import assert_same_result

disable_progress_bars()

TEXTS = [
    "Nadia ran. It rained.",
    "The mill burned. Nobody knew. It was gone.",
    "Omar wrote a word.",
]
WINDOWS = {"sentences": ["Nadia ran.", "The mill burned.", "Nobody knew."], "windows": 2}
STORIES = [TEXTS[1], WINDOWS, {"id": "x", "text": "I was there. She didn't answer."}]


@pytest.fixture(scope="module")
def salience(bert_folder):
    return loaded(bert_folder)


@pytest.fixture(scope="module")
def expected(salience):
    return [result.json() for result in score_stories(STORIES, salience.encoder)]


def assert_same(results, expected):
    """Equal results but for rounding errors."""
    for result, other in zip(results, expected, strict=True):
        assert_same_result(dict(result), dict(other))


def loaded(folder, **options):
    options = {"device": "cpu", "dtype": "float32"} | options
    return pipeline(TASK, model=str(folder), **options)


# Input and results


def test_one_story_has_one_result_and_a_list_has_a_list(salience, expected):
    assert salience.task == TASK and salience.encoder.context_tokens == 512
    assert_same([salience(story) for story in STORIES], expected)
    assert_same([salience(Story.parse(STORIES[0]))], expected[:1])
    assert_same(salience(STORIES, batch_size=2), expected)
    assert_same(salience(tuple(STORIES[::-1])), expected[::-1])
    assert salience([]) == []


def test_bad_stories(salience, caplog):
    malformed = [{"text": ["A b.", "C d."]}, {"sentences": ["A b."], "text": 5}]
    results = salience(["", STORIES[0], 7, STORIES[2], *malformed], on_error="skip")
    assert [result is None for result in results] == [True, False, True, False, True, True]
    assert "skipped story 3: a story is a text" in caplog.text
    assert salience("", on_error="skip") is None
    assert salience(["", ""], on_error="skip") == [None, None]
    errors = []
    assert salience(["", STORIES[0], ""], on_error=errors.append)[::2] == [None, None]
    assert [error.index for error in errors] == [0, 2]


class Texts(torch.utils.data.Dataset):
    def __getitem__(self, i):
        return TEXTS[i]

    def __len__(self):
        return 3


COLUMN = KeyDataset(Dataset.from_dict({"text": TEXTS}), "text")


@pytest.mark.parametrize("inputs", [COLUMN, Texts()], ids=["KeyDataset", "torch"])
def test_data_sets_have_a_length_and_can_be_read_again(salience, inputs, capsys):
    results = salience(inputs)
    assert not isinstance(results, list) and len(results) == 3
    assert_same([next(iter(results))], [salience(TEXTS[0])])
    assert_same(list(tqdm(results)), salience(TEXTS))
    assert "3/3" in capsys.readouterr().err
    assert_same(list(results), salience(TEXTS))


def test_generators_are_lazy_and_have_no_length(salience):
    numbers = count()
    results = salience((TEXTS[i % 3] for i in numbers), batch_size=2)
    with pytest.raises(TypeError):
        len(results)
    assert len(list(islice(results, 3))) == 3
    assert next(numbers) <= 5


def test_other_iterables_and_methods(salience, caplog):
    stream = IterableDataset.from_generator(lambda: ({"text": text} for text in TEXTS))
    expected = salience(TEXTS)
    loader = torch.utils.data.DataLoader(TEXTS, batch_size=None)
    for inputs in (map(str, TEXTS), stream, Dataset.from_dict({"text": TEXTS}), loader):
        assert_same(list(salience(inputs)), expected)
    assert_same(salience.predict(TEXTS), expected)
    skipped = salience(Dataset.from_dict({"text": ["", *TEXTS, ""]}), on_error="skip")
    assert len(skipped) == len(list(skipped)) == 5
    assert len(salience(["Nadia ran.", "It rained."])) == 2
    assert "each of the 2 stories is one sentence" in caplog.text
    for sentences in (
        iter(["He ran.", "It rained."]),
        Dataset.from_dict({"text": ["He ran.", "So."]}),
    ):
        caplog.clear()
        results = list(salience(sentences))
        assert caplog.text.count("each of the 2 stories is one sentence") == 1
        assert "group_rows" in caplog.text and [result.row for result in results] == [0, 1]
    caplog.clear()
    results = salience(["He ran. It rained.", " ", "So. He fell."], on_error="skip")
    assert [result and result.row for result in results] == [0, None, 2]
    assert "is one sentence" not in caplog.text


ROWS = [["Nadia ran.", "It rained."], ["The mill burned.", "It was gone."]]


def test_batches_of_a_data_set(salience):
    """As in `datasets.map(batched=True)`: a column of a batch is a list of stories, a batch itself
    is not a story."""
    texts = [" ".join(story) for story in ROWS]
    rows = Dataset.from_dict({"id": ["a", "b"], "story": ROWS, "text": texts})
    rowwise = rows.map(lambda row: {"scores": salience(row)["scores"]})["scores"][:]
    for column in ("story", "text"):
        options = {"fn_kwargs": {"column": column}, "batched": True}
        found = rows.map(lambda batch, column: {"found": salience(batch[column])}, **options)
        for result, scores in zip(found["found"], rowwise, strict=True):
            for name, values in scores.items():
                assert result["scores"][name] == pytest.approx(values, abs=1e-5)
    problem = r"of a batch of rows pass a single column, such as batch\['text'\]"
    for names in (["story"], ["id", "text"]):
        with pytest.raises(StoryError, match=problem):
            rows.select_columns(names).map(salience, batched=True)
    with pytest.raises(StoryError, match=f"the id is list; .* {problem}"):
        salience(rows[:2])


# Options and loading


def test_options_of_the_pipeline_and_of_a_call(salience, bert_folder):
    for names in (["summarization", "deletion"], iter(["summarization", "deletion"])):
        found = salience(STORIES[1], operations=names)["scores"]
        assert list(found) == ["summarization", "deletion"]
    assert salience(STORIES[0], windows=3)["windows"] == [[0, 1], [1, 2], [2, 3]]
    assert salience("a;b", splitter=lambda text: text.split(";"))["sentences"] == ["a", "b"]
    options = {"operations": "deletion", "on_truncation": "ignore", "batch_size": 2}
    short = loaded(bert_folder, context_tokens=10, pooling="first", **options)
    assert (salience.encoder.pooling, short.encoder.pooling) == ("mean", "first")
    assert short(STORIES[0])["truncated"] and list(short(STORIES[0])["scores"]) == ["deletion"]
    assert list(short(STORIES[0], operations="shifting")["scores"]) == ["shifting"]
    # Those of a call are not kept.
    assert list(short(STORIES[0])["scores"]) == ["deletion"]


def test_options_of_loading():
    options = dict.fromkeys(("local_files_only", "trust_remote_code", "use_fast"), True)
    options |= {"device_map": "cpu", "dtype": torch.bfloat16, "batch_size": 2}
    of_model = {"cache_dir": "cache", "attn_implementation": "eager"}
    pipe = pipeline(TASK, model=default_encoder(), model_kwargs=of_model, **options)
    assert pipe(TEXTS[0]) and pipe.dtype == torch.bfloat16
    assert pipe.model.config._attn_implementation == "eager"


def test_unknown_options_are_errors_with_the_way_to_pass_them():
    """Stock pipelines ignore them: their `cache_dir=` has no effect."""
    problem = "unknown option 'cache_dir'.*from_pretrained.* as model_kwargs={'cache_dir': ...}"
    with pytest.raises(TypeError, match=problem):
        pipeline(TASK, cache_dir="x")


def test_loading_from_the_hub(hub, bert_folder, tmp_path, monkeypatch):
    """`revision`, `token`, a cache of its own, and then without requests: as a stock pipeline."""
    monkeypatch.delenv("HF_TOKEN")
    token, cache = {"token": "secret"}, {"model_kwargs": {"cache_dir": str(tmp_path / "cache")}}
    hub.put("models", "somebody/encoder", Path(bert_folder), branch="v1")

    def loads(**options):
        try:
            return bool(pipeline(TASK, model="somebody/encoder", **options)("Nadia ran."))
        except (OSError, CheckpointError):
            return False

    v1 = {"revision": "v1"}
    assert loads(**v1, **token, **cache)
    assert not loads(**v1, token="wrong")
    assert not loads(**token), "there is no branch main"
    local = {"local_files_only": True} | v1
    assert loads(**local, **cache) and not loads(**local)
    hub.asked.clear()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert loads(**v1, **cache) and not hub.asked


# Another model


def changed(model):
    model = copy.deepcopy(model)
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


def quantized(model):
    """A copy with products of integers, whose scale depends on all that is in a batch."""
    with warnings.catch_warnings(action="ignore"):
        return torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {torch.nn.Linear})


@pytest.mark.parametrize("change", [changed, quantized])
@pytest.mark.parametrize("is_assigned", [True, False])
def test_a_model_that_is_given_or_assigned_is_what_scores(change, is_assigned, bert_folder):
    pipe = loaded(bert_folder, context_tokens=100)
    story = {"sentences": ["Nadia ran.", "The mill burned.", "It was gone."]}
    before, model, tokenizer = pipe(story)["scores"], change(pipe.model), pipe.tokenizer
    if is_assigned:
        pipe.model = model
        assert pipe.encoder.context_tokens == 100
    else:
        pipe = pipeline(TASK, model=model, tokenizer=tokenizer, device="cpu")
    found = pipe(story)["scores"]
    expected = Oracle(model, tokenizer).score(story["sentences"], [(0, 3)])
    for name, scores in expected.items():
        assert found[name] == pytest.approx(scores, abs=1e-5)
        assert found[name] != pytest.approx(before[name], abs=1e-4)
    assert pipe.encoder is pipe.encoder


def test_a_model_in_data_parallel_is_unwrapped(salience, bert_folder):
    pipe = loaded(bert_folder)
    pipe.model = torch.nn.DataParallel(pipe.model)
    assert_same([pipe(TEXTS[1])], [salience(TEXTS[1])])


def test_what_is_assigned_and_saved_scores_alike(salience, bert_folder, tmp_path):
    pipe = loaded(bert_folder)
    pipe.model, pipe.tokenizer = encoder_of("modernbert")
    assert pipe(TEXTS[1])["scores"] != salience(TEXTS[1])["scores"]
    pipe.save_pretrained(tmp_path)
    again = loaded(tmp_path)
    assert_same(again(TEXTS), pipe(TEXTS))
    assert again.tokenizer.get_vocab() == pipe.tokenizer.get_vocab()
    assert not list(tmp_path.glob("*.py")), "code would need `trust_remote_code`"


@pytest.mark.slow
@pytest.mark.parametrize("is_assigned", [True, False])
def test_a_compiled_model_has_few_graphs(is_assigned, bert_folder, tmp_path):
    pipe = loaded(bert_folder)
    expected, graphs = pipe(TEXTS), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    if is_assigned:
        pipe.model = torch.compile(pipe.model, backend=backend)
    else:
        pipe.model.compile(backend=backend)
    assert_same([pipe(text) for text in TEXTS], expected)
    assert pipe.encoder.passes.attention == "padded" and 1 <= len(graphs) <= 4
    pipe.save_pretrained(tmp_path)
    assert_same(loaded(tmp_path)(TEXTS), expected)


# Saving and other processes


def test_weights_are_saved_in_the_dtype_of_their_checkpoint(tmp_path):
    """`auto` casts them to float32 on a CPU; `checkpoint` is what transformers calls `auto`."""
    model, tokenizer = encoder_of("bert")
    for part in (model.bfloat16(), tokenizer):
        part.save_pretrained(tmp_path / "half")

    def saved(pipe):
        pipe.save_pretrained(tmp_path / "saved")
        return load_file(tmp_path / "saved" / "model.safetensors")

    pipe = pipeline(TASK, model=str(tmp_path / "half"), device="cpu")
    assert pipe.dtype == pipe.encoder.dtype == torch.float32
    for name, weight in saved(pipe).items():
        assert torch.equal(weight, model.state_dict()[name]), name
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["dtype"] == "bfloat16"
    assert pipe.dtype == torch.float32
    # Weights that bfloat16 would round.
    pipe.model.embeddings.word_embeddings.weight.data.add_(1e-4)
    assert {weight.dtype for weight in saved(pipe).values()} == {torch.float32}
    for dtype, expected in (("checkpoint", torch.bfloat16), ("float32", torch.float32)):
        pipe = pipeline(TASK, model=str(tmp_path / "half"), device="cpu", dtype=dtype)
        assert pipe.dtype == pipe.encoder.dtype == expected
        assert {weight.dtype for weight in saved(pipe).values()} == {expected}


IN_ANOTHER_PROCESS = """
import json, sys
import transformers.pipelines, narrative_twins, transformers
transformers.pipeline("narrative-salience")("Nadia ran. It rained.")
from datasets.fingerprint import Hasher
held = [object() for _ in range(10_000)]
print(Hasher.hash(transformers.pipeline("narrative-salience", **json.loads(sys.argv[1]))))
"""


@pytest.mark.slow
def test_fingerprints_and_messages_in_another_process(bert_folder):
    """Fingerprints are equal, also after calls, so `datasets.map` finds its cache. The default
    encoder is loaded without messages, also if transformers is imported before this package."""
    options = {"model": bert_folder, "device": "cpu", "operations": ["deletion", "summarization"]}
    pipe = pipeline(TASK, **options)
    before = Hasher.hash(pipe)
    pipe(TEXTS[0])
    assert Hasher.hash(pipe) == before
    done = run_command(sys.executable, "-c", IN_ANOTHER_PROCESS, json.dumps(options))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{before}\n", "")


def test_map_over_a_data_set_in_two_processes(fast, bert_folder):
    pipe = pipeline(TASK, model=bert_folder, device="cpu", operations="summarization")
    rows = Dataset.from_list([{"sentences": ["Nadia ran.", f"It rained {at}."]} for at in range(4)])
    alone, shared = rows.map(pipe), rows.map(pipe, num_proc=2)
    assert alone["scores"][:] == shared["scores"][:] == [pipe(row)["scores"] for row in rows]
    assert rows.map(pipe)._fingerprint == alone._fingerprint


# Registration and messages


def test_other_messages_of_transformers_are_kept(caplog, monkeypatch):
    logger = logging.getLogger("transformers.pipelines")
    caplog.set_level(logging.WARNING, "transformers")
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger.parent, "propagate", True)
    message = "No model was supplied, defaulted to {} and revision main."
    logger.warning(message.format("another/model"))
    logger.warning(message.format(narrative_twins.default_encoder()))
    assert {"another/model" in record.getMessage() for record in caplog.records} == {True}


def test_a_loaded_sentence_transformer_is_taken_with_its_tokenizer(salience, bert_folder):
    model = SentenceTransformer(str(bert_folder), device="cpu")
    taken = pipeline(TASK, model=model, tokenizer=model.tokenizer, device="cpu")
    assert_same(taken(STORIES), salience(STORIES))
    assert_same(SaliencePipeline(model, device="cpu")(STORIES), salience(STORIES))
