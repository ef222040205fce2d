"""Human labels in every form: votes, grades, selected sentences, turning points and highlights, in
rows, tables and files of answers."""

import pytest
from data.conftest import write

from narrative_twins.data import RowError, load_story_salience, load_story_twins
from narrative_twins.data.labels import salience_records, story_salience
from narrative_twins.data.loading import StorySalienceBuilder

STORY = ["Nadia ran.", "It rained.", "The mill burned."]
TEXT = "Nadia ran. It rained.\n\nThe mill burned."
SELECTED = [[1 / 3, 0, 2 / 3], [[1, 0, 1], [0, 0, 1], [0, 0, 0]]]
GRADES = [[1, 0, 5], [2, 0, 4]]
# "ran. It" has 4 of 9 and 2 of 9 visible characters; the second annotator marked a sentence twice,
# and white space.
TWO = [[[6, 13]], [[11, 21], [14, 20], [21, 23]]]
SHARES = [[4 / 9, 2 / 9, 0], [0, 1, 0]]


FORMS = [
    ({"most_important": 2}, [0, 1, 0], [[0, 1, 0]], [2], [0, 1, 0]),
    ({"choices": ["2"]}, [0, 1, 0], [[0, 1, 0]], [2], [0, 1, 0]),
    ({"choices": [[1, 3], ["3", 3], []]}, *SELECTED, None, None),
    ({"choices": []}, None, None, [], [0, 0, 0]),
    ({"votes": [0, 1, 3]}, [0, 0.25, 0.75], None, None, [0, 1, 3]),
    ({"labels": [1, 0.25, -2.5]}, [1, 0.25, -2.5], None, None, None),
    ({"labels": [True, False, False]}, [1, 0, 0], None, None, None),
    ({"annotations": GRADES}, [1.5, 0, 4.5], GRADES, None, None),
    ({"turning_points": [0, "2"]}, [1, 0, 1], None, None, None),
    ({"text": TEXT, "spans": TWO}, [2 / 9, 11 / 18, 0], SHARES, None, None),
    ({"text": TEXT, "highlights": [[6, 13]]}, SHARES[0], SHARES[:1], None, None),
    ({"text": TEXT, "spans": []}, [0, 0, 0], [[0, 0, 0]], None, None),
    ({"summary": "The mill burned."}, None, None, None, None),
]


@pytest.mark.parametrize(("row", "labels", "annotations", "choices", "counts"), FORMS)
def test_forms_of_labels(row, labels, annotations, choices, counts):
    found = story_salience({"story": STORY, "storytitle": "Mill"} | row, "here")
    assert found == {
        "title": "Mill",
        "story": STORY,
        "windows": None,
        "labels": labels and pytest.approx(labels),
        "annotations": annotations,
        "choices": choices,
        "counts": counts,
        "summaries": [row["summary"]] if "summary" in row else None,
    }


def test_loaded_rows_can_be_saved_and_loaded(cached, tmp_path):
    # Votes are saved as labels and `counts`, which is no column of labels.
    forms = [form for form, *_ in FORMS if "votes" not in form]
    rows = [{"story": STORY, "windows": [1, 2], "title": "Mill", **form} for form in forms]
    load = cached(load_story_salience)
    found = load(write(tmp_path / "first.json", rows), "train")
    assert found.features == StorySalienceBuilder.FEATURES
    path = write(tmp_path / "rows.parquet", found.to_list(), found.features)
    assert load(path, "train").to_list() == found.to_list()
    assert list(load(path, "train", streaming=True)) == found.to_list()


def test_votes_of_the_package_are_labels():
    twins = load_story_twins(split="validation")
    both = load_story_salience(split="validation", distractors=True)
    assert both["story"][::2] == twins["story"] and both["counts"][::2] == twins["story_votes"]
    assert both["counts"][1::2] == twins["negative_votes"]
    assert both[0]["labels"] == [count / 10 for count in both[0]["counts"]]
    assert both[1]["id"] == f"{both[0]['id']}-negative"


# Tables and files of answers


