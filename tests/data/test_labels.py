"""Human labels in every form: votes, grades, selected sentences, turning points and highlights, in
plain rows, tables and exports of annotation tools."""

from __future__ import annotations

import csv
import json
import logging
import re
import tempfile
from pathlib import Path

import pytest
from datasets import disable_progress_bars
from hypothesis import example, given, settings
from hypothesis import strategies as st

from narrative_twins import Story, StoryError
from narrative_twins.data import (
    RowError,
    StorySalienceBuilder,
    load_story_salience,
    load_turning_points,
)
from narrative_twins.data.exports import salience_records
from narrative_twins.data.labels import story_salience

from support.json_values import ROWS, mutations
from support.strategies import any_text, sentence, window_sizes

disable_progress_bars()

STORY = ["Nadia ran.", "It rained.", "The mill burned."]
TEXT = "Nadia ran. It rained.\n\nThe mill burned."


def columns(row: dict, *names: str) -> list:
    found = story_salience(row, "here")
    return [found[name] for name in names or ("labels", "annotations")]


# Forms of a row


def test_a_single_choice_is_one_vote():
    for choices in (2, [2], ["2"]):
        found = story_salience({"story": STORY, "choices": choices}, "here")
        assert (found["labels"], found["annotations"]) == ([0, 1, 0], [[0, 1, 0]])
        assert (found["choices"], found["counts"]) == ([2], [0, 1, 0])


def test_selected_sentences_of_each_annotator():
    row = {"story": STORY, "choices": [[1, 3], ["3", 3], []]}
    assert columns(row) == [[1 / 3, 0, 2 / 3], [[1, 0, 1], [0, 0, 1], [0, 0, 0]]]
    assert columns(row, "choices", "counts") == [None, None]


def test_grades():
    assert columns({"story": STORY, "labels": [1, 0.25, -2.5]}) == [[1, 0.25, -2.5], None]
    assert columns({"story": STORY, "labels": [True, False, False]}) == [[1, 0, 0], None]
    assert columns({"story": STORY, "annotations": [[1, 0, 5], [2, 0, 4]]}) == [
        [1.5, 0, 4.5],
        [[1, 0, 5], [2, 0, 4]],
    ]


def test_turning_points_are_labels():
    row = {"story": STORY, "turning_points": [0, "2"]}
    assert columns(row, "labels", "annotations", "counts") == [[1, 0, 1], None, None]


def test_turning_points_of_a_table_of_synopses(tmp_path):
    """The labels are those of the turning points that `load_turning_points` reads from the same
    file."""
    path = tmp_path / "synopses.csv"
    segmented = " ".join(
        f"[STR_SENT] {text} [END_SENT]" for text in ("A.", "[2]", "B.", "C.", "D.", "E.", "F.")
    )
    path.write_text(
        f"movie_name,synopsis_segmented,tp1,tp2,tp3,tp4,tp5\nThe Mill_0,{segmented},0,2,3,4,6\n"
    )
    cache = str(tmp_path / "cache")
    (points,) = load_turning_points(path, "train", windows=2, cache_dir=cache)
    (labels,) = load_story_salience(path, "train", cache_dir=cache)
    assert (labels["id"], labels["story"]) == (points["id"], points["story"])
    assert [i for i, label in enumerate(labels["labels"]) if label] == points["turning_points"]


def test_highlights():
    # "ran. It" has 4 of 9 and 2 of 9 visible characters; the second annotator marked a sentence
    # twice, and white space.
    row = {"text": TEXT, "spans": [[[6, 13]], [[11, 21], [14, 20], [21, 23]]]}
    assert columns(row, "story") == [STORY]
    assert columns(row) == [[4 / 9 / 2, (2 / 9 + 1) / 2, 0], [[4 / 9, 2 / 9, 0], [0, 1, 0]]]
    assert columns({"text": TEXT, "highlights": [[6, 13]]}) == [
        [4 / 9, 2 / 9, 0],
        [[4 / 9, 2 / 9, 0]],
    ]
    assert columns({"text": TEXT, "spans": []}) == [[0, 0, 0], [[0, 0, 0]]]


