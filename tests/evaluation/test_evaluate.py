"""`evaluate` and its command: rows against naive loops, saved scores, tables, what a user types."""

import json
import math
import shutil
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from datasets import Dataset

from narrative_twins import OPERATIONS, StoryEncoder, evaluate, score_stories
from narrative_twins.commands.cli import main
from narrative_twins.data import RowError
from narrative_twins.evaluation import scorers, significance
from narrative_twins.evaluation.labelled_stories import load_labelled
from narrative_twins.evaluation.metrics import partial_spearman
from narrative_twins.writing import JsonlLog

from support.models import encoder_of
from support.naive_metrics import naive_auc, naive_mean, naive_points, naive_spearman, naive_votes
from support.rows import write_rows


def story(text):
    return [f"{sentence}." for sentence in text.removesuffix(".").split(". ")]


STORIES = [
    (story("Nadia found a map. It led to a mill. It was gone. She wept. She left."), [1, 3, 3]),
    (story("Omar cooked. The fire went out. He ate soup. A guest laughed. They sang."), [5, 5, 2]),
    (story("A dog ran off. A boy called it. It came with a shoe. The shoe was gold."), [4, 4, 3]),
    (story("It rained for a week. The bridge fell. Nobody was hurt."), [2, 2, 2]),
    (story("One sentence alone."), [1]),
]
SENTENCES = [sentences for sentences, _ in STORIES]


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Tests and intervals of 200 resamples, as 10,000 take most of the time."""
    monkeypatch.setattr(significance, "RESAMPLES", 200)


@pytest.fixture
def votes(tmp_path) -> str:
    rows = [
        {"id": f"S{i}", "story": sentences, "choices": choices}
        for i, (sentences, choices) in enumerate(STORIES)
    ]
    return str(write_rows(tmp_path / "votes.jsonl", rows))


FILMS = {"Kites": [1, 3, 4, 6, 9], "Salt": [0, 1, 5, 7, 8], "Wool": [2, 3, 5, 9, 9]}


@pytest.fixture
def films(tmp_path) -> str:
    rows = {}
    for film, points in FILMS.items():
        sentences = [f"{film} scene {i} is about {'x' * (i % 4 + 1)}." for i in range(10)]
        rows[film] = {"sentences": sentences, "turning_points": points}
    (tmp_path / "films.json").write_text(json.dumps(rows))
    return str(tmp_path / "films.json")


def counts(data):
    return [[choices.count(i + 1) for i in range(len(story))] for story, choices in data]


def lines_of(comparison, metric):
    """The means of a metric, by the name of the line."""
    means = comparison.means
    return means[means["metric"] == metric].set_index("name")


def test_lines_of_votes_equal_naive_loops(votes, bert_folder):
    options = {"loading": {"dtype": "float32"}, "baselines": ["trail", "lead"]}
    found = evaluate({"tiny": bert_folder}, votes, **options)
    encoder = StoryEncoder.from_pretrained(bert_folder, dtype="float32")
    scored = [dict(result.scores) for result in score_stories(SENTENCES, encoder)]
    for scores, sentences in zip(scored, SENTENCES, strict=True):
        n = len(sentences)
        scores |= {"trail": list(range(n)), "lead": list(range(n, 0, -1))}
    expected = naive_votes(scored, counts(STORIES))
    ours = [f"tiny {operation}" for operation in OPERATIONS]
    names = list(lines_of(found, "auc").index)
    assert names == ["people, one of them", *ours, "trail", "lead"]
    lengths = [[len(text.split()) for text in sentences] for sentences in SENTENCES]
    controls = [(range(len(words)), words) for words in lengths]
    for name in names[1:]:
        line, key = found.line("votes", name), name.removeprefix("tiny ")
        for metric in ("spearman", "auc"):
            assert line["mean"][metric] == pytest.approx(expected[f"{key}_{metric}"], abs=1e-9)
        assert line["counted"]["spearman"] == 4, "of a single sentence there is no correlation"
        assert line["low"]["spearman"] <= line["mean"]["spearman"] <= line["high"]["spearman"]
        partial = partial_spearman([scores[key] for scores in scored], counts(STORIES), controls)
        assert line["mean"]["partial"] == pytest.approx(partial, nan_ok=True)
    assert math.isnan(line["mean"]["partial"]), "position explains lead"
    # A row for each story, run and metric, and one over all stories.
    assert len(found.values) == (2 * 5 + 1) * len(names)


@pytest.mark.parametrize("rule", ["numbered", "containing"])
def test_lines_of_turning_points_equal_naive_loops(films, rule):
    found = evaluate({}, films, baselines=["trail"], rule=rule)
    line = found.line("films", "trail")
    windows = [list(pairwise(range(0, 11, 2)))] * 3
    points = list(FILMS.values())
    expected = naive_points([{"trail": list(range(10))}] * 3, windows, points, rule)
    assert line["mean"]["auc"] == pytest.approx(expected["trail_auc"])
    assert found.by_point("films", "trail", "") == pytest.approx(
        [expected[f"trail_auc_{k}"] for k in range(1, 6)], nan_ok=True
    )
    outside = sum(not 2 * k <= point < 2 * k + 2 for film in points for k, point in enumerate(film))
    is_left_out = rule == "numbered"
    assert line["counted"]["auc"] == 15 - outside * is_left_out
    assert found.summaries[0].left_out == outside * is_left_out
    left_out = f"15 turning points, {outside} of them ({outside / 15:.1%}) left out because"
    assert (left_out in found.tables()[0].caption) == is_left_out


def test_baselines_by_vectors_say_whose_and_need_an_encoder(votes, bert_folder):
    """By the encoder under test, `whole_text` would be its summarization under another name."""
    by_vectors = {"textrank", "lexrank", "whole_text"}
    options = {"operations": "summarization", "loading": {"dtype": "float32"}}
    plain = evaluate({"tiny": bert_folder}, votes, **options)
    scorers_of = set(plain.runs["scorer"])
    assert {"tiny", "trail", "length"} < scorers_of and not by_vectors & scorers_of
    assert plain.notes == []
    other = StoryEncoder.from_pretrained(bert_folder, dtype="float32")
    compared = evaluate({"tiny": bert_folder}, votes, sentence_encoder=other, **options)
    assert by_vectors < set(compared.runs["scorer"])
    whose = Path(bert_folder).name
    note = f"textrank, lexrank, whole_text: by the vectors that {whose} gives to each sentence"
    assert note in compared.tables()[0].to_markdown()
    named = evaluate({}, votes, baselines="whole_text", **options)
    assert "whole_text: by the vectors that the default encoder gives" in str(named.json()["notes"])


def test_seeds_are_runs_of_a_line_and_tests_take_the_median_run(votes, bert_folder, tmp_path):
    other = str(tmp_path / "other")
    for part in encoder_of("modernbert"):
        part.save_pretrained(other)
    copies = [str(tmp_path / name) for name in ("one", "two")]
    for source, copy in zip((bert_folder, other), copies, strict=True):
        shutil.copytree(source, copy)
    found = evaluate(
        {"mine": [*copies, bert_folder], "other": [other]},
        votes,
        operations=["deletion", "summarization"],
        baselines=["trail"],
        against="trail",
        loading={"dtype": "float32"},
    )
    runs = found.runs.set_index(["metric", "scorer", "operation"])["value"]
    values = list(runs.loc["spearman", "mine", "deletion"])
    line = found.line("votes", "mine deletion").loc["spearman"]
    alone = found.line("votes", "other deletion").loc["spearman"]
    assert values[0] == values[2] != values[1] == alone["mean"]
    assert line["mean"] == pytest.approx(np.mean(values))
    assert line["sd"] == np.std(values, ddof=1) and math.isnan(alone["sd"])
    assert line["run"] in (copies[0], bert_folder), "the value that two of three runs have"
    # Tests are over the stories of these runs.
    table = found.values[found.values["metric"] == "spearman"]
    median = table[(table["run"] == line["run"]) & (table["operation"] == "deletion")]["value"]
    trail = table[table["scorer"] == "trail"]["value"]
    p = significance.paired_permutation_test(median, trail)
    assert found.p_values["votes", "mine deletion", "spearman"] == p
    assert ("votes", "trail", "spearman") not in found.p_values
    means = lines_of(found, "spearman")["mean"].drop("people, one of them")
    first = means.idxmax()
    p_values = found.tests("votes", "spearman", first)
    best = {name for name in means.index if p_values.get(name, 1) >= 0.05}
    assert found.best("votes", "spearman") == best and first in best


def test_random_is_the_mean_of_a_hundred_draws(votes):
    found = evaluate({}, votes, baselines="random")
    values = found.runs.set_index(["scorer", "metric"])["value"].loc["random", "auc"]
    assert len(values) == 100 and values.nunique() > 20
    mean = found.line("votes", "random")["mean"]["auc"]
    assert mean == pytest.approx(values.mean()) and abs(mean - 0.5) < 0.1


def test_second_annotators_without_stories_are_matched_by_id(votes, tmp_path):
    again = {"S1": [2, 5, 5], "S0": [5, 5, 1], "unknown": [9]}
    rows = [{"summary": ["Gone."] * len(each), "most_important": each} for each in again.values()]
    content = dict(zip(again, rows, strict=True))
    path = tmp_path / "again.json"
    path.write_text(json.dumps(content))
    first, other, *rest = load_labelled(votes, second=str(path)).second
    assert first == pytest.approx([1 / 3, 0, 0, 0, 2 / 3]) and rest == [None] * 3
    assert other == pytest.approx([0, 1 / 3, 0, 0, 2 / 3])
    path.write_text(json.dumps({"S1": {"most_important": [2, 6]}}))
    with pytest.raises(RowError, match=r"again.json, row 0, id 'S1': 'choices' has 6"):
        load_labelled(votes, second=str(path))
    path.write_text(json.dumps({"other": {"most_important": [2, 5]}}))
    with pytest.raises(ValueError, match="again has none of the stories of votes; .* by their ids"):
        load_labelled(votes, second=str(path))


def test_second_annotators_are_a_line_whose_metrics_are_over_the_same_stories(votes, tmp_path):
    # In the first story everybody chose another sentence: its AUC is defined, its Spearman is not.
    second = list(zip(SENTENCES, [[1, 2, 3, 4, 5], [2, 5, 5], [3, 4, 4]], strict=False))
    rows = [{"story": sentences, "choices": choices} for sentences, choices in second]
    again = str(write_rows(tmp_path / "again.jsonl", rows))
    found = evaluate({}, votes, baselines=(), second=again)
    line = found.line("votes", "people, second group")
    people = [{"people": labels} for labels in counts(second[1:])]
    expected = naive_votes(people, counts(STORIES[1:3]))
    for metric in ("spearman", "auc"):
        assert line["counted"][metric] == 2
        assert line["mean"][metric] == pytest.approx(expected[f"people_{metric}"])
    assert not found.best("votes", "spearman")


def test_an_encoder_that_is_named_twice_has_two_runs(votes, bert_folder):
    found = evaluate({"tiny": [bert_folder] * 2}, votes, operations="deletion", baselines=())
    runs = found.runs[(found.runs["scorer"] == "tiny") & (found.runs["metric"] == "auc")]
    assert list(runs["run"]) == [bert_folder, f"{bert_folder} (2)"]
    assert found.line("votes", "tiny deletion")["sd"]["auc"] == 0


def test_each_annotator_is_compared_with_the_others(votes):
    line = evaluate({}, votes, baselines="lead").line("votes", "people, one of them")
    for metric, naive in (("spearman", naive_spearman), ("auc", naive_auc)):
        by_story = []
        for story, choices in STORIES:
            found = []
            for a, choice in enumerate(choices):
                others = [c for b, c in enumerate(choices) if b != a]
                own = [int(i + 1 == choice) for i in range(len(story))]
                if others:
                    found.append(naive(own, [others.count(i + 1) for i in range(len(story))]))
            by_story.append(naive_mean(found))
        expected = naive_mean([None if math.isnan(value) else value for value in by_story])
        assert line["mean"][metric] == pytest.approx(expected)


def test_results_of_other_scorers(votes, tmp_path):
    """Votes of a language model are in tests/making/test_judgments.py."""
    scored = zip(SENTENCES[:4], counts(STORIES), strict=False)
    rows = [{"sentences": text, "scores": {"choice": labels}} for text, labels in scored]
    file = write_rows(tmp_path / "results.jsonl", rows)
    results = {"model": str(file)}
    line = evaluate({}, votes, baselines=(), results=results).line("votes", "model choice")
    assert (line["mean"]["auc"], line["counted"]["auc"]) == (1.0, 4)
    for content, problem in [
        ('{"sentences": ["A."]}', "line 1, is not a result"),
        ("\n[1]", "line 2, is not a result"),
        ('{"sentences": ["A."], "scores": {"x": [1, 2]}}', "is not .* scores of 'x' are not 1"),
        ('{"sentences": ["A."], "scores": {"x": [1]}}', "scores for none of the stories of votes"),
    ]:
        file.write_text(content)
        with pytest.raises(ValueError, match=problem):
            evaluate({}, votes, baselines=(), results=results)


@pytest.mark.slow
def test_saved_scores_are_not_computed_again(votes, bert_folder, tmp_path):
    def run(operation="deletion", **options):
        encoders = {"tiny": bert_folder}
        options |= {"operations": operation, "baselines": "trail"}
        return evaluate(encoders, votes, tmp_path / "out", **options).json()

    first = run()
    (saved,) = (tmp_path / "out" / "scores").iterdir()
    complete, log = saved.read_text(), saved.with_suffix(".log")
    with patch.object(scorers, "score_stories", wraps=scorers.score_stories) as scorer:
        assert run() == first and not scorer.called
        run("summarization")
        run(windows=2)
        # An interrupted run: the scores of two stories are there.
        saved.unlink()
        with patch.object(JsonlLog, "complete"):
            run()
        log.write_text("".join(log.read_text().splitlines(keepends=True)[:3]))
        assert run() == first and saved.read_text() == complete
    assert [len(call.args[0]) for call in scorer.call_args_list] == [5, 5, 5, 3]


def test_files_of_a_folder(votes, films, bert_folder, tmp_path):
    out = tmp_path / "out"
    options = {"operations": "deletion", "baselines": "lead", "splitter": story}
    found = evaluate({"tiny": bert_folder}, [votes, films], out, **options)
    saved = json.loads((out / "results.json").read_text())
    assert saved == json.loads(json.dumps(found.json()))
    rows = {(row["data"], row["name"]): row for row in saved["rows"]}
    expected = {(d, n) for d in ("votes", "films") for n in ("tiny deletion", "lead")}
    assert set(rows) == expected | {("votes", "people, one of them")}
    values = rows["votes", "lead"]["runs"][0]["values"]["spearman"]
    assert len(values) == 5 and values[4] is None
    assert len(rows["films", "lead"]["runs"][0]["values"]["auc"][0]) == 5
    markdown, latex = (out / "table.md").read_text(), (out / "table.tex").read_text()
    assert markdown.count("tiny deletion") == latex.count("tiny deletion") == 2
    assert latex.count(r"\toprule") == 2 and "95 \\% interval" in latex


WINDOWS = {"story": [["A."], ["B."]], "labels": [1, 0]}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"data": None}, "pass data"),
        ({"operations": "summary"}, "summarization"),
        ({"against": "trial"}, "no row 'trial' for votes; .*'default deletion', 'lead'"),
        ({"results": {"default": "x.jsonl"}}, "more than one scorer has the name 'default'"),
        ({"split": "test"}, "no split 'test' in votes, only train"),
        ({"data": Dataset.from_list([WINDOWS])}, "story. is a list of lists"),
    ],
)
def test_wrong_arguments(options, problem, votes):
    options = {"data": votes, "operations": "deletion", "baselines": "lead", **options}
    with pytest.raises(ValueError, match=problem):
        evaluate(**options)


def test_without_people_or_scorers_there_is_nothing_to_compare(films):
    with pytest.raises(ValueError, match="nothing to compare; give an encoder"):
        evaluate({}, films, baselines=())


def test_command(votes, bert_folder, tmp_path, capsys):
    out = str(tmp_path / "out")
    options = ["--operations", "deletion", "--baselines", "trail,random", "--against", "trail"]
    assert main(["evaluate", votes, "--model", f"tiny={bert_folder}", "--out", out, *options]) == 0
    printed, messages = capsys.readouterr()
    rows = [line.split("|")[1].strip(" *") for line in printed.splitlines() if line[:1] == "|"]
    assert rows[2:] == ["people, one of them", "tiny deletion", "trail", "random"]
    assert "5 stories, 18 sentences; entropy of the labels" in printed
    assert f"In {out}: results.json" in messages


def test_grades_may_be_negative(tmp_path):
    """They have no shares, and so no entropy."""
    row = {"story": ["Nadia ran.", "It rained."], "labels": [-1, 2]}
    path = write_rows(tmp_path / "grades.jsonl", [row])
    (data,) = evaluate({}, str(path), baselines="trail").summaries
    assert data.entropy is None and "entropy" not in data.text


def test_split_is_that_for_evaluation(tmp_path):
    for name in ("train", "validation"):
        row = {"story": [f"In {name}.", "End."], "choices": [1]}
        write_rows(tmp_path / f"{name}.jsonl", [row])
    assert load_labelled(str(tmp_path)).stories[0].sentences[0] == "In validation."
    assert load_labelled(str(tmp_path), "train").stories[0].sentences[0] == "In train."
