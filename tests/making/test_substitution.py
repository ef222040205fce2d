"""Entity substitution: one new name per entity in each twin or in the whole row, and no other
changes."""

from __future__ import annotations

import copy
import json
import re
from functools import partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.data import RowError, load_story_twins, load_window_twins
from narrative_twins.making.names import GivenNames, occurrences, read_names
from narrative_twins.making.substitution import EntitySubstitution

from support.recognizers import ENTITIES, recognizer
from support.strategies import any_text

Span = pytest.importorskip(
    "spacy.tokens", reason="spaCy is not installed: pip install narrative_twins[entities]"
).Span

ADA_AND_CID = GivenNames({"Ada": 1, "Anna": 0}, {"Cid": 1, "Tom": 0, "Bill": 0})
"""One name to draw for women, one for men."""

same_names = partial(EntitySubstitution, same_names=True)


def sentences(*texts: str, pipeline=None, names=None, **columns) -> list[str]:
    """The sentences of a story with replaced names."""
    substitution = same_names(pipeline or recognizer(), names or ADA_AND_CID)
    return substitution({"story": list(texts), **columns}, "a").row["story"]


# Rows are made of pieces: names of these entities, and any other text.
WHO = {
    "anna": ["Anna Karenina", "Anna", "Karenina"],
    "vronsky": ["Vronsky"],
    "moscow": ["Moscow"],
    "york": ["New York"],
    "acme": ["Acme"],
}
HOSTILE = [
    "{}",
    "{0}",
    "%s",
    "\\1",
    "<b>",
    "&amp;",
    "\0",
    "\x1b[31m",
    "🙂",
    "👩‍👩‍👧",
    "שלום",
    "\u202e",
    "العربية",
    "é",
    "e\u0301",
    "June",
]
piece = st.one_of(
    st.sampled_from([(who, name) for who, names in WHO.items() for name in names]),
    st.sampled_from(HOSTILE).map(lambda text: (None, text)),
    any_text.map(lambda text: (None, text)),
)
sentence = st.lists(piece, max_size=6).map(lambda pieces: [(None, "x"), *pieces])
story = st.lists(sentence, min_size=1, max_size=4)
windows = st.lists(story, min_size=1, max_size=3)
column = st.one_of(story, windows)
row = st.fixed_dictionaries(
    {"story": column}, optional={"twin": column, "negative": column, "negative_twin": story}
)


def is_sentence(content) -> bool:
    return isinstance(content[0], tuple)


def written(content):
    """Pieces as text, in the same lists."""
    return (
        " ; ".join(text for _, text in content)
        if is_sentence(content)
        else [written(part) for part in content]
    )


def pattern(content, seen: set[str]) -> str:
    """A regular expression for JSON: any new name at the first mention of an entity, and the same
    one after that."""
    if not is_sentence(content):
        return r"\[" + ", ".join(pattern(part, seen) for part in content) + r"\]"
    parts = []
    for who, text in content:
        if who is None:
            parts.append(re.escape(json.dumps(text, ensure_ascii=False)[1:-1]))
        elif who in seen:
            parts.append(f"(?P={who})")
        else:
            seen.add(who)
            parts.append(f"(?P<{who}>[A-Z][A-Za-z ]*)")
    return '"' + " ; ".join(parts) + '"'


def with_full_name(drawn: dict) -> dict:
    """The row with a last sentence that shows that Anna and Karenina are the same person."""
    return drawn | {"negative_twin": [*drawn.get("negative_twin", []), [("anna", "Anna Karenina")]]}


def words_of(*contents) -> set[str]:
    return set(re.findall(r"\w+", json.dumps(contents, ensure_ascii=False)))


@given(row.map(with_full_name))
def test_only_names_in_twins_are_replaced(drawn):
    """Each twin has names of its own, which are nowhere else in the row."""
    before = {name: written(content) for name, content in drawn.items()}
    given_row = copy.deepcopy(before)
    after = EntitySubstitution(recognizer())(before, "a").row
    assert before == given_row, "the input is not changed"
    kept = {name: after[name] for name in ("story", "negative") if name in drawn}
    assert kept == {name: before[name] for name in kept}
    used: list[str] = []
    for side in ("twin", "negative_twin"):
        if side not in drawn:
            continue
        seen: set[str] = set()
        found = re.fullmatch(
            pattern(drawn[side], seen), json.dumps(after[side], ensure_ascii=False), re.S
        )
        assert found, (before, after)
        used += [found[who] for who in seen]
    assert len(set(used)) == len(used), "no name is used twice in the row"
    people = {name for name in used if not name.startswith(("Location ", "Organization "))}
    assert not people & words_of(before)
    labels = {name for name in used if name not in people}
    for kind in ("Location", "Organization"):
        of_kind = sorted(label for label in labels if label.startswith(kind))
        assert of_kind == [f"{kind} {letter}" for letter in "ABCD"[: len(of_kind)]]


