"""Encoders in ONNX and OpenVINO: exported, they have the vectors of torch, and run without it."""

from __future__ import annotations

import ast
import json
import pickle
import shutil
import sys

import numpy as np
import pytest
from transformers import pipeline

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.commands.cli import main as command
from narrative_twins.encoder import export
from narrative_twins.encoder.export import export_encoder
from narrative_twins.encoder.portable import PortableModel

from support.models import SENTENCES, encoder_of, small
from support.processes import run_python

STORIES = [
    SENTENCES[:5],
    SENTENCES[2:7] * 12,
    [SENTENCES[0]],
    {"sentences": SENTENCES[:6], "windows": 2},
]
"""One of them longer than the context of 60 tokens."""
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from narrative_twins import StoryEncoder, score_stories
encoder = StoryEncoder.from_pretrained(sys.argv[1], backend=sys.argv[2])
print([result.scores for result in score_stories([sys.argv[3]], encoder)])
from narrative_twins.commands.cli import main
assert main(["score", sys.argv[4], "--model", sys.argv[1], "--backend", sys.argv[2], "--format", "json", "-q"]) == 0
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with an encoder in both formats and without weights for torch."""
    folder = tmp_path_factory.mktemp("exported")
    for backend in ("onnx", "openvino"):
        export_encoder(small(), folder, backend)
    return folder


def stories():
    return [story if isinstance(story, dict) else {"sentences": story} for story in STORIES]


def assert_same_scores(found, expected, tolerance=1e-5):
    for one, other in zip(found, expected, strict=True):
        assert (one.story, one.cut_tokens, one.context_tokens) == (
            other.story,
            other.cut_tokens,
            other.context_tokens,
        )
        for name, scores in one.scores.items():
            assert scores == pytest.approx(other.scores[name], abs=tolerance)


@pytest.mark.parametrize("kind", ["mpnet", "roberta", "modernbert"])
def test_scores_of_other_kinds_of_models_are_those_of_torch(kind, tmp_path):
    encoder = small(kind, positions=64)
    path = export_encoder(encoder, tmp_path)
    assert path == tmp_path / "onnx" / "model.onnx"
    found = StoryEncoder.from_pretrained(tmp_path, backend="onnx")
    assert_same_scores(score_stories(stories(), found), score_stories(stories(), encoder))


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
@pytest.mark.parametrize(
    "options", [{}, {"context_tokens": 60}, {"pooling": "first", "batch_tokens": 100}]
)
def test_scores_are_those_of_torch(backend, options, exported):
    found = StoryEncoder.from_pretrained(exported, backend=backend, **options)
    expected = StoryEncoder(*encoder_of("bert"), **options)
    assert (found.dtype, str(found.device), found.passes.attention) == ("float32", "cpu", "padded")
    assert_same_scores(score_stories(stories(), found), score_stories(stories(), expected))
    if "pooling" not in options:
        one_pass = [
            score_stories(stories(), encoder, approximate="one-pass")
            for encoder in (found, expected)
        ]
        assert_same_scores(*one_pass)


def test_openvino_reads_onnx_and_multiplies_in_bfloat16(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "only_onnx", ignore=shutil.ignore_patterns("openvino"))
    expected = list(score_stories(stories(), small()))
    for dtype, tolerance in (("float32", 1e-5), ("bfloat16", 0.1)):
        encoder = StoryEncoder.from_pretrained(
            tmp_path / "only_onnx", backend="openvino", dtype=dtype
        )
        assert encoder.dtype == dtype
        assert_same_scores(score_stories(stories(), encoder), expected, tolerance)


def test_int8_changes_scores_a_little(tmp_path):
    texts = [" ".join(SENTENCES[start : start + 3]) for start in range(6)]
    path = export_encoder(small(), tmp_path, "openvino", dtype="int8", texts=texts)
    assert path == tmp_path / "openvino" / "openvino_model_qint8_quantized.xml"
    encoder = StoryEncoder.from_pretrained(tmp_path, backend="openvino", dtype="int8")
    assert encoder.dtype == "int8"
    found, expected = (list(score_stories(stories(), each)) for each in (encoder, small()))
    assert_same_scores(found, expected, 0.3)
    assert any(one.scores != other.scores for one, other in zip(found, expected, strict=True))
    with pytest.raises(OSError, match="no openvino/openvino_model.xml or onnx/model.onnx"):
        StoryEncoder.from_pretrained(tmp_path, backend="openvino")


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_scoring_does_not_import_torch(backend, exported, tmp_path):
    text = " ".join(SENTENCES[:3])
    (tmp_path / "story.txt").write_text(text, encoding="utf-8")
    printed = run_python("-c", WITHOUT_TORCH, exported, backend, text, tmp_path / "story.txt")
    first, _, by_command = printed.partition("\n")
    (result,) = score_stories([text], small())
    for found in (ast.literal_eval(first)[0], json.loads(by_command)[0]["scores"]):
        assert {
            name: pytest.approx(scores, abs=1e-5) for name, scores in found.items()
        } == result.scores


def test_copies_are_loaded_again(exported):
    encoder = StoryEncoder.from_pretrained(exported, backend="onnx")
    again = pickle.loads(pickle.dumps(encoder))
    assert_same_scores(score_stories(stories(), again), score_stories(stories(), encoder), 0)
    assert encoder.on_accelerator(1) is encoder


def test_several_processes(exported):
    encoder = StoryEncoder.from_pretrained(exported, backend="onnx")
    found = score_stories(stories(), encoder, processes=2)
    assert_same_scores(found, score_stories(stories(), small()))


def test_commands_and_pipeline(tmp_path, capsys, bert_folder):
    shutil.copytree(bert_folder, tmp_path / "encoder")
    text = tmp_path / "story.txt"
    text.write_text(" ".join(SENTENCES[:4]), encoding="utf-8")
    # Into the folder of the encoder itself, whose files stay as they are.
    before = {
        path: path.read_bytes() for path in (tmp_path / "encoder").rglob("*") if path.is_file()
    }
    assert (
        command(
            [
                "export",
                str(tmp_path / "encoder"),
                "--backend",
                "onnx",
                "--to",
                str(tmp_path / "encoder"),
            ]
        )
        == 0
    )
    assert capsys.readouterr().out == f"{tmp_path / 'encoder' / 'onnx' / 'model.onnx'}\n"
    assert {path: path.read_bytes() for path in before} == before
    added = {path.name for path in (tmp_path / "encoder").rglob("*")} - {
        path.name for path in before
    }
    assert added == {"onnx", "model.onnx"}
    scores = []
    for backend in ("torch", "onnx"):
        options = [
            "--backend",
            backend,
            "--model",
            str(tmp_path / "encoder"),
            "--dtype",
            "float32",
            "--quiet",
        ]
        assert command(["score", str(text), "--format", "json", *options]) == 0
        scores.append(json.loads(capsys.readouterr().out)[0]["scores"])
        salience = pipeline(
            "narrative-salience", model=str(tmp_path / "encoder"), backend=backend, dtype="float32"
        )
        scores.append(salience(text.read_text(encoding="utf-8"))["scores"])
    assert isinstance(salience.encoder.model, PortableModel)
    for found in scores[1:]:
        assert {name: pytest.approx(values, abs=1e-5) for name, values in found.items()} == scores[
            0
        ]


def test_what_is_missing_or_wrong_is_told(exported, tmp_path, monkeypatch):
    def load(folder=exported, **options):
        return StoryEncoder.from_pretrained(folder, **{"backend": "onnx", **options})

    for options, problem in (
        ({"backend": "tensorflow"}, "choose 'torch', 'onnx', 'openvino'"),
        ({"dtype": "int4"}, "dtype 'int4' is not supported by onnx; choose float32"),
        ({"device": "cuda"}, "backend='onnx' runs on a CPU"),
    ):
        with pytest.raises(ValueError, match=problem):
            load(**options)
    with pytest.raises(ValueError, match="save the one that it was exported from"):
        load().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="export the encoder that it was made from"):
        export_encoder(load(), tmp_path)
    for options, problem in (
        ({"dtype": "int8"}, "dtype='int8': choose 'float32', or with backend='openvino' 'int8'"),
        ({"backend": "openvino", "dtype": "int8"}, "int8 needs texts"),
        ({"backend": "coreml"}, "choose 'onnx' or 'openvino'"),
    ):
        with pytest.raises(ValueError, match=problem):
            export_encoder(small(), tmp_path, **options)
    with pytest.raises(OSError, match="--backend openvino --dtype int8 --to FOLDER"):
        load(backend="openvino", dtype="int8")
    with pytest.raises(ValueError, match="has another encoder"):
        export_encoder(small("roberta"), exported)
    with pytest.raises(OSError, match="narrative-twins export .* --backend onnx --to FOLDER"):
        load(None)
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(OSError, match="no config.json with a hidden_size"):
        load(tmp_path)
    for file in exported.glob("*.json"):
        shutil.copy(file, tmp_path)
    for backend in ("onnx", "openvino"):
        with pytest.raises(OSError, match=f"model.onnx can't be loaded by {backend}"):
            load(tmp_path, backend=backend)
    for library in ("onnxruntime", "openvino"):
        monkeypatch.setitem(sys.modules, library, None)
    for backend in ("onnx", "openvino"):
        with pytest.raises(ImportError, match=rf"pip install 'narrative_twins\[{backend}\]'"):
            load(backend=backend)


def test_an_export_with_other_vectors_is_not_kept(tmp_path, monkeypatch):
    write = export._write_onnx

    def of_another(encoder, path):
        write(StoryEncoder(*encoder_of("bert-cased")), path)

    monkeypatch.setattr(export, "_write_onnx", of_another)
    with pytest.raises(ValueError, match="has other vectors than the encoder .* so it is not kept"):
        export_encoder(small(), tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_model_without_token_states_is_refused(exported):
    model = PortableModel(exported, "onnx")
    run = model.run
    model.run = lambda ids, mask: np.asarray(run(ids, mask).mean(1))
    with pytest.raises(ValueError, match="did not return token states"):
        StoryEncoder(model, model.tokenizer())


def test_a_full_disk_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    """Libraries in Rust raise a plain `Exception` for it."""
    small("bert").save_pretrained(tmp_path / "encoder")

    def full(tokenizer, folder, *arguments, **options):
        raise Exception("No space left on device (os error 28)")

    monkeypatch.setattr("transformers.PreTrainedTokenizerBase.save_pretrained", full)
    out = tmp_path / "exported"
    capsys.readouterr()
    assert (
        command(["export", str(tmp_path / "encoder"), "--backend", "onnx", "--to", str(out)]) == 1
    )
    assert (
        capsys.readouterr().err
        == f"narrative-twins: {out} can't be written: No space left on device\n"
    )
    assert not [file for file in out.rglob("*") if file.is_file()]
    with pytest.raises(OSError, match="saved can't be written: No space left"):
        small("bert").save_pretrained(tmp_path / "saved")