def test_highlights_in_given_sentences():
    row = {
        "text": TEXT,
        "sentences": ["Nadia ran. It rained.", "The mill burned."],
        "spans": [[0, 10]],
    }
    assert columns(row, "story", "labels") == [row["sentences"], [0.5, 0]]


@pytest.mark.parametrize(
    "windows", [[[0, 1], [1, 3]], [1, 2], [["Nadia ran."], ["It rained.", "The mill burned."]]]
)
def test_windows_are_kept(windows):
    assert columns({"story": STORY, "choices": [1], "windows": windows}, "windows") == [
        [[0, 1], [1, 3]]
    ]
    assert columns({"text": TEXT, "spans": [[0, 10]], "windows": windows}, "windows") == [
        [[0, 1], [1, 3]]
    ]


FORMS = [
    {"choices": [1, 3, 3]},
    {"choices": [[1, 2], [3]]},
    {"labels": [0.5, 2, 1]},
    {"annotations": [[0.1, 0.2, 0.3], [0.7, 0, 0]]},
    {"turning_points": [1]},
    {"text": TEXT, "spans": [[[0, 7]], [[3, 22]]]},
    {"summaries": ["The mill burned."]},
]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl"])
def test_loaded_rows_can_be_saved_and_loaded(tmp_path, name):
    rows = [{"story": STORY, "windows": [1, 2], "title": "Mill", **form} for form in FORMS]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    cache = str(tmp_path / "cache")
    found = load_story_salience(tmp_path / "rows.json", "train", cache_dir=cache)
    assert found.features == StorySalienceBuilder.FEATURES
    path = str(tmp_path / name)
    if name.endswith("parquet"):
        found.to_parquet(path)
    else:
        Path(path).write_text("\n".join(map(json.dumps, found)))
    again = load_story_salience(path, "train", cache_dir=cache).to_list()
    votes = again[0]
    assert again == found.to_list()
    assert (votes["choices"], votes["counts"]) == ([1, 3, 3], [1, 0, 2])
    streamed = load_story_salience(path, "train", streaming=True)
    assert list(streamed) == again
    found.to_json(tmp_path / "rounded.jsonl")
    rounded, *_ = load_story_salience(tmp_path / "rounded.jsonl", "train", cache_dir=cache)
    assert rounded == votes, "labels that were rounded agree with the choices"


# Highlights, against a loop over characters


def naive_share(text: str, lo: int, hi: int, spans: list) -> float:
    marks = []
    for position in range(lo, hi):
        if not text[position].isspace():
            marks.append(any(start <= position < end for start, end in spans))
    return sum(marks) / len(marks)


@st.composite
def highlighted_texts(draw) -> tuple[str, list[list[list[int]]]]:
    """A text, and the spans that each annotator highlighted in it."""
    gap = st.sampled_from([" ", "\n\n", " \t "])
    text = "".join(
        part for part in draw(st.lists(sentence | gap | any_text, min_size=1, max_size=9))
    )
    edges = st.lists(st.integers(0, len(text)), min_size=2, max_size=2, unique=True).map(sorted)
    # At least one span, since an export without any is refused.
    one = draw(st.lists(edges, min_size=1, max_size=4))
    return text, [one, *draw(st.lists(st.lists(edges, max_size=4), max_size=3))]


def is_story(text: str) -> bool:
    try:
        return bool(Story.parse(text))
    except StoryError:
        return False


texts = highlighted_texts().filter(lambda drawn: is_story(drawn[0]))


@settings(max_examples=150)
@given(texts)
@example(("\ufeffA. \U0001f600 B.", [[[0, 3]], [[3, 7]]]))
def test_highlights_are_shares_of_characters(drawn):
    text, highlights = drawn
    story = Story.parse(text)
    labels, annotations = columns({"text": text, "spans": highlights})
    expected = [
        [naive_share(text, lo, hi, spans) for lo, hi in story.spans] for spans in highlights
    ]
    assert annotations == expected
    assert labels == pytest.approx(
        [sum(shares) / len(shares) for shares in zip(*expected, strict=True)]
    )
    assert all(0 <= label <= 1 for label in labels)