def test_other_seeds_and_ids_draw_other_names():
    row = {"story": ["Anna met Vronsky."], "twin": ["Anna and Vronsky met."]}
    by_seed = {
        tuple(EntitySubstitution(recognizer(), seed=seed)(row, "a").row["twin"])
        for seed in range(9)
    }
    by_id = {tuple(EntitySubstitution(recognizer())(row, str(id)).row["twin"]) for id in range(9)}
    assert len(by_seed) > 5 and len(by_id) > 5
    # The same on every machine.
    names = GivenNames(dict.fromkeys(("Ada", "Bea", "Cleo", "Dora", "Eva"), 1), {})
    assert EntitySubstitution(recognizer(), names)(row, "a").row["twin"] == ["Eva and Bea met."]


def test_names_in_the_row_are_not_drawn():
    names = GivenNames(dict.fromkeys(("Ada", "Bea", "Cleo"), 1), {})
    row = {"story": ["Anna met ADA."], "negative": [["x"], ["Bea's dog"]]}
    for id in range(20):
        assert same_names(recognizer(), names)(row, str(id)).row["story"] == ["Cleo met ADA."]
        twin = {"story": ["ADA ran."], "twin": ["Anna ran."], "negative": [["x"], ["Bea's dog"]]}
        assert EntitySubstitution(recognizer(), names)(twin, str(id)).row["twin"] == ["Cleo ran."]


LISTED = {
    "PERSON": ["Anna Karenina", "Will", "Alexander the Great", "Vronsky"],
    "GPE": ["New York"],
    "DATE": ["the Karenina", "June"],
}


