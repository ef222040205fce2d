"""The spaCy component: scores are those of `score_stories`, and documents keep them wherever they
go."""

from __future__ import annotations

import os
import pickle

import pytest

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.salience.result import StorySalience

from support.processes import run_python

spacy = pytest.importorskip(
    "spacy", reason="spaCy is not installed: pip install narrative_twins[spacy]"
)

from spacy.tokens import Doc, DocBin, Span  # noqa: E402

from narrative_twins.integrations.spacy_component import register_extensions  # noqa: E402

TEXTS = [
    "Omar cleaned a window. A man cried.\n\nOmar wrote a word. He left.",
    "  Nadia ran. It rained on.",
    "The mill burned down.",
]


@pytest.fixture(autouse=True)
def no_extensions():
    """Extension attributes are those of the process: begin and end without."""
    remove_extensions()
    yield
    remove_extensions()


def remove_extensions() -> None:
    for attribute in ("salience", "other"):
        for kind in (Doc, Span):
            if kind.has_extension(attribute):
                kind.remove_extension(attribute)


@pytest.fixture
def settings(bert_folder) -> dict:
    return {"model": bert_folder, "dtype": "float32", "device": "cpu"}


@pytest.fixture
def nlp(settings):
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("narrative_salience", config=settings)
    return pipeline


def stripped(doc) -> list[str]:
    return [sentence.text.strip() for sentence in doc.sents if sentence.text.strip()]


def plain(doc) -> dict:
    return doc._.salience.to_dict()


def same(result: StorySalience, expected: StorySalience) -> bool:
    close = all(
        result.scores[name] == pytest.approx(values, abs=1e-5)
        for name, values in expected.scores.items()
    )
    return close and {**result.to_dict(), "scores": 0} == {**expected.to_dict(), "scores": 0}


def test_scores_are_those_of_the_engine(nlp, bert_folder):
    encoder = StoryEncoder.from_pretrained(bert_folder, dtype="float32", device="cpu")
    docs = list(nlp.pipe(TEXTS))
    stories = [
        {"text": text, "sentences": stripped(doc)} for text, doc in zip(TEXTS, docs, strict=True)
    ]
    for doc, expected in zip(docs, score_stories(stories, encoder), strict=True):
        assert same(doc._.salience, expected) and same(nlp(doc.text)._.salience, expected)
        found = [sentence._.salience for sentence in doc.sents if sentence.text.strip()]
        assert found == [
            {name: scores[index] for name, scores in doc._.salience.scores.items()}
            for index in range(len(found))
        ]
    assert list(docs[0]._.salience.scores) == [
        "deletion",
        "shifting",
        "disruption",
        "summarization",
    ]


def test_other_spans_have_the_scores_of_their_sentence(nlp):
    doc = nlp(TEXTS[0])
    first, second, *_ = doc.sents
    assert (
        doc[0:2]._.salience == first._.salience
        and doc[second.start + 1 : second.end]._.salience is not None
    )
    assert doc[0 : second.end]._.salience is None
    blank = next(token.i for token in doc if token.is_space)
    assert doc[blank : blank + 1]._.salience is None


def test_documents_without_a_sentence(nlp):
    for doc in nlp.pipe(["", " \n ", TEXTS[2]]):
        assert (doc._.salience is None) == (not doc.text.strip())
        assert [sentence._.salience is None for sentence in doc.sents] == [
            not doc.text.strip()
        ] * len([*doc.sents])


def test_a_batch_is_scored_together(nlp, monkeypatch):
    batches = []
    encode = StoryEncoder.encode

    def counted(self, variants, *arguments):
        batches.append(len(variants))
        return encode(self, variants, *arguments)

    monkeypatch.setattr(StoryEncoder, "encode", counted)
    together = [plain(doc) for doc in nlp.pipe(TEXTS)]
    assert len(batches) == 1
    for found, expected in zip(
        (plain(doc) for doc in nlp.pipe(TEXTS, batch_size=2)), together, strict=True
    ):
        for name, scores in expected["scores"].items():
            assert found["scores"][name] == pytest.approx(scores, abs=1e-5)
    assert len(batches) == 3


def test_settings(settings):
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    config = settings | {"operations": ["deletion"], "windows": 2, "approximate": "one-pass"}
    pipeline.add_pipe("narrative_salience", config=config)
    result = pipeline(TEXTS[0])._.salience
    assert (
        list(result.scores) == ["deletion"]
        and result.windows == ((0, 2), (2, 4))
        and result.approximate
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"operations": ["removal"]}, "unknown operation 'removal'"),
        ({"operations": ["shifting"], "approximate": "one-pass"}, "shifting has no one-pass form"),
    ],
)
def test_invalid_settings(config, message):
    with pytest.raises(ValueError, match=message):
        spacy.blank("en").add_pipe("narrative_salience", config=config)