@pytest.mark.parametrize("step", [1, 3], ids=["by annotator", "by sentence"])
def test_tables_give_the_labels_of_plain_rows(tmp_path, step):
    lines = [
        f"m,{annotator},{text},{label},w{window}"
        for annotator, labels in enumerate(GRADES)
        for text, label, window in zip(STORY, labels, [0, 1, 1], strict=True)
    ]
    lines = [line for start in range(step) for line in lines[start::step]]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["story_id,annotator,sentence,label,window", *lines]))
    (record,) = salience_records(str(path))
    row = story_salience(record.row, "here")
    assert row["annotations"] == GRADES and row["windows"] == [[0, 1], [1, 3]]


def test_a_table_without_annotators(cached, tmp_path):
    path = tmp_path / "table.csv"
    rows = 'm,The Mill,"He said: ""Go,\nnow!""",0.25\nm,,It rained.,1\nn,,A.,0\n'
    path.write_text(f"\ufeffstory_id,title,sentence,label\n{rows}", encoding="utf-8")
    first, second = cached(load_story_salience)(path, "train").to_list()
    assert (first["id"], first["title"]) == ("m", "The Mill")
    assert first["story"] == ['He said: "Go,\nnow!"', "It rained."]
    assert (first["labels"], first["annotations"], first["windows"]) == ([0.25, 1], None, None)
    assert (second["id"], second["title"], second["labels"]) == ("n", "", [0])


def answer(annotator: str, choice: int | None, **more) -> dict:
    """A row as `narrative-twins annotate` writes it."""
    return {"id": "m", "annotator": annotator, "story": STORY, "choice": choice} | more


def test_a_table_is_sorted_by_the_number_of_each_sentence(tmp_path):
    rows = [
        ("a", 3, "C.", 1),
        ("b", 10, "E.", 1),
        ("a", 1, "A.", 0),
        ("a", 2, "B.", 0),
        ("b", 2, "D.", 0),
    ]
    for name in ("sentence_id", "Sentence Number", "position"):
        lines = [f"{story},{number},{sentence},{label}" for story, number, sentence, label in rows]
        path = tmp_path / "labels.csv"
        path.write_text("\n".join([f"story_id,{name},sentence,label", *lines]))
        read = [
            (record.id, story_salience(record.row, "")) for record in salience_records(str(path))
        ]
        assert [(id, row["story"], row["labels"]) for id, row in read] == [
            ("a", ["A.", "B.", "C."], [0, 0, 1]),
            ("b", ["D.", "E."], [0, 1]),
        ]
    columns = ("story_id", "position", "sentence", "label")
    json_rows = write(
        tmp_path / "labels.jsonl", [dict(zip(columns, row, strict=True)) for row in rows]
    )
    assert [row.row for row in salience_records(str(json_rows))] == [
        record.row for record in salience_records(str(path))
    ]
    by_annotator = [f"{who},{line}" for who in ("Ada", "Ben") for line in lines]
    path.write_text("\n".join(["annotator,story_id,sentence_id,sentence,label", *by_annotator]))
    (a, _) = (record.row for record in salience_records(str(path)))
    assert a["story"] == ["A.", "B.", "C."] and a["annotations"] == [[0, 0, 1]] * 2
    for number, problem in (
        ("", "nothing in the column 'sentence_id'"),
        (3, "the same value, '3'"),
    ):
        path.write_text(
            f"story_id,sentence_id,sentence,label\na,3,C.,1\na,{number},A.,0\na,1,B.,0\n"
        )
        with pytest.raises(RowError, match=f"line 3.*{problem}"):
            list(salience_records(str(path)))


def test_answers_to_a_story_are_one_row(cached, tmp_path):
    rows = [answer("a", 1), answer("b", 3), answer("c", 3, id="n"), answer("a", 1)]
    path = write(tmp_path / "choices.jsonl", rows)
    first, second = cached(load_story_salience)(path, "train").to_list()
    assert (first["id"], first["choices"], first["labels"]) == ("m", [1, 3], [0.5, 0, 0.5])
    assert (second["id"], second["choices"], second["summaries"]) == ("n", [3], None)
    rows = [answer("a", 1, summary="She ran."), answer("b", 1, summary="A fire.")]
    (record,) = salience_records(write(tmp_path / "summed_up.jsonl", rows))
    assert record.row["summaries"] == ["She ran.", "A fire."]