@pytest.mark.parametrize(
    ("pipeline", "before", "after"),
    [
        # First names, surnames and full names of one person.
        (
            recognizer(),
            ["Anna Karenina ran.", "Anna's dog saw Karenina.", "Anna Karenina’s dog!"],
            ["Ada ran.", "Ada's dog saw Ada.", "Ada’s dog!"],
        ),
        # Names that are missed in some places.
        (
            recognizer(LISTED),
            ["Anna Karenina hid.", "Karenina's Anna, Annabel.", "Karenina-like"],
            ["Ada hid.", "Ada's Ada, Annabel.", "Ada-like"],
        ),
        # Entities of other kinds.
        (
            recognizer(LISTED),
            ["Anna Karenina read the Karenina in June."],
            ["Ada read the Karenina in June."],
        ),
        # Entities across a sentence boundary.
        (recognizer(), ["I saw Anna", "Karenina ran."], ["I saw Ada", "Cid ran."]),
        (recognizer(), ["I saw New", "York burn."], ["I saw Location A", "Location B burn."]),
        # Labels that are in the row.
        (
            recognizer(),
            ["From location a and Location B, by Organization Able, to Moscow for Acme."],
            [
                "From location a and Location B, by Organization Able, to Location C for"
                " Organization A."
            ],
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_examples(pipeline, before, after):
    assert sentences(*before, pipeline=pipeline) == after


def test_names_are_whole_words():
    text = "Ann, Anna, Ann_, Ann\u0301 Ann\u200dx नाम नामी (Ann)"
    found = [text[start:end] for start, end in occurrences(text, ["Anna", "Ann", "नाम"])]
    assert found == ["Ann", "Anna", "नाम", "Ann"]


class Changed:
    """A pipeline whose entities in the text of a number are changed by a function."""

    def __init__(self, change, entities=ENTITIES):
        self.change, self.pipeline = change, recognizer(entities)

    def pipe(self, texts):
        for number, document in enumerate(self.pipeline.pipe(texts)):
            document.ents = self.change(number, list(document.ents))
            yield document


def test_names_that_are_recognized_in_part_or_in_another_text_only():
    pipeline = Changed(lambda number, found: [*found[:-1], found[-1][1:]])
    found = sentences("Anna Karenina ran.", "Anna Karenina sat.", pipeline=pipeline)
    assert found == ["Ada ran.", "Ada sat."]
    pipeline = Changed(lambda number, found: found if number == 0 else [])
    row = {"story": ["Then Anna ran."], "twin": ["And off went Anna."]}
    twin = EntitySubstitution(pipeline, ADA_AND_CID)(row, "a").row["twin"]
    assert twin == ["And off went Ada."]


def test_name_gets_its_most_frequent_kind():
    def confused(number, found):
        first, *others = found
        return [Span(first.doc, first.start, first.end, "PERSON"), *others]

    found = sentences("Paris, Paris and Paris.", pipeline=Changed(confused, {"GPE": ["Paris"]}))
    assert found == ["Location A, Location A and Location A."]


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("Anna", {"Ada"}),
        ("Mrs. Vronsky", {"Ada"}),
        ("Sir Vronsky", {"Cid"}),
        # Titles are stronger evidence than the list.
        ("Sir Anna", {"Cid"}),
        ("Vronsky", {"Ada", "Cid"}),
    ],
)
def test_gender(name, drawn):
    row = {"story": [f"{name} ran.", "She hid."]}
    found = [same_names(recognizer(), ADA_AND_CID, seed)(row, "a").row for seed in range(12)]
    assert {one["story"][0].removesuffix(" ran.").split()[-1] for one in found} == drawn
    assert all(one["story"][1] == "She hid." for one in found), "pronouns are kept"


def test_titles_quotes_and_articles_stay():
    entities = {
        "PERSON": ["Mr. Brown", '"Anna', "Queen", "She"],
        "ORG": ["the United Nations", "The Acme's", "US"],
    }
    found = sentences(
        'Mr. Brown told the United Nations: "Anna"!',
        "The Acme's US Queen.",
        "She",
        pipeline=recognizer(entities),
        names=read_names(),
    )
    assert (
        re.fullmatch(r'Mr\. [A-Z]\w+ told the Organization A: "[A-Z]\w+"!', found[0])
        and "Anna" not in found[0]
    )
    assert (
        re.fullmatch(r"The Organization B's Organization C [A-Z]\w+\.", found[1])
        and "Queen" not in found[1]
    )
    assert found[2] == "She"


@pytest.mark.parametrize("label", ["MISC", "NORP", "WORK_OF_ART"])
def test_miscellaneous_entities(label):
    pipeline = recognizer({label: ["Danish", "the Iliad"], "GPE": ["Troy"], "CARDINAL": ["two"]})
    row = {
        "story": ["The Danish read the Iliad in Troy."],
        "twin": ["In Troy two of the Danish read the Iliad."],
    }
    own, same = (substitute(pipeline)(row, "a") for substitute in (EntitySubstitution, same_names))
    assert own.row == row | {"twin": ["In Location A two of the Entity A read the Entity B."]}
    assert same.row["story"] == ["The Entity A read the Entity B in Location A."]
    assert own.counts == same.counts == {"miscellaneous": 2, "place": 1}


def test_many_places_have_labels_of_two_letters():
    many = recognizer({"GPE": [f"Town{number}" for number in range(30)]})
    (found,) = sentences(" ".join(f"Town{number}" for number in range(30)), pipeline=many)
    assert found.startswith("Location A Location B")
    assert found.endswith("Location Z Location AA Location AB Location AC Location AD")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({}, "no column 'story'"),
        ({"story": ["A"], "negative_narrative": {"section_1": "x"}}, "negative_narrative"),
        ({"story": ["\ud800"]}, "lone surrogate"),
        ({"story": ["Anna"], "twin": ["Anna"]}, "there is no name left for women"),
        ({"story": ["Anna " * 240_000]}, "of length 1200000 exceeds maximum"),
    ],
    ids=["column", "section", "surrogate", "names", "long"],
)
def test_rows_that_can_not_be_processed_are_named(row, problem):
    names = GivenNames({"Anna": 0}, {"Cid": 1})
    with pytest.raises(RowError, match=f"row 7: .*{problem}"):
        EntitySubstitution(recognizer(), names)(row, "a", "row 7")


def test_published_formats_load_as_before(tmp_path):
    short = {
        "id": "a",
        "story": ["Anna ran.", "She hid in Moscow."],
        "narrative_twin": ["Vronsky fled."],
        "negative": ["Anna sat."],
        "negative_narrative_twin": ["Vronsky sat."],
    }
    long = {
        "id": "b",
        "title": "Anna Karenina",
        "english_narrative": ["Anna ran.", "Vronsky hid."],
        "translated_narrative_twin": ["Anna fled.", "Vronsky hid away."],
        "alignment": [[0, 0], [1, 1]],
        "negative_narrative": {"section_1": ["Anna sat."], "section_2": ["In Moscow.", "Acme."]},
    }
    for row, load in (
        (short, load_story_twins),
        (long, partial(load_window_twins, windows=2, min_window=1)),
    ):
        loaded = []
        for content in (row, same_names(recognizer())(row, "a").row):
            path = tmp_path / f"{len(loaded)}.jsonl"
            path.write_text(json.dumps(content))
            loaded.append(load(str(path), split="train", cache_dir=str(tmp_path))[0])
        before, after = loaded
        assert before != after and set(before) == set(after)
        shapes = [re.sub(r'"[^"]*"', "text", json.dumps(row)) for row in (before, after)]
        assert shapes[0] == shapes[1]
        assert after.get("title") == before.get("title")
        assert not any(
            name in json.dumps({**after, "title": ""})
            for names in (ENTITIES["PERSON"], ENTITIES["GPE"])
            for name in names
        )


