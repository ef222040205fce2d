"""Given names and titles: the gender that they indicate, and names drawn by frequency."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.making.names import GivenNames, read_names, title_gender

pytest.importorskip("faker", reason="Faker is not installed: pip install narrative_twins[entities]")


def drawn(names: GivenNames, gender, times: int = 300) -> Counter[str]:
    random = Random(0)
    return Counter(names.draw(random, gender) for _ in range(times))


def test_names_of_faker():
    names = read_names()
    genders = {name: names.gender_of(name) for name in ("Mary", "JAMES", "grace", "Karenina")}
    assert genders == {"Mary": "f", "JAMES": "m", "grace": "f", "Karenina": None}
    women, men = drawn(names, "f", 2000), drawn(names, "m", 2000)
    assert len(women) > 100 and len(men) > 100 and women["Mary"] > women["Adriana"]
    # Common words indicate a gender, but are not drawn.
    assert not {"Grace", "Hope", "Will", "Mark"} & {*women, *men}
    german = read_names("de_DE")
    assert german.gender_of("Jürgen") == "m" and set(drawn(german, "f")) - set(women)
    for locale in ("xx_XX", "../en_US", ""):
        with pytest.raises(ValueError, match="is not a locale of Faker"):
            read_names(locale)


WEIGHTS = st.dictionaries(
    st.sampled_from(["Ada", "Bea", "Kim", "Mary Ann", "Dov"]), st.integers(0, 9), max_size=5
)


@given(WEIGHTS, WEIGHTS, st.sets(st.sampled_from(["ada", "bea", "mary", "dov"])), st.integers())
def test_taken_names_are_not_drawn(women, men, taken, seed):
    names = GivenNames(women, men)
    for gender, weights in (("f", [women]), ("m", [men]), (None, [women, men])):
        free = {
            name
            for each in weights
            for name, weight in each.items()
            if weight and not set(name.lower().split()) & taken
        }
        if free:
            assert names.draw(Random(seed), gender, taken) in free
        else:
            with pytest.raises(ValueError, match="no name left"):
                names.draw(Random(seed), gender, taken)
    for name in {*women, *men}:
        a, b = women.get(name, -1), men.get(name, -1)
        assert name.upper() in names
        assert names.gender_of(name) == (None if a == b else "f" if a > b else "m")


def test_names_are_drawn_by_weight():
    names = GivenNames({"Ada": 90, "Bea": 10}, {"Cid": 0})
    assert 0.8 < drawn(names, "f")["Ada"] / 300 < 0.98
    assert set(drawn(names, None)) == {"Ada", "Bea"}


@pytest.mark.parametrize(
    ("text", "gender"),
    [
        ("Then Countess |Forster", "f"),
        ("Mrs. |Forster", "f"),
        ("his uncle |Tom", "m"),
        ("Colonel |Forster", None),
        ("Mrs. Dr. |Forster", "f"),
        ("Mr. and Mrs. |Forster", "f"),
        ("She saw |Forster", None),
    ],
)
def test_nearest_title_with_a_gender_counts(text, gender):
    assert title_gender(text.replace("|", ""), text.index("|")) == gender