def test_columns_of_the_story_are_kept():
    sentences = ["Nadia ran. It rained.", "The mill burned."]
    row = {"title": "Mill", "sentences": sentences, "windows": [1, 1], "text": TEXT}
    found = story_salience(row | {"spans": [[0, 10]]}, "here")
    assert (found["title"], found["story"]) == ("Mill", sentences)
    assert (found["windows"], found["labels"]) == ([[0, 1], [1, 2]], [0.5, 0])


# Errors


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "no column 'choices' .*'most_important'"),
        ({"summary": ""}, "'summaries': sentence 0 is empty"),
        ({"labels": [1, 0]}, r"'labels' has 2 numbers for 3 sentence"),
        ({"labels": [1, 0, float("nan")]}, "'labels' has nan for sentence 2"),
        ({"labels": [1, 0, 1e308]}, r"'labels' has 1e\+308 for sentence 2; .* at most 1e\+30"),
        ({"annotations": [[1, 0, 0], [1, 0]]}, r"'annotations\[1\]' has 2 numbers for 3"),
        ({"annotations": []}, "'annotations' is empty"),
        ({"choices": [[1], [4]]}, r"'choices\[1\]' has 4; whole numbers from 1 to 3"),
        ({"choices": 0}, "'choices' has 0; whole numbers from 1 to 3"),
        ({"turning_points": [3]}, "'turning_points' has 3; whole numbers from 0 to 2"),
        ({"labels": [1, 0, 0], "windows": [[0, 2]]}, "'windows': .* does not partition the 3"),
        ({"spans": [[0, 1]]}, "no column 'text'"),
        ({"text": 3, "spans": [[0, 1]]}, "'text' is int"),
        ({"text": "Nadia ran.", "spans": [[0, 1]]}, r"'text': sentence 1 .* is not in the text"),
        ({"text": TEXT, "spans": [[0, 3], [4, 4]]}, r"'spans\[1\]' = \[4, 4\] is not a range"),
        ({"text": TEXT, "highlights": [[30, 40]]}, "is not a range .* of the 39 characters of 'te"),
        ({"text": TEXT, "spans": [{"start": 0, "stops": 10}]}, r"'spans\[0\]' = .* not a range"),
        (
            {"text": TEXT, "spans": [[0, 5, "KEY", "Omar"]]},
            "of the text 'Omar', but its range has 'Na",
        ),
        (
            {"text": TEXT, "spans": [[0, 5]], "answer": "ignore"},
            "answered 'ignore' in Prodigy; keep",
        ),
    ],
)
def test_invalid_labels(row, message):
    with pytest.raises(RowError, match=f"^here: .*{message}"):
        story_salience({"story": STORY} | row, "here")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (answer("a", 2), "is a second answer of annotator 'a' to a story; remove one"),
        (answer("b", 1, title="Mill"), "is another story than .*line 1, id 'm'; give it an id"),
        (answer("b", None), "no column 'choice'"),
    ],
)
def test_invalid_answers(tmp_path, row, message):
    with pytest.raises(RowError, match=f"line 2, .*{message}"):
        list(salience_records(write(tmp_path / "choices.jsonl", [answer("a", 1), row])))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("m,A.,1\nm,B.,\n", r"line 3: an empty cell; each row needs story_id, sentence"),
        ("m,A.,high\n", r"line 2.*'label' is 'high'; a finite number"),
        ("m,A.,1\nn,B.,1\nm,C.,1\n", r"line 4: story 'm' has rows further above; put"),
        ("m,A.,1,a\nm,B.,1,b\n", "line 2.*the annotators of story 'm' have different sentences"),
        ("m,A.,1,,x\nm,B.,1,,\n", "line 2.*the windows of the story are 'x', ''; give each row"),
        ("m,A.,1,,x\nm,B.,1,,y\nm,C.,0,,x\n", "line 2.*the windows of the story are 'x', 'y', 'x'"),
    ],
)
def test_invalid_tables(tmp_path, table, message):
    path = tmp_path / "table.csv"
    path.write_text(f"story_id,sentence,label,annotator,window\n{table}")
    with pytest.raises(RowError, match=f"table.csv, {message}"):
        list(salience_records(str(path)))