@settings(max_examples=50)
@given(texts, st.data())
def test_whole_sentences_that_are_highlighted_have_the_label_1(drawn, data):
    story = Story.parse(drawn[0])
    chosen = data.draw(st.sets(st.sampled_from(range(len(story)))))
    row = {"text": story.text, "spans": [list(story.spans[i]) for i in sorted(chosen)]}
    assert columns(row, "labels") == [[float(i in chosen) for i in range(len(story))]]


# The same annotations in several formats


def label_studio(rows) -> list[dict]:
    def result(text: str, start: int, end: int) -> dict:
        value = {"start": start, "end": end, "text": text[start:end], "labels": ["Key"]}
        return {
            "value": value,
            "id": "x",
            "from_name": "label",
            "to_name": "text",
            "type": "labels",
        }

    return [
        {
            "id": number,
            "data": {"text": text, "meta": 3},
            "annotations": [
                {
                    "id": 7 + a,
                    "completed_by": a,
                    "was_cancelled": False,
                    "result": [result(text, *s) for s in spans],
                }
                for a, spans in enumerate(highlights)
            ],
            "predictions": [],
        }
        for number, (text, highlights) in enumerate(rows)
    ]


def label_studio_min(rows) -> list[dict]:
    return [
        {
            "id": number,
            "text": text,
            "annotator": a,
            "annotation_id": number * 100 + a,
            "lead_time": 1.5,
        }
        | (
            {
                "label": [
                    {"start": s, "end": e, "text": text[s:e], "labels": ["Key"]} for s, e in spans
                ]
            }
            if spans
            else {}
        )
        for number, (text, highlights) in enumerate(rows)
        for a, spans in enumerate(highlights)
    ]


def prodigy(rows) -> list[dict]:
    """Sorted by annotators, as if they had worked one after the other."""
    found = [
        {
            "text": text,
            "_input_hash": hash(text),
            "tokens": [],
            "spans": [{"start": s, "end": e, "label": "Key", "token_start": 0} for s, e in spans],
            "answer": "accept",
            "_session_id": f"key-{a}",
            "_annotator_id": f"key-{a}",
        }
        for text, highlights in rows
        for a, spans in enumerate(highlights)
    ]
    return sorted(found, key=lambda row: row["_annotator_id"])


def plain(rows) -> list[dict]:
    return [{"text": text, "spans": highlights} for text, highlights in rows]


def load_rows(folder: Path, name: str, rows, **settings) -> list[dict]:
    path = folder / name
    content = "\n".join(map(json.dumps, rows)) if name.endswith("jsonl") else json.dumps(rows)
    path.write_text(content, encoding="utf-8")
    return load_story_salience(path, "train", cache_dir=str(folder / "cache"), **settings).to_list()


def write_table(path: Path, rows: list[dict], by_sentence: bool) -> Path:
    """Write loaded rows as a table, annotator by annotator or sentence by sentence."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["story_id", "annotator", "sentence", "label", "window"])
        for number, row in enumerate(rows):
            window_of = [w for w, (lo, hi) in enumerate(row["windows"]) for _ in range(lo, hi)]
            lines = [
                (i, [number, f"reader {a}", text, repr(labels[i]), f"w{window_of[i]}"])
                for a, labels in enumerate(row["annotations"])
                for i, text in enumerate(row["story"])
            ]
            table.writerows(
                line
                for _, line in (sorted(lines, key=lambda pair: pair[0]) if by_sentence else lines)
            )
    return path


@settings(max_examples=12, deadline=None)
@given(
    st.lists(texts, min_size=1, max_size=3, unique_by=lambda drawn: drawn[0]),
    st.booleans(),
    st.data(),
)
def test_all_formats_give_equal_labels(rows, by_sentence, data):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = load_rows(folder, "plain.jsonl", plain(rows))
        assert [row["labels"] for row in expected] == [
            columns(row, "labels")[0] for row in plain(rows)
        ]
        for made in [label_studio(rows), label_studio_min(rows), prodigy(rows)]:
            for suffix in ("json", "jsonl"):
                found = load_rows(folder, f"export.{suffix}", made)
                assert [row | {"id": ""} for row in found] == [row | {"id": ""} for row in expected]
        for row in expected:
            sizes = data.draw(window_sizes(len(row["story"])))
            ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
            row["windows"] = [[end - size, end] for size, end in zip(sizes, ends, strict=True)]
        table = write_table(folder / "table.csv", expected, by_sentence)
        found = load_story_salience(table, "train", cache_dir=name).to_list()
        assert found == [
            row | {"id": str(number), "story": s}
            for number, row in enumerate(expected)
            for s in [[text.strip() for text in row["story"]]]
        ]


def test_a_table_without_annotators(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(
        '\ufeffstory_id,title,sentence,label\nm,The Mill,"He said: ""Go,\nnow!""",0.25\nm,,It'
        " rained.,1\nn,,A.,0\n",
        encoding="utf-8",
    )
    first, second = load_story_salience(path, "train", cache_dir=str(tmp_path)).to_list()
    assert (first["id"], first["title"], first["story"]) == (
        "m",
        "The Mill",
        ['He said: "Go,\nnow!"', "It rained."],
    )
    assert (first["labels"], first["annotations"], first["windows"]) == ([0.25, 1], None, None)
    assert (second["id"], second["title"], second["labels"]) == ("n", None, [0])


