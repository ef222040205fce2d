"""Cards: all facts are in them, unchanged, and no gap remains."""

import pytest
import yaml
from huggingface_hub import ModelCard
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.encoder.loading import PACKAGED
from narrative_twins.hub.cards import dataset_card, encoder_card, template, with_id
from narrative_twins.hub.facts import DatasetFacts, EncoderFacts, Figure, read_facts

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)
HOSTILE = st.one_of(
    WORDS,
    st.sampled_from(["{{ 7 * 7 }}", "{% for %}", "---", "| a |", "<script>", "'\"\\", "name: x"]),
)
"""Words, and syntax of templates, YAML, tables and HTML."""


@given(name=HOSTILE, base=HOSTILE, data=HOSTILE, dataset=HOSTILE, value=st.floats(-1, 1))
def test_card_of_an_encoder_has_all_facts(name, base, data, dataset, value):
    figure = Figure("AUC of deletion", value, dataset, split="test")
    facts = EncoderFacts(name, base, training_data=data, figures=[figure], license="mit")
    text = str(encoder_card(facts, "somebody/encoder"))
    for words in (name, base, data, f"| {value:.3f} |", 'model="somebody/encoder"'):
        assert words in text
    _, metadata, _ = text.split("---\n", 2)
    read = yaml.safe_load(metadata)
    assert read["model-index"][0]["name"] == name and read["license"] == "mit"
    (result,) = read["model-index"][0]["results"]
    assert result["dataset"]["name"] == dataset and result["metrics"][0]["value"] == value


def test_card_without_facts():
    card = encoder_card(EncoderFacts())
    assert "unknown" in card.content and "Not measured." in card.content
    assert card.data.eval_results is None and "model-index" not in str(card)
    assert "None" not in str(card)


@given(name=HOSTILE, what=HOSTILE, column=HOSTILE)
def test_card_of_a_data_set(name, what, column):
    facts = DatasetFacts(name=name, description=what, license="cc0-1.0", tags=["synthetic"])
    rows = {"twins": {"train": 1234, "test": 5}}
    card = dataset_card(facts, {"twins": {column: "string"}}, rows, "a/b")
    for words in (what, f"| `{column}` | string |", "| train | 1,234 |", '("a/b", "twins")'):
        assert words in str(card)
    assert card.data.pretty_name == name and "synthetic" in card.data.tags
    (configuration,) = card.data.configs
    assert configuration["config_name"] == "twins" and configuration["default"]
    assert [file["split"] for file in configuration["data_files"]] == ["train", "test"]


def test_card_of_the_default_encoder_follows_the_template():
    """It has the headings of the current template, and the same figures in its metadata and its
    last two tables, of stories that no setting was chosen by, exactly and in one pass."""
    card = ModelCard.load(PACKAGED["default"] / "README.md")
    heads = [line for line in template("model_card.md").splitlines() if line.startswith("## ")]
    assert [line for line in card.content.splitlines() if line.startswith("## ")] == heads
    rows = [line for line in card.content.splitlines() if "this encoder" in line][-2:]
    shown = [cell for row in rows for cell in row.split() if cell.startswith("0.")]
    values = [f"{result.metric_value:.3f}" for result in card.data.eval_results]
    assert len(shown) == 16 and sorted(values) == sorted(shown)


def usage(card: str) -> str:
    """The section of a card on usage."""
    return card.partition("## Usage\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", PACKAGED)
def test_example_in_the_card_of_an_encoder_in_the_package(name):
    """It is that of the template, and loads this encoder; once it is pushed, that of the Hub."""
    shipped = (PACKAGED[name] / "README.md").read_text(encoding="utf-8")
    card = str(encoder_card(EncoderFacts(), packaged_as=name))
    if name != "default":
        assert usage(shipped) == usage(card)
        assert f'pipeline("narrative-salience", model=encoder_path("{name}"))' in card
    expected = str(encoder_card(EncoderFacts(), "somebody/encoder"))
    assert with_id(card, "somebody/encoder") == expected
    pushed = usage(with_id(shipped, "somebody/encoder"))
    assert pushed.splitlines()[:9] == usage(expected).splitlines()[:9]


def test_facts_from_a_file(tmp_path):
    path = tmp_path / "facts.yaml"
    path.write_text("name: Mine\nfigures:\n- {metric: AUC, value: 0.5, dataset: Stories}\n")
    figures = [Figure("AUC", 0.5, "Stories")]
    assert read_facts(EncoderFacts, path) == EncoderFacts(name="Mine", figures=figures)
    for content in ("nme: x", "- a", "a: [", "figures: [{x: 1}]", "[" * 1000):
        path.write_text(content)
        with pytest.raises(ValueError, match="(?s)not a YAML mapping of facts .* name, base_model"):
            read_facts(EncoderFacts, path)
