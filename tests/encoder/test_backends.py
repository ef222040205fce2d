"""Encoders that other libraries run: exported, they have the vectors of torch, and run without
it."""

from __future__ import annotations

import ast
import json
import pickle
import shutil
import sys

import numpy as np
import pytest
import torch
from transformers import pipeline

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.commands.cli import main as command
from narrative_twins.encoder.backends import BACKENDS, PortableModel
from narrative_twins.encoder.export import export_encoder

from support.models import SENTENCES, encoder_of, small
from support.processes import run_python

STORIES = [
    {"sentences": SENTENCES[:5]},
    {"sentences": SENTENCES[2:7] * 3},
    {"sentences": [SENTENCES[0]]},
    {"sentences": SENTENCES[:6], "windows": 2},
]
"""One of them longer than the context of 60 tokens."""
TEXT = " ".join(SENTENCES[:3])
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from narrative_twins import StoryEncoder, score_stories
encoder = StoryEncoder.from_pretrained(sys.argv[1], backend="onnx")
print([result.scores for result in score_stories([sys.argv[2]], encoder)])
from narrative_twins.commands.cli import main
assert main(["score", sys.argv[3], "--model", sys.argv[1], "--backend", "onnx", "--format", "json", "-q"]) == 0
"""


@pytest.fixture(autouse=True)
def saved():
    """Another backend, `saved`, for which an export takes no time."""

    class SavedModel(PortableModel):
        backend = "saved"
        file = "model.pt"
        extra = "torch"

        def start(self, path):
            self._model = torch.load(path, weights_only=False)

        def run(self, ids, mask):
            with torch.no_grad():
                return self._model(torch.tensor(ids), torch.tensor(mask)).numpy()

        @classmethod
        def write(cls, model, inputs, path):
            torch.save(model, path)

    yield SavedModel
    del BACKENDS["saved"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with an encoder in ONNX, without weights for torch."""
    folder = tmp_path_factory.mktemp("exported")
    export_encoder(small(), folder)
    return folder


def assert_same_scores(found, expected, tolerance=1e-5):
    for one, other in zip(found, expected, strict=True):
        for name in ("story", "cut_tokens", "context_tokens"):
            assert getattr(one, name) == getattr(other, name)
        for name, scores in one.scores.items():
            assert scores == pytest.approx(other.scores[name], abs=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["roberta", "modernbert"])
def test_scores_of_other_kinds_of_models_are_those_of_torch(kind, tmp_path):
    encoder = small(kind, positions=64)
    assert export_encoder(encoder, tmp_path) == tmp_path / "onnx" / "model.onnx"
    found = StoryEncoder.from_pretrained(tmp_path, backend="onnx")
    assert_same_scores(score_stories(STORIES, found), score_stories(STORIES, encoder))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"context_tokens": 60}, {"pooling": "first", "batch_tokens": 100}]
)
def test_scores_are_those_of_torch(options, exported):
    found = StoryEncoder.from_pretrained(exported, backend="onnx", **options)
    expected = StoryEncoder(*encoder_of("bert"), **options)
    session = found.model._session
    for given in session.get_inputs():
        assert given.shape == ["batch", "sequence"]
    assert session.get_outputs()[0].shape == ["batch", "sequence", 32]
    assert (found.dtype, found.device.type, found.passes.attention) == ("float32", "cpu", "padded")
    assert_same_scores(score_stories(STORIES, found), score_stories(STORIES, expected))
    if not options:
        again = pickle.loads(pickle.dumps(found))
        assert_same_scores(score_stories(STORIES, again), score_stories(STORIES, found), 0)
        assert_same_scores(
            *(score_stories(STORIES, each, approximate="one-pass") for each in (found, expected))
        )


@pytest.mark.slow
def test_a_graph_that_can_not_be_run_is_reported(tmp_path, exported):
    """Here one that asks for more memory than there can be."""
    onnx = pytest.importorskip("onnx")
    folder = shutil.copytree(exported, tmp_path / "large")
    path = folder / "onnx" / "model.onnx"
    model = onnx.load(path)
    shape = onnx.helper.make_tensor("", onnx.TensorProto.INT64, [1], [2**61])
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["large"], value=shape))
    model.graph.node.insert(1, onnx.helper.make_node("ConstantOfShape", ["large"], ["zeros"]))
    model.graph.node.insert(2, onnx.helper.make_node("ReduceSum", ["zeros"], ["zero"], keepdims=0))
    last = model.graph.node[-1]
    states = last.output[0]
    last.output[0] = "before"
    model.graph.node.append(onnx.helper.make_node("Add", ["before", "zero"], [states]))
    onnx.save(model, path)
    with pytest.raises(ValueError, match="^.*large can't be run by onnx: [^\n]*$"):
        StoryEncoder.from_pretrained(folder, backend="onnx")


