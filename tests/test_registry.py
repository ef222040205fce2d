"""The registry of operations and baselines."""

from __future__ import annotations

import pytest

from narrative_twins.registry import Registry


class Animal:
    name = "animal"


class Cat(Animal):
    name = "cat"


class Dog(Animal):
    name = "dog"


@pytest.fixture
def animals() -> Registry[Animal]:
    registry = Registry(Animal, "an animal")
    for animal in (Dog, Cat):
        registry.add(animal)
    return registry


def names(chosen):
    return [animal.name for animal in chosen]


def test_resolve(animals):
    assert names(animals.resolve()) == ["dog", "cat"]
    assert names(animals.resolve("cat")) == ["cat"]
    assert names(animals.resolve(["cat", "dog", "cat"])) == ["cat", "dog"]
    own = Cat()
    assert animals.resolve(own) == [own] == animals.resolve(iter([own]))


def test_what_is_not_known_is_told(animals):
    with pytest.raises(
        ValueError, match="^unknown animal 'dogs'; choose from dog, cat; did you mean 'dog'?"
    ):
        animals.resolve("dogs")
    with pytest.raises(ValueError, match="^unknown animal 'x'; choose from dog, cat$"):
        animals.resolve(["cat", "x"])
    with pytest.raises(ValueError, match="no animal given; choose from dog, cat"):
        animals.resolve([])
    for wrong in (Cat, 5, object()):
        with pytest.raises(TypeError, match="^an animal is a name or an instance of Animal, not "):
            animals.resolve(wrong)


def test_no_instance_is_dropped_for_another_of_its_name(animals):
    with pytest.raises(ValueError, match="two different instances have the name 'cat'"):
        animals.resolve(["cat", Cat()])


def test_a_class_replaces_only_itself(animals):
    before = animals["cat"]
    animals.add(Cat)
    assert animals["cat"] is not before and list(animals) == ["dog", "cat"]
    with pytest.raises(ValueError, match=r"animal 'cat' exists already \(Cat\); use another name"):
        animals.add(type("Lion", (Cat,), {}))
