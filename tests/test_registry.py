"""The registry of operations and baselines."""

from __future__ import annotations

import pytest

from narrative_twins.salience.operations import Registry


class Animal:
    name = "animal"


class Cat(Animal):
    name = "cat"


class Dog(Animal):
    name = "dog"


@pytest.fixture
def animals() -> Registry[Animal]:
    registry = Registry(Animal, "a wild animal")
    for animal in (Dog, Cat):
        registry.add(animal)
    return registry


def test_items_are_found_by_name(animals):
    for given, expected in ((None, "dog cat"), ("cat", "cat"), (["cat", "dog", "cat"], "cat dog")):
        assert " ".join(animal.name for animal in animals.resolve(given)) == expected
    own = Cat()
    assert animals.resolve(own) == [own] == animals.resolve(iter([own]))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("dogs", "^unknown wild animal 'dogs'; choose from dog, cat; did you mean 'dog'?"),
        (["cat", "x"], "^unknown wild animal 'x'; choose from dog, cat$"),
        ([], "no wild animal given; choose from dog, cat"),
        (["cat", Cat()], "two different instances have the name 'cat'"),
        (Cat, "^a wild animal is a name or `Animal`, not "),
        (5, "^a wild animal is a name or `Animal`, not 5"),
    ],
)
def test_what_is_unknown_is_reported(animals, given, problem):
    with pytest.raises((TypeError, ValueError), match=problem):
        animals.resolve(given)


def test_a_class_replaces_only_itself(animals):
    before = animals["cat"]
    animals.add(Cat)
    assert animals["cat"] is not before and list(animals) == ["dog", "cat"]
    with pytest.raises(ValueError, match=r"animal 'cat' exists already \(Cat\)"):
        animals.add(type("Lion", (Cat,), {}))
