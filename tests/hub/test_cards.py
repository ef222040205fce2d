"""Cards: what is known gets into them, as it is, and no gap stays open."""

from __future__ import annotations

import pytest
import yaml
from huggingface_hub import ModelCard, RepoCard
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.hub.cards import dataset_card, encoder_card, metric_card, template, with_id
from narrative_twins.hub.facts import DatasetFacts, EncoderFacts, Figure, read_facts

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)
HOSTILE = st.one_of(
    WORDS, st.sampled_from(["{{ 7 * 7 }}", "{% for %}", "---", "| a |", "<script>", "'\"\\", "name: x"])
)
"""Words, and what templates, YAML, tables and pages are made of."""


@given(name=HOSTILE, base=HOSTILE, data=HOSTILE, dataset=HOSTILE, value=st.floats(-1, 1))
def test_whatever_is_known_of_an_encoder_gets_into_its_card(name, base, data, dataset, value):
    figure = Figure("AUC of deletion", value, dataset, split="test")
    facts = EncoderFacts(name=name, base_model=base, training_data=data, figures=[figure], license="mit")
    text = str(encoder_card(facts, "somebody/encoder"))
    assert all(words in text for words in (name, base, data, f"| {value:.3f} |", 'model="somebody/encoder"'))
    _, metadata, _ = text.split("---\n", 2)
    read = yaml.safe_load(metadata)
    assert read["model-index"][0]["name"] == name and read["license"] == "mit"
    (result,) = read["model-index"][0]["results"]
    assert result["dataset"]["name"] == dataset and result["metrics"][0]["value"] == value


def test_an_encoder_of_which_nothing_is_known():
    card = encoder_card(EncoderFacts())
    assert "not said" in card.content and "Not measured." in card.content
    assert card.data.eval_results is None and "model-index" not in str(card)
    assert "None" not in str(card)


def test_the_id_comes_in_when_there_is_one():
    assert with_id(str(encoder_card(EncoderFacts())), "a/b") == str(encoder_card(EncoderFacts(), "a/b"))


@given(name=HOSTILE, what=HOSTILE, column=HOSTILE)
def test_the_card_of_a_data_set(name, what, column):
    facts = DatasetFacts(name=name, what=what, license="cc0-1.0", tags=["synthetic"])
    card = dataset_card(facts, {"twins": {column: "string"}}, {"twins": {"train": 1234, "test": 5}}, "a/b")
    text = str(card)
    assert all(words in text for words in (what, f"| `{column}` | string |", "| train | 1,234 |", '("a/b", "twins")'))
    assert card.data.pretty_name == name and "synthetic" in card.data.tags
    (configuration,) = card.data.configs
    assert configuration["config_name"] == "twins" and configuration["default"]
    assert [one["split"] for one in configuration["data_files"]] == ["train", "test"]


def test_the_card_of_the_metric():
    card = metric_card("a/b")
    assert isinstance(card, RepoCard) and 'evaluate.load("a/b")' in card.content and "user/name" not in str(card)


def test_the_card_of_the_default_encoder_is_as_the_template_makes_it():
    """Its text is from the template as it is now, and its figures for programs are those for people."""
    from narrative_twins import default_encoder

    card = ModelCard.load(f"{default_encoder()}/README.md")
    heads = [line for line in template("model_card.md").splitlines() if line.startswith("## ")]
    assert [line for line in card.content.splitlines() if line.startswith("## ")] == heads
    shown = next(line for line in card.content.splitlines() if "this encoder" in line)
    assert [f"{one.metric_value:.3f}" for one in card.data.eval_results] == [
        cell for cell in shown.replace("|", " ").split() if cell.startswith("0.")
    ]


def test_facts_from_a_file(tmp_path):
    path = tmp_path / "facts.yaml"
    path.write_text("name: Mine\nfigures:\n- {metric: AUC, value: 0.5, dataset: Stories}\n")
    assert read_facts(EncoderFacts, path) == EncoderFacts(name="Mine", figures=[Figure("AUC", 0.5, "Stories")])
    with pytest.raises(ValueError, match="'figures' is no fact"):
        read_facts(DatasetFacts, path)
