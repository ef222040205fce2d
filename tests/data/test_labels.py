"""Human labels in every form: votes, grades, selected sentences, turning points and highlights, in
plain rows, tables and exports of annotation tools."""

from pathlib import Path

import pytest
from data.conftest import write

from narrative_twins.data import RowError, exports, load_story_salience, load_story_twins
from narrative_twins.data.exports import AnnotationTool, Answer, salience_records
from narrative_twins.data.labels import story_salience
from narrative_twins.data.loading import StorySalienceBuilder

STORY = ["Nadia ran.", "It rained.", "The mill burned."]
TEXT = "Nadia ran. It rained.\n\nThe mill burned."
SELECTED = [[1 / 3, 0, 2 / 3], [[1, 0, 1], [0, 0, 1], [0, 0, 0]]]
GRADES = [[1, 0, 5], [2, 0, 4]]
# "ran. It" has 4 of 9 and 2 of 9 visible characters; the second annotator marked a sentence twice,
# and white space.
TWO = [[[6, 13]], [[11, 21], [14, 20], [21, 23]]]
SHARES = [[4 / 9, 2 / 9, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("row", "labels", "annotations", "choices", "counts"),
    [
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
    ],
)
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


FORMS = [
    {"choices": [1, 3, 3]},
    {"choices": [[1, 2], [3]]},
    {"labels": [0.5, 2, 1]},
    {"annotations": [[0.1, 0.2, 0.3], [0.7, 0, 0]]},
    {"turning_points": [1]},
    {"text": TEXT, "spans": [[[0, 7]], [[3, 22]]]},
    {"summaries": ["The mill burned."]},
]


def test_loaded_rows_can_be_saved_and_loaded(cached, tmp_path):
    rows = [{"story": STORY, "windows": [1, 2], "title": "Mill", **form} for form in FORMS]
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


# The same annotations in several formats


def label_studio(rows) -> list[dict]:
    def result(text: str, start: int, end: int) -> dict:
        value = {"start": start, "end": end, "text": text[start:end], "labels": ["Key"]}
        return {"value": value, "id": "x", "from_name": "label", "type": "labels"}

    return [
        {
            "id": number,
            "data": {"text": text, "meta": 3},
            "annotations": [
                {"id": a, "was_cancelled": False, "result": [result(text, *s) for s in spans]}
                for a, spans in enumerate(highlights)
            ],
        }
        for number, (text, highlights) in enumerate(rows)
    ]


def prodigy(rows) -> list[dict]:
    """Sorted by annotators, as if they had worked one after the other."""
    found = [
        answer(f"key-{a}", *({"start": s, "end": e, "label": "Key"} for s, e in spans), text=text)
        for text, highlights in rows
        for a, spans in enumerate(highlights)
    ]
    return sorted(found, key=lambda row: row["_session_id"])


def answer(annotator: str | None = "a", *spans: dict, **more) -> dict:
    """A row of Prodigy."""
    row = {"text": TEXT, "_input_hash": 3, "spans": list(spans), "answer": "accept"}
    return row | {"_session_id": annotator} | more


def plain(rows) -> list[dict]:
    return [{"text": text, "spans": highlights} for text, highlights in rows]


def read(folder: Path, name: str, rows, **settings) -> list[dict]:
    """The rows of a file, converted."""
    records = salience_records(write(folder / name, rows), **settings)
    return [story_salience(record.row, record.where) | {"id": record.id} for record in records]


MARKED = [(TEXT, TWO), ("\ufeffA. \U0001f600 B.", [[[0, 3]], [[3, 7]], []])]


@pytest.mark.parametrize("made", [label_studio, prodigy])
@pytest.mark.parametrize("name", ["export.json", "export.jsonl"])
def test_exports_of_tools_give_the_labels_of_plain_rows(tmp_path, made, name):
    expected, found = (
        read(tmp_path, "plain.jsonl", plain(MARKED)),
        read(tmp_path, name, made(MARKED)),
    )
    assert expected[0]["annotations"] == SHARES
    assert [row | {"id": ""} for row in found] == [row | {"id": ""} for row in expected]


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
    path.write_text(
        '\ufeffstory_id,title,sentence,label\nm,The Mill,"He said: ""Go,\nnow!""",0.25\n'
        "m,,It rained.,1\nn,,A.,0\n",
        encoding="utf-8",
    )
    first, second = cached(load_story_salience)(path, "train").to_list()
    assert (first["id"], first["title"]) == ("m", "The Mill")
    assert first["story"] == ['He said: "Go,\nnow!"', "It rained."]
    assert (first["labels"], first["annotations"], first["windows"]) == ([0.25, 1], None, None)
    assert (second["id"], second["title"], second["labels"]) == ("n", "", [0])


# Annotation tools

KEY = {"start": 0, "end": 10, "label": "Key"}
NAME = {"start": 11, "end": 21, "label": "Name"}


def test_answers_that_are_skipped_are_counted(tmp_path, warnings):
    rows = [answer("a", KEY), answer("b", answer="reject"), answer("c", answer="ignore")]
    (found,) = read(tmp_path, "rows.jsonl", rows)
    assert found["annotations"] == [[1, 0, 0]]
    assert "rows.jsonl: answers that were skipped: 1 reject, 1 ignore" in warnings()[0]
    tasks = label_studio([(TEXT, [[[0, 10]], [[11, 21]]]), (TEXT, [])])
    tasks[0]["annotations"][1]["was_cancelled"] = True
    (found,) = read(tmp_path, "tasks.json", tasks)
    assert (found["id"], found["annotations"]) == ("0", [[1, 0, 0]])
    assert "skipped: 1 canceled, 1 without annotation" in warnings()[0]


def test_labels_that_mark_salient_text(cached, tmp_path):
    path = write(tmp_path / "rows.jsonl", [answer("a", KEY, NAME), answer("b")])
    load = cached(load_story_salience)
    halves = {"Key": [0.5, 0, 0], "Name": [0, 0.5, 0]}
    for marks, labels in (*halves.items(), (["Key", "Name"], [0.5, 0.5, 0])):
        assert load(path, "train", span_labels=marks)[0]["labels"] == labels
    plain_rows = write(tmp_path / "plain.json", plain([(TEXT, [[[0, 10]]])]))
    for source, options, problem in (
        (path, {}, "rows.jsonl: the labels of spans are 'Key', 'Name'; name those"),
        (path, {"span_labels": "key"}, "the labels of spans are 'Key', 'Name'"),
        (path, {"row_format": "x"}, "row_format='x' is unknown; use auto, plain, label"),
        (plain_rows, {"span_labels": "Key"}, "span_labels= is for rows of annotation tools"),
    ):
        with pytest.raises(ValueError, match=problem):
            load(source, **options)


def test_columns_of_the_story_are_kept(tmp_path):
    sentences = ["Nadia ran. It rained.", "The mill burned."]
    given = {"title": "Mill", "sentences": sentences, "windows": [1, 1]}
    (task,) = label_studio([(TEXT, [[[0, 10]]])])
    task["data"] |= given
    raw = given | {"text": TEXT, "spans": [[0, 10]]}
    for exported in (raw, task, answer("a", KEY, **given)):
        (found,) = read(tmp_path, "rows.jsonl", [exported])
        assert (found["title"], found["story"]) == ("Mill", sentences)
        assert (found["windows"], found["labels"]) == ([[0, 1], [1, 2]], [0.5, 0])


def test_offsets_are_checked_by_the_text_of_the_span(tmp_path):
    """Label Studio does not always keep white space."""
    (task,) = label_studio([("Nadia ran.\n\nIt  rained.", [[[0, 10], [12, 23]]])])
    first, second = (result["value"] for result in task["annotations"][0]["result"])
    second["text"] = r"It rained.\n"
    assert read(tmp_path, "tasks.json", [task])[0]["labels"] == [1, 1]
    first["start"] += 2
    with pytest.raises(RowError, match="'dia ran.', but its own text is 'Nadia ran.'; give the"):
        read(tmp_path, "tasks.json", [task])


def test_several_answers_of_one_annotator(tmp_path):
    (found,) = read(tmp_path, "rows.jsonl", [answer("a", KEY), answer("a", KEY)])
    assert found["annotations"] == [[1, 0, 0]]
    for annotator, spans in (("a", []), (None, [KEY])):
        rows = [answer(annotator, KEY), answer(annotator, *spans)]
        with pytest.raises(RowError, match=r"line 2.*is a second answer .* by '_annotator_id'\)"):
            read(tmp_path, "rows.jsonl", rows)
    rows = [answer("a", KEY, title="Mill"), answer("b", KEY)]
    with pytest.raises(
        RowError, match="line 2, .* another story than .*line 1, .* differs .* title"
    ):
        read(tmp_path, "rows.jsonl", rows)


def test_a_format_can_be_named(tmp_path):
    row = answer("a", KEY, story=STORY, choices=[2])
    for row_format, labels in (("auto", [1, 0, 0]), ("prodigy", [1, 0, 0]), ("plain", [0, 1, 0])):
        if row_format == "plain":
            del row["spans"]
        assert read(tmp_path, "rows.jsonl", [row], row_format=row_format)[0]["labels"] == labels


def test_another_tool_is_one_record(cached, tmp_path, monkeypatch):
    def answers(record, skipped):
        marks = [{"start": s, "end": e, "label": "Key"} for s, e, *_ in record.row["label"]]
        yield Answer(record.row["text"], "reader", record.row, marks)

    tool = AnnotationTool(lambda row: "label" in row, answers)
    monkeypatch.setitem(exports.TOOLS, "doccano", tool)
    path = write(tmp_path / "rows.jsonl", [{"text": TEXT, "label": [[0, 10, "Key"]]}])
    for row_format in ("auto", "doccano"):
        (row,) = cached(load_story_salience)(path, "train", row_format=row_format)
        assert row["labels"] == [1, 0, 0]


# Errors


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "no column 'choices' .*'most_important'"),
        ({"summary": ""}, "'summaries': sentence 0 is empty"),
        ({"labels": [1, 0]}, r"'labels' has 2 numbers for 3 sentence"),
        ({"labels": [1, "0", 0]}, "'labels' has '0' for sentence 1; a finite number"),
        ({"labels": [1, 0, float("nan")]}, "'labels' has nan for sentence 2"),
        ({"labels": [1, 0, 1e308]}, r"'labels' has 1e\+308 for sentence 2; .* at most 1e\+30"),
        ({"annotations": [[1, 0, 0], [1, 0]]}, r"'annotations\[1\]' has 2 numbers for 3"),
        ({"annotations": []}, "'annotations' is empty"),
        ({"choices": [[1], [4]]}, r"'choices\[1\]' has 4; whole numbers from 1 to 3"),
        ({"choices": ["9" * 5000]}, "'choices' has '999"),
        ({"choices": 0}, "'choices' has 0; whole numbers from 1 to 3"),
        ({"turning_points": [3]}, "'turning_points' has 3; whole numbers from 0 to 2"),
        ({"labels": [1, 0, 0], "windows": [[0, 2]]}, "'windows': .* does not partition the 3"),
        ({"spans": [[0, 1]]}, "no column 'text'"),
        ({"text": 3, "spans": [[0, 1]]}, "'text' is int"),
        ({"text": "Nadia ran.", "spans": [[0, 1]]}, r"'text': sentence 1 .* is not in the text"),
        ({"text": TEXT, "spans": [[0, 3], [4, 4]]}, r"'spans\[1\]' = \[4, 4\] is not a range"),
        ({"text": TEXT, "spans": [[[0, 3]], [[7, 4]]]}, r"= \[7, 4\] is not a range"),
        (
            {"text": TEXT, "highlights": [[30, 40]]},
            r"is not a range .* of the 39 characters of 'text",
        ),
        ({"text": TEXT, "spans": [[0.0, 3]]}, "is not a range"),
        ({"text": TEXT, "spans": [KEY]}, r"'spans\[0\]' = .* name it by row_format="),
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
        (task(end=50, text=None), r"\[0, 50\] is not a range"),
        (task(start="/div[1]", text=None), "is not a range"),
        (TASK | {"data": {"story": TEXT}}, "format label-studio .* must be called 'text'"),
        (TASK | {"annotations": [{"result": 3}]}, r"not in the format label-studio \(TypeError"),
        (TASK | {"annotations": []}, r"nothing is highlighted \(skipped: 1 without annotation\)"),
        (answer("a", KEY, text=None), "is not in the format prodigy"),
        (answer("a", KEY, 3), "is not in the format prodigy"),
        (answer("a", [0, 3]), "is not in the format prodigy"),
        ({"text": TEXT, "answer": "accept", "options": []}, "nothing is highlighted"),
    ],
)
def test_invalid_exports(tmp_path, row, message):
    with pytest.raises(RowError, match=f"rows.jsonl.*{message}"):
        read(tmp_path, "rows.jsonl", [row])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("m,A.,1\nm,B.,\n", r"line 3: an empty cell; each row needs story_id, sentence"),
        ("m,A.,high\n", r"line 2.*'label' is 'high'; a finite number"),
        ("m,A.,nan\n", "line 2.*'label' is 'nan'"),
        ("m,A.,1\nn,B.,1\nm,C.,1\n", r"line 4: story 'm' has rows further above; put"),
        ("m,A.,1,a\nm,B.,1,b\n", "line 2.*the annotators of story 'm' have different sentences"),
        ("m,A.,1,a\nm,B.,1,a\nm,A.,1,b\n", "line 2.*the annotators of story 'm' have different"),
        ("m,A.,1,,x\nm,B.,1,,\n", "line 2.*the windows of the story are 'x', ''; give each row"),
        ("m,A.,1,,x\nm,B.,1,,y\nm,C.,0,,x\n", "line 2.*the windows of the story are 'x', 'y', 'x'"),
    ],
)
def test_invalid_tables(tmp_path, table, message):
    path = tmp_path / "table.csv"
    path.write_text(f"story_id,sentence,label,annotator,window\n{table}")
    with pytest.raises(RowError, match=f"table.csv, {message}"):
        list(salience_records(str(path)))