# Annotation tools

KEY = {"start": 0, "end": 10, "label": "Key"}


def answer(annotator: str | None = "a", *spans: dict, **more) -> dict:
    return {
        "text": TEXT,
        "_input_hash": 3,
        "spans": list(spans),
        "answer": "accept",
        "_session_id": annotator,
    } | more


def test_answers_that_are_skipped_are_counted(tmp_path, caplog):
    rows = [
        answer("a", KEY),
        answer("b", answer="reject"),
        answer("c", answer="ignore"),
        answer("d", answer="ignore"),
    ]
    with caplog.at_level(logging.WARNING, "narrative_twins"):
        (found,) = load_rows(tmp_path, "rows.jsonl", rows)
    assert found["annotations"] == [[1, 0, 0]]
    assert "rows.jsonl: answers that were skipped: 1 reject, 2 ignore" in caplog.text
    tasks = label_studio([(TEXT, [[[0, 10]], [[11, 21]]]), (TEXT, [])])
    tasks[0]["annotations"][1]["was_cancelled"] = True
    with caplog.at_level(logging.WARNING, "narrative_twins"):
        (found,) = load_rows(tmp_path, "tasks.json", tasks)
    assert (found["id"], found["annotations"]) == ("0", [[1, 0, 0]])
    assert "tasks.json: answers that were skipped: 1 canceled, 1 without annotation" in caplog.text


def test_labels_that_mark_salient_text(tmp_path):
    rows = [answer("a", KEY, {"start": 11, "end": 21, "label": "Name"}), answer("b")]
    with pytest.raises(
        RowError,
        match=r"row 0 .*spans have the labels 'Key', 'Name'; name those .*span_labels=\['Key'",
    ):
        load_rows(tmp_path, "rows.jsonl", rows)
    for marks, labels in (
        ("Key", [0.5, 0, 0]),
        (["Key", "Name"], [0.5, 0.5, 0]),
        (("Name",), [0, 0.5, 0]),
    ):
        assert load_rows(tmp_path, "rows.jsonl", rows, span_labels=marks)[0]["labels"] == labels
    streamed = load_story_salience(
        tmp_path / "rows.jsonl", "train", span_labels="Name", streaming=True
    )
    assert [row["labels"] for row in streamed] == [[0, 0.5, 0]]
    with pytest.raises(RowError, match="no span has the label 'key'; the labels are 'Key', 'Name'"):
        load_rows(tmp_path, "rows.jsonl", rows, span_labels="key")
    with pytest.raises(RowError, match="span_labels= is for rows of annotation tools"):
        load_rows(tmp_path, "rows.jsonl", plain([(TEXT, [[[0, 10]]])]), span_labels="Key")


