"""Entity resolution: distinct people, common words that look like names, and names that were
missed."""

from __future__ import annotations

import json
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.making.names import GivenNames, begins_sentence
from narrative_twins.making.substitution import EntitySubstitution

from support.recognizers import recognizer

pytest.importorskip("spacy", reason="spaCy is not installed: pip install narrative_twins[entities]")

WOMEN, MEN = ("Ada", "Bea"), ("Cid", "Dov", "Eli")
NAMES = GivenNames(
    dict.fromkeys(WOMEN, 1) | {"Mary": 0, "Hope": 0},
    dict.fromkeys(MEN, 1) | {"Tom": 0, "Sean": 0, "Will": 0},
)


class Found:
    """A pipeline that finds listed names.

    Args:
        people: names of people.
        times: the maximum number of entities found in a text, or None for all.
        others: names by other labels.
    """

    def __init__(self, *people: str, times: int | None = None, **others: list[str]) -> None:
        self.pipeline, self.times = recognizer({"PERSON": list(people), **others}), times

    def pipe(self, texts):
        for document in self.pipeline.pipe(texts):
            document.ents = document.ents[: self.times]
            yield document


def sentences(*texts: str, pipeline, **columns) -> list[str]:
    """The sentences of a story with replaced names."""
    return EntitySubstitution(pipeline, NAMES, same_names=True)(
        {"story": list(texts), **columns}, "a"
    ).row["story"]


def names_in(pattern: str, text: str) -> list[str]:
    """The words in place of `{}` in a text that is otherwise equal to the pattern."""
    found = re.fullmatch(re.escape(pattern).replace(r"\{\}", r"(\w+)"), text)
    assert found, text
    return list(found.groups())


@pytest.mark.parametrize(
    ("texts", "people", "women"),
    [
        (["Tom Brown came home.", "Mrs. Brown smiled."], ["Tom Brown", "Brown"], [False, True]),
        (["Mrs. Brown smiled.", "Tom Brown came home."], ["Tom Brown", "Brown"], [True, False]),
        (["Mr. Brown came home.", "Mrs. Brown smiled."], ["Brown"], [False, True]),
        (["Mr. Brown came home.", "Mary Brown smiled."], ["Mary Brown", "Brown"], [False, True]),
        # A title is stronger evidence than the list.
        (["Mrs. Will came.", "Mr. Will sat."], ["Will"], [True, False]),
        # The pipeline includes the title in the name.
        (
            ["Sir Vronsky came.", "Lady Vronsky sat."],
            ["Sir Vronsky", "Lady Vronsky"],
            [False, True],
        ),
    ],
)
def test_husband_and_wife(texts, people, women):
    found = sentences(*texts, pipeline=Found(*people))
    drawn = [re.search("|".join(WOMEN + MEN), text)[0] for text in found]
    assert [name in WOMEN for name in drawn] == women


def test_titles_distinguish_members_of_a_family():
    people = Found("Tom Brown", "Mary Brown")
    found = sentences("Tom Brown met Mary Brown.", "Mrs. Brown saw Mr. Brown.", pipeline=people)
    tom, mary = names_in("{} met {}.", found[0])
    assert found[1] == f"Mrs. {mary} saw Mr. {tom}."
    # A person who is not recognized at all is not confused with another.
    (found,) = sentences("So Mrs. Brown saw Mr. Brown.", pipeline=Found("Brown", times=1))
    assert re.fullmatch(r"So Mrs\. (Ada|Bea) saw Mr\. Brown\.", found)


@pytest.mark.parametrize(
    ("name", "begun"),
    [
        ("Little Red Riding Hood", "Little did she know."),
        ("Little Red Riding Hood", '"Little did she know," he said.'),
        ("Little Red Riding Hood", "LITTLE DID SHE KNOW."),
        ("His Majesty", "His hat fell."),
        ("Hers Truly", "HERS FELL."),
    ],
)
@pytest.mark.parametrize("times", [None, 1])
def test_common_words_at_the_beginning_of_a_sentence_are_kept(name, begun, times):
    found = sentences(
        f"We saw {name}.", begun, f"We left {name}.", pipeline=Found(name, times=times)
    )
    assert found[1] == begun
    assert found[0].split()[-1] == found[2].split()[-1] != name.split()[-1], (
        "the name itself is replaced"
    )