def test_an_encoder_that_is_missing(tmp_path):
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("narrative_salience", config={"model": str(tmp_path / "nothing")})
    with pytest.raises(OSError, match="nothing.*can't be loaded"):
        pipeline(TEXTS[0])


def test_without_sentence_boundaries(settings):
    pipeline = spacy.blank("en")
    pipeline.add_pipe("narrative_salience", config=settings)
    with pytest.raises(
        ValueError, match=r'has no sentence boundaries.*nlp.add_pipe\("sentencizer"'
    ):
        pipeline(TEXTS[0])
    with pytest.raises(ValueError, match="^the document has no sentence boundaries"):
        list(pipeline.pipe(TEXTS))


def test_error_handlers_get_the_document(settings):
    """As in other components: a document that fails is left out if the handler raises nothing."""
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("narrative_salience", config=settings | {"windows": 3})
    failed = []
    pipeline.set_error_handler(
        lambda name, component, docs, error: failed.append((name, docs[0].text, str(error)))
    )
    assert [doc.text for doc in pipeline.pipe(TEXTS)] == TEXTS[:1]
    assert [text for _, text, _ in failed] == TEXTS[1:]
    assert failed[0][0] == "narrative_salience" and failed[0][2].startswith(
        "windows=3 does not partition the 2 sentence(s)"
    )


def test_documents_keep_their_scores(nlp):
    """Pickled, as bytes, in a `DocBin`, and in another process."""
    docs = list(nlp.pipe(TEXTS))
    binary = DocBin(store_user_data=True, docs=docs).to_bytes()
    copies = {
        "pickle": pickle.loads(pickle.dumps(docs)),
        "bytes": [Doc(nlp.vocab).from_bytes(doc.to_bytes()) for doc in docs],
        "bin": list(DocBin().from_bytes(binary).get_docs(nlp.vocab)),
    }
    for kind, found in copies.items():
        assert [plain(doc) for doc in found] == [plain(doc) for doc in docs], kind
    assert copies["bin"][0][0:2]._.salience == docs[0][0:2]._.salience
    # The scores are those of the whole text.
    part = next(iter(docs[0].sents)).as_doc(copy_user_data=True)
    assert part._.salience is None and part[0:2]._.salience is None


def test_documents_are_read_without_the_component(nlp, tmp_path):
    DocBin(store_user_data=True, docs=nlp.pipe(TEXTS)).to_disk(tmp_path / "stories.spacy")
    code = f"""
import spacy
from spacy.tokens import DocBin
from narrative_twins.integrations.spacy_component import register_extensions

register_extensions()
for doc in DocBin().from_disk({str(tmp_path / "stories.spacy")!r}).get_docs(spacy.blank("en").vocab):
    print(doc._.salience.top(1)[0].sentence)
"""
    found = run_python("-c", code, cwd=tmp_path, env=os.environ)
    assert found.splitlines() == [doc._.salience.top(1)[0].sentence for doc in nlp.pipe(TEXTS)]


@pytest.mark.parametrize("how", ["disk", "bytes", "pickle"])
def test_pipelines_are_saved_with_their_settings_but_no_weights(nlp, tmp_path, how):
    expected = [plain(doc) for doc in nlp.pipe(TEXTS)]
    if how == "disk":
        nlp.to_disk(tmp_path / "pipeline")
        again = spacy.load(tmp_path / "pipeline")
        assert (
            sum(
                file.stat().st_size
                for file in (tmp_path / "pipeline" / "narrative_salience").iterdir()
            )
            < 1000
        )
    elif how == "bytes":
        again = spacy.blank("en")
        again.add_pipe("sentencizer")
        again.add_pipe("narrative_salience")
        again.from_bytes(nlp.to_bytes())
    else:
        again = pickle.loads(pickle.dumps(nlp))
    assert (
        again.get_pipe("narrative_salience").settings == nlp.get_pipe("narrative_salience").settings
    )
    assert [plain(doc) for doc in again.pipe(TEXTS)] == expected


def test_two_encoders_in_one_pipeline(nlp, settings):
    other = {"model": None, "attribute": "other", "operations": ["summarization"]}
    nlp.add_pipe("narrative_salience", name="second", config=settings | other)
    doc = nlp(TEXTS[0])
    assert list(doc._.other.scores) == ["summarization"] and len(doc._.salience.scores) == 4
    assert doc._.other.scores["summarization"] != doc._.salience.scores["summarization"]


def test_attributes_of_other_libraries_are_not_replaced():
    Doc.set_extension("salience", default=1.0)
    with pytest.raises(ValueError, match=r"doc._.salience is an extension attribute already"):
        register_extensions()
    register_extensions("other")
    register_extensions("other")


def test_pipelines_without_the_component_import_nothing_large():
    code = (
        "import spacy, sys; spacy.blank('en'); assert"
        " 'narrative_twins.integrations.spacy_component' in sys.modules"
    )
    code += "; assert 'transformers' not in sys.modules"
    run_python("-c", code)
