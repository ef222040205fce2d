"""The spaCy component: scores are those of `score_stories`, and documents keep them wherever they
go."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import Story, StoryEncoder, StorySalience, score_stories

from support.processes import run_python
from support.scoring import assert_same_result

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
    for attribute in ("salience", "salience_data", "other", "other_data"):
        for kind in (Doc, Span):
            if kind.has_extension(attribute):
                kind.remove_extension(attribute)


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


def plain(doc) -> dict:
    return doc._.salience.json()


def test_scores_are_those_of_the_engine_in_one_batch(nlp, bert_folder, monkeypatch):
    encoder = StoryEncoder.from_pretrained(bert_folder, dtype="float32", device="cpu")
    encode, batches = StoryEncoder.encode, []
    monkeypatch.setattr(
        StoryEncoder, "encode", lambda self, *rest: batches.append(self) or encode(self, *rest)
    )
    docs = list(nlp.pipe(TEXTS))
    assert len(batches) == 1
    assert len(list(nlp.pipe(TEXTS, batch_size=2))) == 3 and len(batches) == 3
    stories = [
        {"text": doc.text, "sentences": [s for sent in doc.sents if (s := sent.text.strip())]}
        for doc in docs
    ]
    for doc, expected in zip(docs, score_stories(stories, encoder), strict=True):
        for found in (doc, nlp(doc.text)):
            assert_same_result(plain(found), expected.json())
        sentences = [sentence for sentence in doc.sents if sentence.text.strip()]
        for index, sentence in enumerate(sentences):
            assert sentence._.salience == {
                name: scores[index] for name, scores in doc._.salience.scores.items()
            }


def test_other_spans_have_the_scores_of_their_sentence(nlp):
    doc = nlp(TEXTS[0])
    first, second, *_ = doc.sents
    assert doc[0:2]._.salience == first._.salience
    assert doc[second.start + 1 : second.end]._.salience is not None
    assert doc[0 : second.end]._.salience is None
    blank = next(token.i for token in doc if token.is_space)
    assert doc[blank : blank + 1]._.salience is None
    # The scores are those of the whole text.
    part = first.as_doc(copy_user_data=True)
    assert part._.salience is None and part[0:2]._.salience is None
    for doc in nlp.pipe(["", " \n ", TEXTS[2]]):
        is_blank = not doc.text.strip()
        assert (doc._.salience is None) is is_blank
        assert all((sentence._.salience is None) is is_blank for sentence in doc.sents)


def test_settings(settings):
    more = {"operations": ["deletion"], "windows": 2, "approximate": "one-pass"}
    result = pipeline_of(settings | more, "sentencizer")(TEXTS[0])._.salience
    assert list(result.scores) == ["deletion"] and result.approximate == "one-pass"
    assert result.windows == ((0, 2), (2, 4))
    for config, message in (
        ({"operations": ["removal"]}, "unknown operation 'removal'"),
        ({"on_truncation": "no"}, "on_truncation='no'"),
    ):
        with pytest.raises(ValueError, match=message):
            pipeline_of(config)


def test_errors_of_documents(settings, tmp_path):
    missing = pipeline_of({"model": str(tmp_path / "nothing")}, "sentencizer")
    with pytest.raises(OSError, match="nothing.*can't be loaded"):
        missing(TEXTS[0])
    unsplit = pipeline_of(settings)
    with pytest.raises(ValueError, match=r'^the document has no .*nlp.add_pipe\("sentencizer"'):
        unsplit(TEXTS[0])
    with pytest.raises(ValueError, match="^the document has no sentence boundaries"):
        list(unsplit.pipe(TEXTS))


def test_error_handlers_get_the_document(settings):
    """As in other components: a document that fails is left out if the handler raises nothing."""
    pipeline, failed = pipeline_of(settings | {"windows": 3}, "sentencizer"), []
    pipeline.set_error_handler(
        lambda name, component, docs, error: failed.append((name, docs[0].text, str(error)))
    )
    assert [doc.text for doc in pipeline.pipe(TEXTS)] == TEXTS[:1]
    assert [text for _, text, _ in failed] == TEXTS[1:]
    name, _, message = failed[0]
    assert name == "narrative_salience"
    assert message.startswith("windows=3 does not partition the 2 sentence(s)")


def test_documents_keep_their_scores(nlp):
    docs = list(nlp.pipe(TEXTS))
    binary = DocBin(store_user_data=True, docs=docs).to_bytes()
    for copies in (
        pickle.loads(pickle.dumps(docs)),
        [Doc(nlp.vocab).from_bytes(doc.to_bytes()) for doc in docs],
        list(DocBin().from_bytes(binary).get_docs(nlp.vocab)),
    ):
        assert [plain(doc) for doc in copies] == [plain(doc) for doc in docs]
        assert copies[0][0:2]._.salience == docs[0][0:2]._.salience


def test_documents_put_together_keep_the_scores_of_their_sentences(nlp, recwarn):
    docs = list(nlp.pipe([TEXTS[0], TEXTS[1], " ", TEXTS[2] + " "]))
    both = Doc.from_docs([Doc.from_docs(docs[:2]), *docs[2:]])
    assert not [str(warning.message) for warning in recwarn if "W10" in str(warning.message)]
    sentences = [sent for doc in docs for sent in doc.sents if sent.text.strip()]
    found = [sent for sent in both.sents if sent.text.strip()]
    assert [sent.text for sent in found] == [sent.text for sent in sentences]
    assert [sent._.salience for sent in found] == [sent._.salience for sent in sentences]
    assert both[found[1].start : found[2].end]._.salience is None
    result = both._.salience
    assert result.sentences == tuple(sent.text.strip() for sent in sentences)
    assert result.spans == tuple((doc_span(both, sent)) for sent in found)
    assert result.windows == ((0, 4), (4, 6), (6, 7))
    for name, scores in result.scores.items():
        assert scores == [sent._.salience[name] for sent in sentences]
    copy = list(DocBin(store_user_data=True, docs=[both]).get_docs(nlp.vocab))[0]
    assert plain(copy) == plain(both)
    # Scored as one document, they are one story.
    assert plain(nlp(both)) == plain(nlp(both.text))


def doc_span(doc, sentence) -> tuple[int, int]:
    start = doc.text.index(sentence.text.strip())
    return start, start + len(sentence.text.strip())


def test_documents_with_parts_that_have_no_scores(nlp, settings):
    scored, unscored, other = nlp(TEXTS[0]), nlp.make_doc(TEXTS[2]), nlp.make_doc(TEXTS[1])
    deletion = pipeline_of(settings | {"operations": ["deletion"]}, "sentencizer")
    other._.salience_data = deletion(TEXTS[1])._.salience_data
    for docs in ([scored, unscored], [unscored, scored], [scored, other]):
        both = Doc.from_docs(docs)
        assert both._.salience is None and both._.salience_data is None
        start = both.text.index("A man")
        span = both.char_span(start, start + len("A man cried"))
        assert span._.salience == scored[5:8]._.salience is not None
    # A part of a document has no scores, wherever it is.
    *_, last = scored.sents
    both = Doc.from_docs([unscored, last.as_doc(copy_user_data=True), nlp(TEXTS[1])])
    assert both._.salience is None
    assert [sent._.salience is None for sent in both.sents][-2:] == [False, False]
    assert both[0 : len(unscored) + len(last)]._.salience is None
    for token in range(len(unscored) + len(last)):
        assert both[token : token + 1]._.salience is None


@given(st.lists(st.lists(st.sampled_from(["", " ", "\n", "A", "B c", ".", "."])), max_size=4))
def test_any_documents_can_be_put_together(pieces):
    """Each token has the scores that it had before."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    register_extensions()
    docs = [nlp("".join(parts)) for parts in pieces]
    for number, doc in enumerate(docs):
        sentences = [sent.text.strip() for sent in doc.sents if sent.text.strip()]
        if sentences:
            story = Story.parse({"text": doc.text, "sentences": sentences})
            scores = [number + i / 100 for i in range(len(story))]
            doc._.salience_data = StorySalience(story, {"deletion": scores}).json()
    both = Doc.from_docs(docs)
    before = [doc[i : i + 1]._.salience for doc in docs for i in range(len(doc))]
    if both is not None:
        assert [both[i : i + 1]._.salience for i in range(len(both))] == before
        expected = [value for doc in docs if doc._.salience for value in scores_of(doc)]
        assert (scores_of(both) if both._.salience else []) == expected