@pytest.mark.parametrize(
    ("others", "is_name"),
    [
        # It has a capital letter within a sentence.
        (["We saw Vronsky.", "Vronsky ran."], True),
        (["We saw Olga Vronsky.", "Vronsky ran."], True),
        # It is recognized in at least half of its places.
        (["Vronsky ran.", "Vronsky sat."], True),
        (["Vronsky ran.", "Vronsky sat.", "Vronsky hid."], False),
        (["Vronsky ran.", "Hearts of vronsky.", "Vronsky hid."], False),
        (["We saw Olga Vronsky.", "Olga ran."], False),
        (["We saw Olga Vronsky.", "Then Olga fell.", "Olga ran."], True),
        # It is in the list, though it may be a common word.
        (["We saw Hope Vronsky.", "Hope is lost."], True),
        (["We saw Hope Vronsky.", "I hope.", "Hope is lost."], False),
    ],
)
def test_words_that_are_known_as_names(others, is_name):
    found = sentences(*others, pipeline=Found("Olga Vronsky", "Hope Vronsky", "Vronsky", times=1))
    before, after = others[-1].split(), found[-1].split()
    assert after[1:] == before[1:] and (after[0] != before[0]) == is_name


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("|X", True),
        ('"|X', True),
        ("a |X", False),
        ("a, |X", False),
        ("He ran. |X", True),
        ("in plan a. |X", True),
        ("TOM'S. |X", True),
        ('a." |X', True),
        ("a: |X", True),
        ("a, “|X", True),
        ("Mr. |X", False),
        ("J. |X", False),
        ("It was I. |X", True),
        ("a (|X", True),
    ],
)
def test_beginnings_of_sentences(text, begins):
    assert begins_sentence(text.replace("|", ""), text.index("|")) == begins


@pytest.mark.parametrize("recognized", ["Browns", "x"])
def test_families(recognized):
    people = Found("Tom Brown", "Amy Jones", recognized)
    found = sentences(
        "Tom Brown met the Browns.",
        "The Browns' house.",
        "Amy Jones left the Joneses.",
        pipeline=people,
    )
    (tom, *them), (amy, *others) = (
        names_in("{} met the {}s.", found[0]),
        names_in("{} left the {}s.", found[2]),
    )
    assert them == [tom] and others == [amy] and found[1] == f"The {tom}s' house."
    assert sentences("Tom Brown met THE BROWNS.", pipeline=people) == [
        f"{tom} met THE {tom.upper()}S."
    ]
    assert sentences("Tom Brown met Browns.", pipeline=Found("Tom Brown")) == [f"{tom} met Browns."]
    other = sentences("The Greens left.", "Tom Brown ran.", pipeline=Found("Tom Brown", "Greens"))
    assert re.fullmatch(r"The \w+[^s] left\.", other[0]), "nobody has the name Green"


def test_names_in_upper_case():
    pipeline = Found("Mary Vronsky", "Bo", GPE=["Moscow"], ORG=["IBM"])
    found = sentences(
        "Mary Vronsky ran to Moscow.",
        "MARY! VRONSKY! MARY VRONSKY!",
        "MOSCOW, IBM, Bo, BO.",
        pipeline=pipeline,
    )
    (mary,) = names_in("{} ran to Location A.", found[0])
    assert found[1] == f"{mary.upper()}! {mary.upper()}! {mary.upper()} VRONSKY!".replace(
        " VRONSKY", ""
    )
    assert re.fullmatch(r"LOCATION A, Organization A, [A-Z][a-z]+, BO\.", found[2])
    both = sentences("Then MARY ran.", "Then Mary ran.", pipeline=Found("Mary", "MARY"))
    assert names_in("Then {} ran.", both[0])[0] == names_in("Then {} ran.", both[1])[0].upper()
    (alone,) = sentences("Then MARY ran.", pipeline=Found("MARY"))
    assert names_in("Then {} ran.", alone)[0].istitle()


@pytest.mark.parametrize(
    ("name", "short"),
    [("Sean O'Hara", "O'Hara"), ("Sean O’Hara", "O’Hara"), ("Jean-Luc Picard", "Jean-Luc")],
)
def test_names_with_punctuation(name, short):
    found = sentences(f"We met {name}.", f"Then {short} ran.", pipeline=Found(name))
    assert names_in("We met {}.", found[0]) == names_in("Then {} ran.", found[1])


