"""Lists of given names: reading, drawing, errors."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.making.entities.names import GivenNames, read_names


@pytest.fixture
def listed(tmp_path):
    """Read a list from its text."""

    def read(text: str | bytes) -> GivenNames:
        path = tmp_path / "names.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_names(str(path))

    return read


def drawn(names: GivenNames, gender, times: int = 300, taken=()) -> Counter[str]:
    random = Random(0)
    return Counter(names.draw(random, gender, taken) for _ in range(times))


def test_list_of_the_package():
    names = read_names()
    assert {name: names.gender_of(name) for name in ("Mary", "JAMES", "grace", "Karenina")} == {
        "Mary": "f",
        "JAMES": "m",
        "grace": "f",
        "Karenina": None,
    }
    women, men = drawn(names, "f", 3000), drawn(names, "m", 3000)
    assert len(women) > 100 and len(men) > 100
    assert women["Mary"] > women["Yuki"] and men["James"] > men["Wei"]
    assert {"m", "f"} <= {names.gender_of(name) for name in women}, "some names have both genders"
    # Common words indicate a gender, but are not drawn.
    assert not {"Grace", "Hope", "Will", "Mark"} & (set(women) | set(men))


@given(
    st.dictionaries(
        st.sampled_from(["Ada", "Bea", "Cid", "Mary Ann", "Dov"]), st.integers(1, 9), min_size=1
    ),
    st.sets(st.sampled_from(["ada", "bea", "mary", "dov"])),
    st.integers(),
)
def test_taken_names_are_not_drawn(counts, taken, seed):
    names = GivenNames({(name, "f"): count for name, count in counts.items()})
    free = {name for name in counts if not set(name.lower().split()) & taken}
    for gender in ("f", None):
        if free:
            assert names.draw(Random(seed), gender, taken) in free
        else:
            with pytest.raises(ValueError, match="no name left"):
                names.draw(Random(seed), gender, taken)


def test_names_are_drawn_by_count(listed):
    names = listed("name,gender,count\nAda,f,90\nBea,f,10\nCid,m,0\n")
    assert 0.8 < drawn(names, "f")["Ada"] / 300 < 0.98
    assert set(drawn(names, None)) == {"Ada", "Bea"}
    # Also if few are left.
    rest = listed("".join(f"N{i},f,1000\n" for i in range(50)) + "Ada,f,9\nBea,f,1\n")
    left = drawn(rest, "f", taken=[f"n{i}" for i in range(50)])
    assert set(left) == {"Ada", "Bea"} and left["Ada"] > left["Bea"]
    with pytest.raises(ValueError, match="no name left for men"):
        names.draw(Random(0), "m")


def test_formats_of_a_list(listed):
    names = listed(
        b"\xef\xbb\xbf# a note\r\nname,gender,count\r\n\r\nAda,F,1\r\n  Mary  Ann"
        b" ,female,2\r\nKim,m,1\r\nKim,f,1\r\n"
    )
    assert set(drawn(names, "f")) == {"Ada", "Mary Ann", "Kim"}
    assert names.gender_of("kim") is None
    assert listed("Kim,m,1\nKim,f,1\nKim,f,1\n").gender_of("Kim") == "f"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Ada,f", r"names.csv, line 1: 'Ada,f' is not name,gender,count"),
        ("Ada,f,1\n,f,1", "line 2: ',f,1' is not"),
        ("Ada,x,1", "line 1: the gender 'x' is neither f nor m"),
        ("Ada,f,-1", "line 1: the count '-1' is not an integer"),
        ("Ada,f,1.5", "count '1.5'"),
        ("Ada,f,²", "count '²'"),
        ("name,gender,count\n", "has no name to draw"),
        ("Ada,f,0", "has no name to draw"),
        (b"\xff\xfe", "can't be read as CSV in UTF-8"),
        (f"{'x' * 101},f,1", "line 1: a name of 101 characters; at most 100"),
    ],
)
def test_invalid_lists(listed, text, problem):
    with pytest.raises(ValueError, match=problem):
        listed(text)
