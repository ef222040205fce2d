"""Entity substitution: one mapping of names in each twin, and no other changes."""

import copy
import json
import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.making.entities import PeopleNames, substitute, trimmed

from support.recognizers import recognizer
from support.strategies import any_text

pytest.importorskip("spacy", reason="pip install narrative_twins[entities]")
people = cache(PeopleNames)


def replaced(row, id="a", pipeline=None):
    return substitute(row, f"0 {id}", pipeline or recognizer(), people())


def sentences(*texts, pipeline=None) -> list[str]:
    """The sentences of a twin with replaced names."""
    return replaced({"story": ["x"], "twin": list(texts)}, pipeline=pipeline)["twin"]


# Rows are made of names of these entities, in groups that share no word, and of any other text.
NAMES = {"anna": "Anna", "karenina": "Karenina", "bill": "Bill", "moscow": "Moscow", "acme": "Acme"}
HOSTILE = ["{0}", "%s", "\\1", "<b>", "\0", "\x1b[31m", "🙂", "שלום", "\u202e", "e\u0301", "June"]
piece = st.one_of(
    st.sampled_from([(who, name) for who, name in NAMES.items()]),
    st.just(("anna karenina", "Anna Karenina")),
    (st.sampled_from(HOSTILE) | any_text).map(lambda text: (None, text)),
)
sentence = st.lists(piece, max_size=6).map(lambda pieces: [(None, "x"), *pieces])
story = st.lists(sentence, min_size=1, max_size=4)
windows = st.lists(story, min_size=1, max_size=3)
column = st.one_of(story, windows)
rows = st.fixed_dictionaries(
    {"story": column}, optional={"twin": column, "negative": column, "negative_twin": story}
)


def written(content):
    """Pieces as text, in the same lists."""
    if isinstance(content[0], tuple):
        return " ; ".join(text for _, text in content)
    return [written(part) for part in content]


def pattern(content, seen: set[str]) -> str:
    """A regular expression for JSON: any new name for an entity, and then the same one."""
    if not isinstance(content[0], tuple):
        return r"\[" + ", ".join(pattern(part, seen) for part in content) + r"\]"
    parts = []
    for whose, text in content:
        groups = []
        for who in (whose or "").split():
            new = f"(?P<{who}>[A-Z][A-Za-z]*(?: [A-Z]+)?)"
            groups.append(f"(?P={who})" if who in seen else new)
            seen.add(who)
        parts.append(" ".join(groups) or re.escape(json.dumps(text, ensure_ascii=False)[1:-1]))
    return '"' + " ; ".join(parts) + '"'


@given(rows)
def test_names_are_replaced_consistently_and_all_else_is_kept(drawn):
    """Each twin has names of its own that are nowhere else in the row. A last sentence shows that
    Anna and Karenina are names of people."""
    drawn["negative_twin"] = [*drawn.get("negative_twin", []), [("anna karenina", "Anna Karenina")]]
    before = {name: written(content) for name, content in drawn.items()}
    unchanged = copy.deepcopy(before)
    after = replaced(before)
    assert before == unchanged, "the input is not changed"
    kept = {"story", "negative"} & drawn.keys()
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    names: list[str] = []
    for column in {"twin", "negative_twin"} & drawn.keys():
        seen = set[str]()
        expected = pattern(drawn[column], seen)
        match = re.fullmatch(expected, json.dumps(after[column], ensure_ascii=False))
        assert match, (before, after)
        names += [match[who] for who in seen]
    assert len(set(names)) == len(names), "no name is used twice in the row"
    persons = {name for name in names if not name.startswith(("Location ", "Organization "))}
    assert not persons & set(re.findall(r"\w+", json.dumps(before, ensure_ascii=False)))


def test_other_seeds_and_ids_draw_other_names():
    row = {"story": ["Anna met Vronsky."], "twin": ["Anna and Vronsky met."]}
    by_id = [replaced(row, id)["twin"][0] for id in range(9)]
    assert len(set(by_id)) > 5 and by_id == [replaced(row, id)["twin"][0] for id in range(9)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # First names, surnames and full names of a person, in upper case, and possessives.
        (
            ["Anna Karenina ran.", "Anna's dog saw ANNA KARENINA.", "Karenina’s KARENINA!"],
            r"(\w+) (\w+) ran\.|\1's dog saw \U1 \U2\.|\2’s \U2!",
        ),
        # Only whole words.
        (["Anna Annabel Anna_ Anna\u0301 Anna-like"], "(\\w+) Annabel Anna_ Anna\u0301 \\1-like"),
        # Families share a surname.
        (["Tom Brown met Mary Brown and Mr. Brown."], r"(\w+) (\w+) met (\w+) \2 and Mr\. \2\."),
        # Labels that are in the row are left out.
        (["In location a, Moscow and New York."], "In location a, Location B and Location C."),
        (['By "the United Nations", Acme\'s.'], r'By "the Organization A", Organization B\'s\.'),
        # An entity across a boundary of sentences.
        (["I saw Anna", "Karenina ran."], r"I saw (\w+)|(\w+) ran\."),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_examples(before, after):
    found = sentences(*before)
    match = re.fullmatch(re.sub(r"\\U(\d)", r"[A-Z]+", after.replace("|", "\n")), "\n".join(found))
    assert match, found
    for number in re.findall(r"\\U(\d)", after):
        assert match[int(number)].upper() in found[1]


def test_words_that_are_also_in_lower_case_are_no_names():
    pipeline = recognizer({"PERSON": ["Hope Vronsky"]})
    assert sentences("Hope Vronsky ran.", "Hope is lost.", pipeline=pipeline)[1] != "Hope is lost."
    kept = sentences("Hope Vronsky ran.", "Hope is lost.", "I hope.", pipeline=pipeline)
    assert kept[1] == "Hope is lost." and "Hope" not in kept[0]


def test_kinds_of_entities():
    entities = {"NORP": ["Danish"], "WORK_OF_ART": ["the Iliad"], "GPE": ["Troy"]}
    pipeline = recognizer(entities | {"CARDINAL": ["two"]})
    row = {"story": ["The Danish read the Iliad."], "twin": ["In Troy two Danish read the Iliad."]}
    twin = ["In Location A two Entity A read the Entity B."]
    assert replaced(row, pipeline=pipeline) == row | {"twin": twin}
    many = [f"Town{number}x" for number in range(28)]
    labels = sentences(" ".join(many), pipeline=recognizer({"GPE": many}))[0]
    assert labels.startswith("Location A ") and labels.endswith(" Location Z Location 1 Location 2")


@pytest.mark.parametrize(
    ("text", "name"),
    [('"Mr. Brown\'s"', "Brown"), ("His Lord Dr. Brown", "Brown"), ("King", "King"), ("...", "")],
)
def test_titles_quotes_and_articles_stay(text, name):
    assert trimmed(text, True) == name


def test_first_names_have_the_gender_of_the_name_before():
    names, pipeline = people(), recognizer({"PERSON": ["Mary", "James"]})
    assert [names.gender_of(name) for name in ("JAMES", "grace", "Vronsky")] == [
        "male",
        "female",
        "",
    ]
    for id in range(9):
        (new,) = replaced({"story": ["x"], "twin": ["Mary met James."]}, id, pipeline)["twin"]
        woman, man = re.findall("[A-Z][a-z]+", new)
        assert names.gender_of(woman) == "female" and names.gender_of(man) == "male"


def test_names_of_a_locale():
    assert people("de_DE").gender_of("Jürgen") == "male"
    with pytest.raises(ValueError, match="'xx_XX' is no locale of Faker"):
        PeopleNames("xx_XX")