# Pieces of rows: text before a name, the entities it may refer to, the name, text after it; or only
# text and no name.
NAMED = [
    ("", "tom", "Tom Brown", ""),
    ("", "tom", "Tom", "'s"),
    ("Mr. ", "tom", "Brown", ""),
    ("Mr. ", "tom", "BROWN", ""),
    ("", "mary", "Mary Brown", "’s"),
    ("", "mary", "Mary", ""),
    ("", "mary", "MARY BROWN", "'S"),
    ("Mrs. ", "mary", "Brown", "'s"),
    ("the ", "tom mary", "Brown", "s"),
    ("THE ", "tom mary", "BROWN", "S"),
    ("Dr. ", "tom mary", "Brown", ""),
    ("", "sean", "Sean O'Hara", "'s"),
    ("Colonel ", "sean", "O'Hara", ""),
    ("", "sean", "O'HARA", ""),
    ("Her ", "hood", "Little Red Riding Hood", ""),
    ("", "hood", "LITTLE RED RIDING HOOD", ""),
    ("", "moscow", "Moscow", "'s"),
    ("", "moscow", "MOSCOW", ""),
]
BEGUN = [
    (text, "", "", "")
    for text in ("Little did she know", "His hat", "Red light", "Her", "THE", "Riding it")
]
PLAIN = [
    (text, "", "", "")
    for text in ("she", "his hat", "him", "I", "they", "the", "a man's", "Mr.", "🙂", "{0}")
]
clause = st.tuples(
    st.sampled_from(NAMED + BEGUN), st.lists(st.sampled_from(NAMED + PLAIN), max_size=4)
).map(lambda parts: [parts[0], *parts[1]])
clauses_of_column = st.lists(st.lists(clause, min_size=1, max_size=3), min_size=1, max_size=4)
FULL = [
    [
        ("x", "", "", ""),
        *(p for p in NAMED if p[2] in ("Tom Brown", "Mary Brown", "Sean O'Hara", "Moscow")),
    ]
]
FULL[0].append(("", "hood", "Little Red Riding Hood", ""))


def text_of(clauses) -> str:
    return ". ".join(
        " ; ".join("".join((piece[0], piece[2], piece[3])) for piece in parts) for parts in clauses
    )


def pattern_of(clauses) -> str:
    """A regular expression with a group for each name."""
    pieces = (
        " ; ".join(
            re.escape(before) + (r"(\w+?(?: A)?)" if name else "") + re.escape(after)
            for before, _, name, after in parts
        )
        for parts in clauses
    )
    return r"\. ".join(pieces)


@given(
    st.tuples(clauses_of_column, clauses_of_column),
    st.integers(0, 999),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_names_are_replaced_consistently_and_all_else_is_kept(columns, seed, missed):
    random = Random(seed)
    listed = recognizer(
        {
            "PERSON": [
                "Tom Brown",
                "Mary Brown",
                "Brown",
                "Browns",
                "Sean O'Hara",
                "Tom",
                "Mary",
                "O'Hara",
            ]
        }
        | {"PERS": [], "PER": ["Little Red Riding Hood"], "GPE": ["Moscow"]}
    )

    class Forgetful:
        def pipe(self, texts):
            for number, document in enumerate(listed.pipe(texts)):
                # In the last column, which has all full names, everything is recognized.
                document.ents = [
                    entity for entity in document.ents if number == 2 or random.random() >= missed
                ]
                yield document

    story, twin = columns
    drawn = {"story": story, "twin": twin, "negative": [FULL]}
    row = {name: [text_of(clauses) for clauses in content] for name, content in drawn.items()}
    after = EntitySubstitution(Forgetful(), NAMES, seed, same_names=True)(row, "a").row
    new: dict[str, str] = {}
    shared = []
    for column, content in reversed(drawn.items()):
        for clauses, text in zip(content, after[column], strict=True):
            found = re.fullmatch(pattern_of(clauses), text)
            assert found, (row, after)
            named = [piece for parts in clauses for piece in parts if piece[2]]
            for (_, who, name, _), given_name in zip(named, found.groups(), strict=True):
                assert given_name.isupper() == name.isupper() or who == "moscow"
                usual = given_name.title() if name.isupper() else given_name
                if " " in who:
                    shared.append((who, usual))
                else:
                    assert new.setdefault(who, usual) == usual, (row, after)
    assert all(usual in [new[who] for who in whose.split()] for whose, usual in shared)
    assert len(set(new.values())) == 5 and new["moscow"] == "Location A"
    assert new["mary"] in WOMEN and {new["tom"], new["sean"]} <= set(MEN)
    assert not any(
        name in json.dumps(after)
        for name in ("Tom", "Mary", "Sean", "Brown", "BROWN", "Moscow", "Riding H")
    )