def test_columns_of_the_story_are_kept(tmp_path):
    given = {
        "title": "Mill",
        "sentences": ["Nadia ran. It rained.", "The mill burned."],
        "windows": [1, 1],
    }
    tasks = label_studio([(TEXT, [[[0, 10]]])])
    tasks[0]["data"] |= given
    for rows in (
        tasks,
        [answer("a", KEY, **given)],
        [label_studio_min([(TEXT, [[[0, 10]]])])[0] | given],
    ):
        (found,) = load_rows(tmp_path, "rows.jsonl", rows)
        assert (found["title"], found["story"], found["windows"]) == (
            "Mill",
            given["sentences"],
            [[0, 1], [1, 2]],
        )
        assert found["labels"] == [0.5, 0]


def test_offsets_are_checked_by_the_text_of_the_span(tmp_path):
    """Older versions of Label Studio count an emoji as two characters, and do not keep white
    space."""
    text = "\U0001f600 Nadia ran.\n\nIt  rained."
    tasks = label_studio([(text, [[[2, 12], [14, 25]]])])
    first, second = (result["value"] for result in tasks[0]["annotations"][0]["result"])
    second["text"] = r"It rained.\n"
    assert load_rows(tmp_path, "tasks.json", tasks)[0]["labels"] == [9 / 10, 1]
    for value in (first, second):
        value["start"] += 1
        value["end"] += 1
    assert load_rows(tmp_path, "tasks.json", tasks)[0]["labels"] == [9 / 10, 1]
    first["start"] += 1
    place = re.escape("'annotations[0].result[0].value.text' is 'Nadia ran.'")
    with pytest.raises(
        RowError, match=f"of 'text' is 'dia ran.*', but {place}; give the text that was annotated"
    ):
        load_rows(tmp_path, "tasks.json", tasks)


def test_answers_of_one_annotator(tmp_path):
    assert load_rows(tmp_path, "rows.jsonl", [answer("a", KEY), answer("a", KEY)])[0][
        "annotations"
    ] == [[1, 0, 0]]
    with pytest.raises(
        RowError, match=r"row 1 .*annotator 'a' has highlighted other spans of the same text"
    ):
        load_rows(tmp_path, "rows.jsonl", [answer("a", KEY), answer("a")])
    with pytest.raises(
        RowError, match=r"row 1 .*there are no annotators; name them by '_annotator_id'"
    ):
        load_rows(tmp_path, "rows.jsonl", [answer(None, KEY), answer(None, KEY)])


def test_a_format_that_is_not_clear_can_be_named(tmp_path):
    row = answer("a", KEY, story=STORY, choices=[2])
    with pytest.raises(
        RowError, match="columns of the formats prodigy and plain; name the format by row_format="
    ):
        load_rows(tmp_path, "rows.jsonl", [row])
    assert load_rows(tmp_path, "rows.jsonl", [row], row_format="prodigy")[0]["labels"] == [1, 0, 0]
    del row["spans"]
    assert load_rows(tmp_path, "rows.jsonl", [row], row_format="plain")[0]["labels"] == [0, 1, 0]
    with pytest.raises(
        ValueError, match="row_format='doccano' is unknown; use 'auto', 'plain', 'label-studio'"
    ):
        load_story_salience(tmp_path / "rows.jsonl", row_format="doccano")