@pytest.mark.slow
@pytest.mark.parametrize("is_absolute", [False, True])
def test_onnx_data_outside_of_the_folder_are_not_read(is_absolute, exported, tmp_path):
    onnx = pytest.importorskip("onnx")
    folder = shutil.copytree(exported, tmp_path / "encoder")
    path = folder / "onnx" / "model.onnx"
    model = onnx.load(path)
    weight = next(found for found in model.graph.initializer if found.raw_data)
    (tmp_path / "outside").write_bytes(weight.raw_data)
    location = str(tmp_path / "outside") if is_absolute else "../../outside"
    weight.external_data.add(key="location", value=location)
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(OSError, match="can't be loaded by onnx"):
        StoryEncoder.from_pretrained(folder, backend="onnx")


def test_scoring_does_not_import_torch(exported, tmp_path):
    (tmp_path / "story.txt").write_text(TEXT, encoding="utf-8")
    printed = run_python("-c", WITHOUT_TORCH, exported, TEXT, tmp_path / "story.txt")
    first, _, by_command = printed.partition("\n")
    (result,) = score_stories([TEXT], small())
    for found in (ast.literal_eval(first)[0], json.loads(by_command)[0]["scores"]):
        assert found == {
            name: pytest.approx(scores, abs=1e-5) for name, scores in result.scores.items()
        }


def test_another_backend_is_one_class(saved, tmp_path, bert_folder, capsys):
    """It is known to exports, `from_pretrained`, the pipeline and the command line; an export into
    the folder of the encoder leaves its other files as they are."""
    folder = shutil.copytree(bert_folder, tmp_path / "encoder")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    (tmp_path / "story.txt").write_text(TEXT, encoding="utf-8")
    assert command(["export", str(folder), "--to", str(folder), "--backend", "saved"]) == 0
    assert capsys.readouterr().out == f"{folder / 'saved' / 'model.pt'}\n"
    options = ["--backend", "saved", "--model", str(folder), "--quiet", "--format", "json"]
    assert command(["score", str(tmp_path / "story.txt"), *options]) == 0
    (by_command,) = json.loads(capsys.readouterr().out)
    salience = pipeline("narrative-salience", model=str(folder), backend="saved")
    assert type(salience.encoder.model) is saved and salience.model is salience.encoder.model
    assert salience.encoder.on_accelerator(1) is salience.encoder
    (expected,) = score_stories([TEXT], small())
    salience.save_pretrained(tmp_path / "again")
    again = pipeline("narrative-salience", model=str(tmp_path / "again"), backend="saved")
    for found in (by_command["scores"], salience(TEXT)["scores"], again(TEXT)["scores"]):
        assert found == {
            name: pytest.approx(scores, abs=1e-5) for name, scores in expected.scores.items()
        }
    assert {path: path.read_bytes() for path in before} == before
    assert {*folder.iterdir()} == {*before, folder / "saved"}


def test_what_is_missing_or_wrong_is_reported(tmp_path, monkeypatch):
    folder = tmp_path / "exported"
    export_encoder(small(), folder, "saved")
    for options, problem in (
        ({"backend": "tensorflow"}, "choose 'torch', 'onnx', 'saved'"),
        ({"dtype": "bfloat16"}, "dtype 'bfloat16': backend='saved' runs in float32 only"),
        ({"device": "cuda"}, "backend='saved' runs on a CPU"),
    ):
        with pytest.raises(ValueError, match=problem):
            StoryEncoder.from_pretrained(folder, **{"backend": "saved", **options})
    encoder = StoryEncoder.from_pretrained(folder, backend="saved")
    encoder.save_pretrained(tmp_path / "copy")
    names = [
        sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        for root in (folder, tmp_path / "copy")
    ]
    assert names[0] == names[1]
    with pytest.raises(ValueError, match="export the encoder that it was made from"):
        export_encoder(encoder, tmp_path)
    with pytest.raises(ValueError, match="choose 'torch', 'onnx', 'saved'"):
        export_encoder(small(), tmp_path, "coreml")
    with pytest.raises(ValueError, match="has another encoder"):
        export_encoder(small("roberta"), folder)
    with pytest.raises(OSError, match="narrative-twins export .* --backend onnx --to FOLDER"):
        StoryEncoder.from_pretrained(folder, backend="onnx")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(OSError, match="model.onnx can't be loaded by onnx"):
        StoryEncoder.from_pretrained(folder, backend="onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install 'narrative_twins\[onnx\]'"):
        StoryEncoder.from_pretrained(folder, backend="onnx")
    (folder / "config.json").unlink()
    with pytest.raises(OSError, match="no config.json with a hidden_size"):
        StoryEncoder.from_pretrained(folder, backend="saved")


def test_an_export_with_other_vectors_is_not_kept(saved, tmp_path, monkeypatch):
    def write_another(model, inputs, path):
        next(model.parameters()).data.mul_(-1)
        torch.save(model, path)

    monkeypatch.setattr(saved, "write", write_another)
    with pytest.raises(ValueError, match="has other vectors than the encoder .* so it is not kept"):
        export_encoder(small(), tmp_path, "saved")
    assert not any(tmp_path.iterdir())


def test_a_model_without_token_states_is_refused(saved, tmp_path, monkeypatch):
    export_encoder(small(), tmp_path, "saved")
    run = saved.run
    monkeypatch.setattr(saved, "run", lambda *given: np.asarray(run(*given).mean(1)))
    with pytest.raises(ValueError, match="did not return token states"):
        StoryEncoder.from_pretrained(tmp_path, backend="saved")