NUMBERS = count()
"""Of components, as a name can be given only once."""


@pytest.fixture
def with_clusters():
    """A pipeline whose only clusters are all matches of each of the patterns, in the form of the
    component `fastcoref`."""
    spacy = pytest.importorskip("spacy")
    had = spacy.tokens.Doc.has_extension("coref_clusters")

    def pipeline(*patterns, tags=()):
        def find(document):
            document._.coref_clusters = [
                [match.span() for match in re.finditer(pattern, document.text)]
                for pattern in patterns
            ]
            for token in document:
                token.tag_ = dict(tags).get(token.text, "")
            return document

        name = f"clusters {next(NUMBERS)}"
        spacy.Language.component(name, func=find)
        spacy.tokens.Doc.set_extension("coref_clusters", default=None, force=True)
        made = spacy.blank("en")
        patterns_ = [{"label": "PERSON", "pattern": name} for name in ("Anna", "Tom")]
        made.add_pipe("entity_ruler").add_patterns(patterns_)
        made.add_pipe(name)
        return made

    yield pipeline
    if not had:
        spacy.tokens.Doc.remove_extension("coref_clusters")


ANNA = r"\b(Mrs\. Anna|Anna|[Ss]he|[Hh]ers?|her)\b"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # The eighth token after the beginning of the mention is near, the ninth is not.
        (
            ["Anna ran home in the rain and so she slept."],
            ["Ada ran home in the rain and so she slept."],
        ),
        (
            ["Anna ran home in the cold rain and so she slept."],
            ["Ada ran home in the cold rain and so Ada slept."],
        ),
        # A mention that is near makes the next one near, too.
        (
            ["Anna ran home in the rain and she slept, and the whole night she dreamt."],
            ["Ada ran home in the rain and she slept, and the whole night she dreamt."],
        ),
        # In another sentence; a possessive pronoun; before the name; after a title.
        (
            ["Anna ran home.", "It rained all night on the roof.", "Her bed was wet."],
            ["Ada ran home.", "It rained all night on the roof.", "Ada's bed was wet."],
        ),
        (["When she came, Anna ran."], ["When Ada came, Ada ran."]),
        (
            ["Mrs. Anna ran, and then it rained and rained. She slept."],
            ["Mrs. Ada ran, and then it rained and rained. Ada slept."],
        ),
    ],
)
def test_pronouns_far_from_a_mention_are_replaced(with_clusters, texts, expected):
    assert sentences(*texts, pipeline=with_clusters(ANNA)) == expected


def test_tags_tell_possessive_pronouns(with_clusters):
    far = "Anna ran home through the rain and the mud, and nobody saw"
    pipeline = partial(with_clusters, ANNA)
    assert sentences(f"{far} her.", pipeline=pipeline(tags={"her": "PRP"}.items())) == [
        f"{far.replace('Anna', 'Ada')} Ada."
    ]
    assert sentences(f"{far} her hat.", pipeline=pipeline(tags={"her": "PRP$"}.items())) == [
        f"{far.replace('Anna', 'Ada')} Ada's hat."
    ]


def test_pronouns_of_others_stay(with_clusters):
    """Of somebody whose mention only contains a name, and of somebody without a name; and those of
    the first person."""
    pipeline = with_clusters(r"Anna's uncle|[Hh]im\b|I\b", r"the dog|it\b")
    text = (
        "Anna's uncle saw the dog and ran away through rain and mud, and it followed him. I fell."
    )
    assert sentences(text, pipeline=pipeline) == [text.replace("Anna", "Ada")]


def test_pronouns_get_the_name_of_their_text(with_clusters):
    far = "Anna ran home through the rain and the mud, and there she slept."
    names = GivenNames({"Ada": 1, "Bea": 1, "Anna": 0}, {"Tom": 0})
    substitution = EntitySubstitution(with_clusters(ANNA), names)
    row = {"story": [far], "twin": [far], "negative_twin": [far]}
    found = substitution(row, "a").row
    assert found["story"] == [far]
    written = {name: [far.replace("Anna", name).replace("she", name)] for name in ("Ada", "Bea")}
    assert [found["twin"], found["negative_twin"]] in [
        [written["Ada"], written["Bea"]],
        [written["Bea"], written["Ada"]],
    ]