# Errors


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"labels": [1, 0]}, r"'labels' has 2 number\(s\) for 3 sentence"),
        ({"labels": [1, "0", 0]}, "'labels' has '0' for sentence 1; a finite number"),
        ({"labels": [1, 0, float("nan")]}, "'labels' has nan for sentence 2"),
        ({"labels": [10**400, 0, 0]}, "for sentence 0; a finite number"),
        ({"labels": 3}, "'labels' is int; a list of numbers"),
        ({"annotations": [[1, 0, 0], [1, 0]]}, r"'annotations\[1\]' has 2 number\(s\)"),
        ({"annotations": [1, 0, 0]}, r"'annotations\[0\]' is int"),
        ({"annotations": []}, "'annotations' is empty"),
        (
            {"annotations": [[1, 0, 0]], "labels": [1, 0, 1]},
            "'labels' has 1 for sentence 2, but the other columns give 0",
        ),
        (
            {"choices": [1], "annotations": [[0, 1, 0]]},
            r"'annotations\[0\]' has 0 for sentence 0, but .* remove 'annot",
        ),
        (
            {"choices": [1], "annotations": [[1, 0, 0]] * 2},
            r"'annotations' is of 2 annotator\(s\), and there are 1",
        ),
        (
            {"choices": [1], "text": TEXT, "spans": [[0, 1]]},
            "has both 'choices' and 'spans'; remove",
        ),
        ({"choices": [[1], [4]]}, r"'choices\[1\]' has 4; whole numbers from 1 to 3"),
        ({"choices": ["9" * 5000]}, "'choices' has '999"),
        ({"choices": 0}, "'choices' has 0"),
        ({"choices": True}, "'choices' is bool"),
        ({"turning_points": [3]}, "'turning_points' has 3; whole numbers from 0 to 2"),
        (
            {"labels": [1, 0, 0], "windows": [[0, 2]]},
            "'windows': windows=.* does not partition the 3 sentence",
        ),
        ({"spans": [[0, 1]]}, "no column 'text'"),
        ({"text": 3, "spans": [[0, 1]]}, "'text' is int"),
        (
            {"text": "Nadia ran.", "spans": [[0, 1]]},
            r"'text': sentence 1 \('It rained.'\) is not in the text",
        ),
        (
            {"text": TEXT, "spans": [[0, 3], [4, 4]]},
            r"'spans\[1\]' = \[4, 4\] is empty; .* or remove the span",
        ),
        (
            {"text": TEXT, "spans": [[[0, 3]], [[7, 4]]]},
            r"'spans\[1\]\[0\]' = \[7, 4\] is reversed",
        ),
        (
            {"text": TEXT, "highlights": [[30, 40]]},
            r"'highlights\[0\]' = \[30, 40\] is outside of 'text', which has 39",
        ),
        ({"text": TEXT, "spans": [[-1, 3]]}, "is outside of 'text'"),
        ({"text": TEXT, "spans": [[0, 3, "Key"]]}, r"is not \[start, end\], two whole numbers"),
        ({"text": TEXT, "spans": [[0.0, 3]]}, r"is not \[start, end\]"),
        ({"text": TEXT, "spans": [KEY]}, r"'spans\[0\]' = .* name it by row_format="),
        ({"text": TEXT, "spans": "all"}, "'spans' is str"),
    ],
)
def test_invalid_labels(row, message):
    with pytest.raises(RowError, match=f"^here: .*{message}"):
        story_salience({"story": STORY} | row, "here")


TASK = label_studio([(TEXT, [[[0, 10]]])])[0]


def task(**value) -> dict:
    """A task of Label Studio with another value of its single span."""
    result = TASK["annotations"][0]["result"][0]
    return TASK | {"annotations": [{"result": [result | {"value": result["value"] | value}]}]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            task(end=50, text=None),
            r"row 0.*'annotations\[0\].result\[0\].value' = \[0, 50\] is outside of 'text'",
        ),
        (task(start=10), r"\[10, 10\]"),
        (task(start="/div[1]", text=None), r"is not \[start, end\]"),
        (task(labels=[3]), r"has the labels \[3\]; strings"),
        (
            TASK | {"data": {"story": TEXT}},
            "no text in 'data.text'; rename the column .*found: 'story'",
        ),
        (TASK | {"annotations": [*TASK["annotations"], 3]}, r"'annotations\[1\]' is int"),
        (
            TASK | {"annotations": [{"result": [{"type": "hypertextlabels"}]}]},
            "only Labels of a Text tag",
        ),
        (
            TASK | {"annotations": [{"result": [{"type": "choices"}]}]},
            "nothing is highlighted; export",
        ),
        (TASK | {"annotations": []}, r"nothing is highlighted \(skipped: 1 without annotation\)"),
        (answer("a", KEY, answer="maybe"), r"row 0.*'answer' is 'maybe'"),
        (answer("a", KEY, text=None), "no text in 'text'"),
        (answer("a", KEY, 3), r"'spans\[1\]' is int; an object"),
        (answer("a", [0, 3]), r"columns of the formats prodigy and plain"),
        (answer("a", KEY, _session_id=[3]), "'_session_id' is list"),
        (
            {"text": TEXT, "_input_hash": 3, "answer": "accept", "options": []},
            "has options instead of 'spans'",
        ),
        (answer("a"), "nothing is highlighted"),
    ],
)
def test_invalid_exports(tmp_path, row, message):
    with pytest.raises(RowError, match=f"rows.jsonl.*{message}"):
        load_rows(tmp_path, "rows.jsonl", [row])