def scores_of(doc) -> list[float]:
    return doc._.salience.scores["deletion"]


def test_json(nlp):
    for doc in nlp.pipe([*TEXTS, ""]):
        saved = json.loads(json.dumps(doc.to_json(underscore=["salience_data"])))
        copy = Doc(nlp.vocab).from_json(saved)
        if doc._.salience is None:
            assert saved["_"]["salience_data"] is None and copy._.salience is None
            continue
        assert saved["_"]["salience_data"] == plain(doc)
        assert plain(copy) == plain(doc)
        assert StorySalience.from_dict(saved["_"]["salience_data"]).json() == plain(doc)
        assert [sent._.salience for sent in copy.sents] == [sent._.salience for sent in doc.sents]
    both = Doc.from_docs(list(nlp.pipe(TEXTS)))
    copy = Doc(nlp.vocab).from_json(both.to_json(underscore=["salience_data"]))
    assert plain(copy) == plain(both)


@pytest.mark.parametrize("how", ["disk", "pickle"])
def test_pipelines_are_saved_with_their_settings_but_no_weights(nlp, tmp_path, how):
    expected = [plain(doc) for doc in nlp.pipe(TEXTS)]
    if how == "disk":
        nlp.to_disk(tmp_path)
        again = spacy.load(tmp_path)
        assert not (tmp_path / "narrative_salience").exists()
    else:
        again = pickle.loads(pickle.dumps(nlp))
    ours, theirs = (part.get_pipe("narrative_salience") for part in (nlp, again))
    assert theirs.settings == ours.settings
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
    found = run_python("-c", code, cwd=tmp_path)
    assert found.splitlines() == [doc._.salience.top(1)[0].sentence for doc in nlp.pipe(TEXTS)]
