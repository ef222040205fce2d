"""Narrative twins against dropout twins by rows and epochs: runs, their comparison, and the page."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import compare_twins
import numpy as np
import pytest
import twins_by_rows
from compare_twins import Agreement, Comparison, Setting
from twins_by_rows import Run, all_runs

from narrative_twins.evaluation.metrics import partial_spearman, spearman

STORIES = [
    {"story": [f"Word {'word ' * ((7 * i + j) % 5)}" for j in range(5)], "counts": counts}
    for i, counts in enumerate(
        [[0, 1, 0, 3, 1], [2, 0, 1, 0, 2], [0, 0, 4, 1, 0], [1, 0, 0, 0, 4]] * 5
    )
]


def ranks_of(seed, like_labels=0.0):
    """Random ranks of the sentences of all stories, which may follow the labels."""
    random = np.random.default_rng(seed)
    scores = [like_labels * np.array(row["counts"]) + random.random(5) for row in STORIES]
    return [(np.argsort(np.argsort(each)) + 1).tolist() for each in scores]


def naive(metric, ranks, stories):
    labels = [row["counts"] for row in stories]
    if metric == "plain":
        return np.mean([spearman(*pair) for pair in zip(ranks, labels, strict=True)])
    controls = [(range(5), [len(sentence.split()) for sentence in row["story"]]) for row in stories]
    return partial_spearman(ranks, labels, controls)


def test_there_are_120_runs_first_seeds_first():
    runs = all_runs()
    assert len({run.name for run in runs}) == len(runs) == 2 * 2 * 2 * 3 * 5
    assert {run.seed for run in runs[:24]} == {twins_by_rows.SEEDS[0]}
    assert {run.rows for run in runs} == set(twins_by_rows.ROWS)


@pytest.mark.parametrize("metric", compare_twins.METRICS)
def test_weights_repeat_stories_and_signs_exchange_them(metric):
    ranks = {"a": ranks_of(0), "b": ranks_of(1)}
    agreement = Agreement(STORIES, ranks)
    random = np.random.default_rng(2)
    picked = random.integers(len(STORIES), size=len(STORIES))
    weights = np.bincount(picked, minlength=len(STORIES))[None].astype(float)
    expected = naive(metric, [ranks["a"][i] for i in picked], [STORIES[i] for i in picked])
    assert agreement.of(metric, "a", weights) == pytest.approx([expected])

    signs = random.integers(2, size=(1, len(STORIES)))
    first = [ranks["b" if sign else "a"][i] for i, sign in enumerate(signs[0])]
    second = [ranks["a" if sign else "b"][i] for i, sign in enumerate(signs[0])]
    expected = naive(metric, first, STORIES) - naive(metric, second, STORIES)
    assert agreement.exchanged(metric, "a", "b", signs) == pytest.approx([expected])


@pytest.mark.parametrize("metric", compare_twins.METRICS)
def test_a_difference_is_tested_over_stories_and_seeds(metric):
    """Narrative twins that follow the labels are above dropout twins that do not, and equal ones
    are not."""
    setting = Setting(True, 1, 430)
    runs = [
        Run(seed, True, 1, 430, twins)
        for seed in twins_by_rows.SEEDS[:3]
        for twins in twins_by_rows.TWINS
    ]
    better = {
        run.name: ranks_of(i, 1.0 if run.twins == "narrative" else 0.0)
        for i, run in enumerate(runs)
    }
    comparison = Comparison(Agreement(STORIES, better), better)
    assert comparison.p_value(metric, setting) < 0.01
    samples = comparison.samples(metric, setting)
    narrative, dropout = comparison.means(metric, setting)
    assert len(narrative) == len(dropout) == 3
    assert np.percentile(samples, 2.5) > 0
    assert samples.mean() == pytest.approx(np.mean(narrative) - np.mean(dropout), abs=0.05)

    equal = {run.name: ranks_of(run.seed) for run in runs}
    comparison = Comparison(Agreement(STORIES, equal), equal)
    assert comparison.p_value(metric, setting) == 1
    assert np.percentile(comparison.samples(metric, setting), 97.5) > 0


def test_runs_are_compared_with_the_run_of_their_seed():
    seeds = twins_by_rows.SEEDS
    names = {Run(seed, True, 1, 430, "narrative").name: [] for seed in seeds[:3]}
    names |= {Run(seed, True, 1, 430, "dropout").name: [] for seed in seeds[1:]}
    pairs = Setting(True, 1, 430).pairs(names)
    assert [[int(name.rpartition("-seed")[2]) for name in pair] for pair in pairs] == [
        [seed, seed] for seed in seeds[1:3]
    ]


def test_kinds_of_twins_are_compared_across_distractors():
    """Narrative twins with distractors, dropout twins without."""
    (setting,) = (each for each in compare_twins.ACROSS if each.epochs == 1)
    names = [Run(43, True, 1, 1721, "narrative").name, Run(43, False, 1, 1721, "dropout").name]
    ranks = {name: ranks_of(number) for number, name in enumerate(names)}
    assert setting.pairs(ranks) == [tuple(names)]
    comparison = Comparison(Agreement(STORIES, ranks), ranks)
    (line,) = compare_twins.lines_across(comparison)
    expected = [naive("partial", ranks[name], STORIES) for name in names]
    assert f"{expected[0]:.3f} and {expected[1]:.3f}, difference" in line


def test_runs_are_saved_and_not_repeated(tmp_path, monkeypatch, bert_folder):
    """Two runs of a tiny encoder; then the table, the figure and the results without text."""
    labelled = [
        {"story": ["He left.", "She saw a ship.", "It sank."], "choices": [3, 3, 3, 3, 2]},
        {"story": ["Ann ran.", "She fell in a well.", "A dog barked."], "choices": [1, 2, 2, 2, 3]},
    ]
    (tmp_path / "roc_val.json").write_text("".join(json.dumps(row) + "\n" for row in labelled))
    only = replace(all_runs()[0], rows=32)
    runs = [only, replace(only, twins="dropout")]
    monkeypatch.setattr(twins_by_rows, "all_runs", lambda: runs)
    results = tmp_path / "results.json"
    results.write_text("{}")
    monkeypatch.setattr(twins_by_rows, "RESULTS", results)
    flags = ["--state", str(tmp_path), "--base", str(bert_folder), "--data", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["twins_by_rows.py", *flags, "--only", "narrative-*"])
    twins_by_rows.main()
    saved = tmp_path / "runs" / f"{only.name}.json"
    scores = json.loads(saved.read_text())["scores"]
    assert [len(row) for row in scores] == [3, 3]
    assert list((tmp_path / "runs").iterdir()) == [saved]

    before = saved.stat().st_mtime_ns
    monkeypatch.setattr(sys, "argv", ["twins_by_rows.py", *flags])
    twins_by_rows.main()
    assert saved.stat().st_mtime_ns == before
    assert len(list((tmp_path / "runs").iterdir())) == 2

    settings = [
        Setting(distractors, epochs, 32) for distractors in (True, False) for epochs in (1, 3)
    ]
    monkeypatch.setattr(compare_twins, "all_runs", lambda: runs)
    monkeypatch.setattr(compare_twins, "ROWS", (32,))
    monkeypatch.setattr(compare_twins, "SETTINGS", settings)
    monkeypatch.setattr(compare_twins, "RESULTS", results)
    page = f"Text.\n{compare_twins.BEGIN}\n{compare_twins.END}\nMore.\n"
    (tmp_path / "replication.md").write_text(page)
    flags = ["--state", str(tmp_path), "--data", str(tmp_path), "--docs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["compare_twins.py", *flags])
    compare_twins.main()
    text = (tmp_path / "replication.md").read_text()
    counts = ([0, 1, 4], [1, 3, 1])
    expected = np.mean([spearman(*pair) for pair in zip(scores, counts, strict=True)])
    assert f"| with | 32 | 1 | 1 | {expected:.3f} |" in text
    assert (tmp_path / "twins_by_rows.svg").stat().st_size > 0
    assert "ship" not in results.read_text()
    # Where only the results are left, runs are not repeated, and the page is the same.
    for file in (tmp_path / "runs").iterdir():
        file.unlink()
    monkeypatch.setattr(
        sys, "argv", ["twins_by_rows.py", *flags[:2], "--base", "none", *flags[2:4]]
    )
    twins_by_rows.main()
    monkeypatch.setattr(sys, "argv", ["compare_twins.py", *flags])
    compare_twins.main()
    assert (tmp_path / "replication.md").read_text() == text


def test_the_page_has_the_table_of_the_results():
    """The differences of the page are of as many seeds as the results have."""
    page = Path("docs/replication.md").read_text(encoding="utf-8")
    text = page.partition(compare_twins.BEGIN)[2].partition(compare_twins.END)[0]
    names = json.loads(compare_twins.RESULTS.read_text(encoding="utf-8"))
    for setting in compare_twins.SETTINGS:
        seeds = len(setting.pairs(names))
        row = f"| {'with' if setting.distractors else 'without'} | {setting.rows:,} | {setting.epochs} |"
        assert text.count(f"{row} {seeds} |") == (2 if seeds else 0)