def test_answers_to_different_stories_with_the_same_id(tmp_path):
    first, second = label_studio_min([(TEXT, [[[0, 10]], [[0, 3]]])])
    with pytest.raises(
        RowError, match=r"rows.json, row 1, id 0: 'text' differs from that of .*row 0"
    ):
        load_rows(tmp_path, "rows.json", [first, second | {"text": "Nadia fell."}])


HEADER = "story_id,sentence,label,annotator,window\n"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "m,A.,1\nm,B.,\n",
            r"row 1 \(line 3\): 'label' is empty; each row needs story_id, sentence, label",
        ),
        ("m,A.,1\n,B.,1\n", "row 1 .*'story_id' is empty"),
        ("m,A.,high\n", "row 0 .*'label' is 'high'; a finite number"),
        ("m,A.,nan\n", "row 0 .*'label' is 'nan'"),
        (
            "m,A.,1\nn,B.,1\nm,C.,1\n",
            r"row 2 \(line 4\): story 'm' has rows further above; put the rows .* together",
        ),
        (
            "m,A.,1,a\nm,B.,1,b\n",
            "row 1 .*annotator 'b' has 'B.' in window '', and 'a' 'A.' in window ''",
        ),
        ("m,A.,1,a\nm,B.,1,a\nm,A.,1,b\n", r"row 2 .*annotator 'b' has 1 sentence\(s\), and 'a' 2"),
        ("m,A.,1,a\nm,A.,1,\n", "row 1 .*'annotator' is empty, but not in all rows"),
        ("m,A.,1,,x\nm,B.,1,,\n", "row 1 .*'window' is empty, but not in all rows"),
        ("m,A.,1,,x\nm,B.,1,,y\nm,C.,0,,x\n", "row 2 .*window 'x' has sentences further above"),
    ],
)
def test_invalid_tables(tmp_path, table, message):
    path = tmp_path / "table.csv"
    path.write_text(HEADER + table)
    with pytest.raises(RowError, match=f"table.csv, {message}"):
        load_story_salience(path, cache_dir=str(tmp_path))


def test_tables_with_other_columns(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("story_id;sentence;label\nm;A.;1\n")
    with pytest.raises(
        RowError,
        match="the columns are 'story_id;sentence;label'; a .csv must .* separated by commas",
    ):
        load_story_salience(path, cache_dir=str(tmp_path))


# Any JSON

PLAIN = [{"story": STORY, "windows": [1, 2], **form} for form in FORMS]
EXPORTS = [
    *label_studio([(TEXT, [[[0, 10]], [[3, 12]]])]),
    *label_studio_min([(TEXT, [[[0, 10]]])]),
    answer("a", KEY),
]


def read_file(rows: list[dict]) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        path.write_text(json.dumps(rows))
        return [story_salience(record.row, record.where) for record in salience_records(str(path))]


def test_rows_that_are_mutated_are_valid():
    assert all(story_salience(row, "here") for row in PLAIN) and all(
        read_file([row]) for row in EXPORTS
    )


@settings(max_examples=400)
@given(ROWS | mutations(PLAIN))
def test_any_row_is_read_or_refused(row):
    try:
        found = story_salience(row, "here")
    except RowError as error:
        assert error.where == "here" and len(str(error)) < 2000
    else:
        assert found["labels"] is None or len(found["labels"]) == len(found["story"])


@settings(max_examples=300)
@given(st.sampled_from(EXPORTS), mutations(EXPORTS) | ROWS)
def test_any_export_is_read_or_refused(first, second):
    for rows in ([second], [first, second]):
        try:
            read_file(rows)
        except RowError as error:
            assert "rows.json" in error.where and len(str(error)) < 2000
