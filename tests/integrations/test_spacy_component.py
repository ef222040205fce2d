"""The spaCy component: scores are those of `score_stories`, and documents keep them."""

import json
import pickle

import pytest

from narrative_twins import StoryEncoder, StorySalience, score_stories

from support.processes import run_python
from support.scoring import assert_same_result

spacy = pytest.importorskip("spacy", reason="pip install narrative_twins[spacy]")

from spacy.tokens import Doc, DocBin, Span  # noqa: E402

from narrative_twins.integrations.spacy_component import register_extensions  # noqa: E402

TEXTS = [
    "Omar cleaned a window. A man cried.\n\nOmar wrote a word. He left.",
    "  Nadia ran. It rained on.",
    "The mill burned down.",
]


@pytest.fixture(autouse=True)
def no_extensions():
    """Extension attributes are those of the process: each test begins without."""
    for name in ("salience", "salience_data", "other", "other_data"):
        for kind in (Doc, Span):
            if kind.has_extension(name):
                kind.remove_extension(name)


@pytest.fixture
def settings(bert_folder) -> dict:
    return {"model": bert_folder, "dtype": "float32", "device": "cpu"}


def pipeline_of(settings, *before: str):
    pipeline = spacy.blank("en")
    for name in before:
        pipeline.add_pipe(name)
    pipeline.add_pipe("narrative_salience", config=settings)
    return pipeline


@pytest.fixture
def nlp(settings):
    return pipeline_of(settings, "sentencizer")


def stored(doc) -> list:
    return [doc._.salience.json(), *(sentence._.salience for sentence in doc.sents)]


def test_scores_are_those_of_the_engine_in_one_batch(nlp, bert_folder, monkeypatch):
    encoder = StoryEncoder.from_pretrained(bert_folder, dtype="float32", device="cpu")
    encode, batches = StoryEncoder.encode, []
    counted = lambda self, *rest: batches.append(self) or encode(self, *rest)  # noqa: E731
    monkeypatch.setattr(StoryEncoder, "encode", counted)
    docs = list(nlp.pipe(TEXTS))
    assert len(batches) == 1
    assert len(list(nlp.pipe(TEXTS, batch_size=2))) == 3 and len(batches) == 3
    for doc in docs:
        sentences = [sentence for sentence in doc.sents if sentence.text.strip()]
        story = {"text": doc.text, "sentences": [each.text.strip() for each in sentences]}
        (expected,) = score_stories([story], encoder)
        for scored in (doc, nlp(doc.text)):
            assert_same_result(scored._.salience_data, expected.json())
        for index, sentence in enumerate(sentences):
            scores = doc._.salience.scores.items()
            assert sentence._.salience == {name: values[index] for name, values in scores}
    for doc in nlp.pipe(["", " \n "]):
        assert doc._.salience is None and not any(sent._.salience for sent in doc.sents)


def test_settings(nlp, settings):
    more = {"operations": ["deletion"], "windows": 2}
    more |= {"approximate": "one-pass", "similarity": "dot"}
    result = pipeline_of(settings | more, "sentencizer")(TEXTS[0])._.salience
    assert list(result.scores) == ["deletion"] and result.windows == ((0, 2), (2, 4))
    assert (result.approximate, result.similarity) == ("one-pass", "dot")
    with pytest.raises(ValueError, match="unknown operation 'removal'"):
        pipeline_of({"operations": ["removal"]})
    other = {"model": None, "attribute": "other", "operations": ["summarization"]}
    nlp.add_pipe("narrative_salience", name="second", config=settings | other)
    doc = nlp(TEXTS[0])
    assert list(doc._.other.scores) == ["summarization"] and len(doc._.salience.scores) == 4
    assert doc._.other.scores["summarization"] != doc._.salience.scores["summarization"]


def test_errors_of_documents(settings, tmp_path):
    with pytest.raises(OSError, match="nothing.*can't be loaded"):
        pipeline_of({"model": str(tmp_path / "nothing")}, "sentencizer")(TEXTS[0])
    unsplit = pipeline_of(settings)
    for score in (unsplit, lambda text: list(unsplit.pipe([text]))):
        with pytest.raises(ValueError, match=r"Sentence boundaries unset.*add_pipe\('sentencizer'"):
            score(TEXTS[0])
    # A document that fails is left out if the error handler raises nothing.
    pipeline, failed = pipeline_of(settings | {"windows": 3}, "sentencizer"), []
    pipeline.set_error_handler(lambda name, _, docs, error: failed.append((docs[0].text, error)))
    assert [doc.text for doc in pipeline.pipe(TEXTS)] == TEXTS[:1]
    assert [text for text, _ in failed] == TEXTS[1:]
    assert str(failed[0][1]).startswith("windows=3 does not partition the 2 sentence(s)")


def test_documents_and_pipelines_keep_their_scores(nlp, tmp_path):
    docs = list(nlp.pipe(TEXTS))
    expected = [stored(doc) for doc in docs]
    binary = DocBin(store_user_data=True, docs=docs).to_bytes()
    nlp.to_disk(tmp_path)
    assert not (tmp_path / "narrative_salience").exists()
    for copies in (
        pickle.loads(pickle.dumps(docs)),
        [Doc(nlp.vocab).from_bytes(doc.to_bytes()) for doc in docs],
        list(DocBin().from_bytes(binary).get_docs(nlp.vocab)),
        list(spacy.load(tmp_path).pipe(TEXTS)),
        list(pickle.loads(pickle.dumps(nlp)).pipe(TEXTS)),
    ):
        assert [stored(doc) for doc in copies] == expected
    for doc in docs:
        saved = json.loads(json.dumps(doc.to_json(underscore=["salience_data"])))
        assert StorySalience.from_dict(saved["_"]["salience_data"]).json() == stored(doc)[0]
    both = Doc.from_docs(docs)
    assert [sent._.salience for sent in both.sents] == [x for each in expected for x in each[1:]]


def test_attributes_of_other_libraries_are_not_replaced():
    Doc.set_extension("salience", default=1.0)
    with pytest.raises(ValueError, match="salience.*already exists"):
        register_extensions()
    register_extensions("other")
    register_extensions("other")


@pytest.mark.slow
def test_in_another_process(nlp, tmp_path):
    """spaCy imports the module with every pipeline: nothing large. Documents are read without the
    component."""
    DocBin(store_user_data=True, docs=nlp.pipe(TEXTS)).to_disk(tmp_path / "stories.spacy")
    code = f"""
import sys
import spacy
from spacy.tokens import DocBin
vocabulary = spacy.blank("en").vocab
assert "narrative_twins.integrations.spacy_component" in sys.modules
assert "transformers" not in sys.modules
from narrative_twins.integrations.spacy_component import register_extensions

register_extensions()
for doc in DocBin().from_disk({str(tmp_path / "stories.spacy")!r}).get_docs(vocabulary):
    print(doc._.salience.top(1)[0].sentence)
"""
    printed = run_python("-c", code, cwd=tmp_path)
    assert printed.splitlines() == [doc._.salience.top(1)[0].sentence for doc in nlp.pipe(TEXTS)]
