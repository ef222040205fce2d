"""The metrics as modules of `evaluate`, loaded from their file, against naive loops and functions
of the package."""

from pathlib import Path

import pytest

from narrative_twins.evaluation.metrics import label_entropy, partial_spearman

from support.naive_metrics import naive_points, naive_votes

evaluate = pytest.importorskip("evaluate")

MODULE = str(Path(__file__).parents[2] / "hub_cards" / "narrative_salience")
SCORES = [[0.3, 0.9, 0.1, 0.5], [0.2, 0.4, 0.1], [1.0]]
LABELS = [[0.0, 3.0, 1.0, 1.0], [0.0, 1.0, 4.0], [2.0]]


@pytest.fixture
def load(tmp_path):
    return lambda *config: evaluate.load(MODULE, *config, cache_dir=str(tmp_path))


@pytest.mark.parametrize("config", [(), ("labels",)])
def test_labels(load, config):
    found = load(*config).compute(predictions=SCORES, references=LABELS)
    expected = naive_votes([{"x": scores} for scores in SCORES], LABELS)
    for name in ("spearman", "auc"):
        assert found[name] == pytest.approx(expected[f"x_{name}"]) and found[f"{name}_stories"] == 2


def test_turning_points(load):
    windows, points = [[[0, 2], [2, 4]], [[0, 1], [1, 3]]], [[1, 1], [0, 2]]
    of_points = {"references": points, "windows": windows}
    found = load("turning_points").compute(predictions=SCORES[:2], **of_points)
    naive = naive_points([{"x": scores} for scores in SCORES[:2]], windows, points)
    expected = {name.removeprefix("x_"): value for name, value in naive.items()}
    assert found == pytest.approx(expected | {"left_out": 1}, nan_ok=True)


def test_partial_and_entropy(load):
    lengths = [[7.0, 12.0, 5.0, 9.0], [10.0, 11.0, 6.0], [3.0]]
    found = load("partial").compute(predictions=SCORES, references=LABELS, lengths=lengths)
    controls = [(range(len(words)), words) for words in lengths]
    expected = partial_spearman(SCORES, LABELS, controls)
    assert found["partial_spearman"] == pytest.approx(expected, nan_ok=True)
    found = load("entropy").compute(references=LABELS)
    assert found["entropy"] == pytest.approx(sum(map(label_entropy, LABELS)) / 3)
    assert found["perplexity"] == pytest.approx(2 ** found["entropy"])


def test_unknown_configuration(load):
    with pytest.raises(
        ValueError, match="unknown configuration 'votes'; choose from labels, partial"
    ):
        load("votes")
