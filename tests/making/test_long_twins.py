"""Long twins from works: filters, draws, counts, and the files that works are read from."""

from __future__ import annotations

import gzip
import json
import random
import re
import zipfile
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.data import RowError, check_twins_row
from narrative_twins.making.long_twins import Filters, LongTwins
from narrative_twins.making.works import Candidate, Work, read_documents, read_works
from narrative_twins.stories.reading import Document

EVENTS = 40


def embed(sentences):
    """Sentences of the same event have the same vector, those of neighboring events similar
    ones."""
    events = np.array([int(re.search(r"\d+", sentence)[0]) for sentence in sentences])
    return np.exp(-((events[:, None] - np.arange(EVENTS)) ** 2) / 2)


def telling(events, words="happens"):
    return [f"Event {event} {words}." for event in events]


def work(name, story, *candidates):
    return Work(name, None, telling(story), list(candidates))


EVEN = Candidate(telling(range(20), "took place"))
FILTERS = Filters(min_sentences=10, max_difference=6, min_window=2)
MAKE = partial(LongTwins, embed, windows=3, filters=FILTERS)


def test_row():
    row = MAKE().row(work("w", range(12), Candidate(telling(range(10), "took place"), "de", 0.3)))
    check_twins_row(row, "row")
    assert [len(window) for window in row["story"]] == [4, 4, 4]
    assert row["twin"][0] == "Event 0 took place."
    for sentence, windows in zip(row["twin"], row["twin_windows"], strict=True):
        event = int(re.search(r"\d+", sentence)[0])
        # Its own window, and perhaps an adjacent one.
        assert event // 4 in windows and set(windows) <= {
            event // 4 - 1,
            event // 4,
            event // 4 + 1,
        }
    assert row["alignment"][0] == (0, 0) and row["alignment"][-1] == (11, 9)
    assert (row["id"], row["language"], row["similarity"]) == ("w", "de", 0.3)


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (Candidate(telling(range(14))), "length"),
        (Candidate(telling(range(20), "again"), "fr", 0.69), "similar"),
        (Candidate(telling(range(20), "again"), "fr", 0.68), None),
        (Candidate(telling(range(20), "again"), "de", 0.68), "similar"),
        (Candidate(telling(range(20), "again"), "pt", 0.61), "similar"),
        (Candidate(telling(range(20), "again"), None, 0.61), "similar"),
        (Candidate(telling(range(20), "again")), None),
        (Candidate(telling(range(20))), "similar"),
        (Candidate([" ".join(telling(range(20))).upper().replace(" ", " \n")]), "length"),
        # All but one sentence tell of the beginning.
        (Candidate(telling([*range(4)] * 4 + [39])), "windows"),
    ],
)
def test_filters(candidate, reason):
    made = MAKE(filters=Filters(10, 5, 3))
    row = made.row(work("w", range(20), candidate))
    assert (row is None) == (reason is not None)
    for name in ("length", "similar", "windows"):
        assert getattr(made.counts, name) == (name == reason), name
    assert made.counts.no_twin == (row is None)


def test_copy_is_not_a_twin():
    """Whatever its sentence boundaries, white space and case."""
    story = telling(range(20))
    for copy in (
        story,
        [" ".join(story)],
        [sentence.upper().replace(" ", "  ") for sentence in story],
    ):
        assert Filters().too_similar(story, Candidate(copy))
    assert not Filters().too_similar(story, Candidate([*story[1:], story[0]]))


@pytest.mark.parametrize(("longer", "kept"), [(13, True), (14, False), (-13, True), (-14, False)])
def test_default_difference_is_the_standard_deviation_in_the_paper(longer, kept):
    made = LongTwins(lambda sentences: np.ones((len(sentences), 1)), windows=1)
    story = ["A."] * 30
    assert (
        made.row(Work("w", None, story, [Candidate(["A."] * (30 + longer))])) is not None
    ) == kept


def test_short_and_missing_stories():
    made = MAKE()
    for each in (
        work("a", range(9), EVEN),
        work("b", []),
        work("c", range(20)),
        work("d", range(20), EVEN),
    ):
        made.row(each)
    assert {name: number for name, number in asdict(made.counts).items() if number} == {
        "works": 4,
        "short": 1,
        "no_story": 1,
        "no_twin": 1,
        "kept": 1,
        "tellings": 1,
    }


@st.composite
def works(draw):
    """Works that are kept or dropped for any reason."""
    made = []
    for number in range(draw(st.integers(1, 5))):
        candidates = [
            Candidate(
                telling(
                    sorted(draw(st.lists(st.integers(0, 19), min_size=1, max_size=24))),
                    f"{index} times",
                ),
                draw(st.sampled_from(["de", "fr", None])),
                draw(st.sampled_from([None, 0.2, 0.9])),
            )
            for index in range(draw(st.integers(0, 4)))
        ]
        made.append(work(f"w{number}", range(draw(st.sampled_from([0, 5, 12, 20]))), *candidates))
    return made


@given(works(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_all_is_counted_in_any_order(found, seed, shuffler):
    first, other, again = (MAKE(seed=seed) for _ in range(3))
    rows = {each.id: row for each in found if (row := first.row(each))}
    counts = first.counts
    assert (
        counts.works == len(found) == counts.no_story + counts.short + counts.no_twin + counts.kept
    )
    assert (
        counts.tellings
        == counts.length + counts.similar + counts.windows + counts.not_drawn + counts.kept
    )
    assert counts.kept == len(rows)
    mixed = [
        each._replace(candidates=shuffler.sample(each.candidates, len(each.candidates)))
        for each in found
    ]
    shuffler.shuffle(mixed)
    assert {each.id: row for each in mixed if (row := other.row(each))} == rows
    assert other.counts == counts
    for each in found:
        if each.id in rows:
            assert again.count_existing(each, [["Another."], rows[each.id]["twin"]]) == 1
        else:
            again.row(each)
    assert again.counts == counts, "rows of an earlier run are counted the same"
    for row in rows.values():
        for w in range(3):
            assert sum(w in windows for windows in row["twin_windows"]) >= FILTERS.min_window


def test_suitable_twin_is_found_in_any_position():
    bad = [Candidate(telling([*range(2)] * 8 + [39], f"{n} times")) for n in range(5)]
    for seed in range(10):
        row = MAKE(seed=seed).row(work("w", range(20), *bad, EVEN))
        assert row["twin"] == EVEN.sentences


def test_draw_is_even_and_depends_on_seed_and_id():
    candidates = [Candidate(telling(range(20), f"{n} times")) for n in range(4)]
    drawn = [MAKE(seed=7).row(work(f"w{n}", range(20), *candidates))["twin"] for n in range(200)]
    share = [drawn.count(candidate.sentences) / 200 for candidate in candidates]
    assert all(0.15 < value < 0.35 for value in share), share
    other = [MAKE(seed=8).row(work(f"w{n}", range(20), *candidates))["twin"] for n in range(200)]
    assert 0.6 < np.mean([a != b for a, b in zip(drawn, other, strict=True)]) < 0.9


def test_twin_that_is_no_longer_in_the_input():
    made = MAKE()
    assert made.count_existing(work("w", range(20), EVEN), [["Another."]]) is None
    assert made.count_existing(work("w", range(20), EVEN), []) is None
    assert made.count_existing(work("w", range(9), EVEN), [EVEN.sentences]) is None, (
        "the story is too short now"
    )
    assert not any(asdict(made.counts).values()), "nothing is counted"


def test_work_that_cannot_be_aligned_is_named_and_not_counted():
    made = LongTwins(
        lambda sentences: np.full((len(sentences), 2), np.nan), windows=3, filters=FILTERS
    )
    with pytest.raises(RowError, match="work 'w': can't be aligned"):
        made.row(work("w", range(20), EVEN))
    assert not any(asdict(made.counts).values())


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: LongTwins(embed, windows=21), "21 windows for stories of 20"),
        (lambda: LongTwins(embed, windows=0), "0 windows"),
        (lambda: Filters(min_window=0), "1 or more"),
        (lambda: Filters(max_difference=-1), "0 or more"),
        (lambda: Filters(max_difference=float("nan")), "0 or more"),
        (lambda: Filters(max_similarity={"fr": 68.1}), r"68.1 \(fr\)"),
    ],
)
def test_invalid_settings(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()


def read(content, anonymized=False):
    ((name, found),) = read_works([Document("here.json", content)], anonymized)
    assert name == "here.json"
    if isinstance(found, RowError):
        raise found
    return found


def test_rows_in_every_form():
    sentences = ["Omar ran.", "It rained."]
    row = {
        "id": 7,
        "title": "Rain",
        "story": "Omar ran. It rained.",
        "twins": [
            sentences,
            "Omar ran. It rained.",
            {"sentences": sentences, "language": "de", "similarity": 0.5},
            {"text": "Omar ran. It rained.", "similarity": None},
        ],
    }
    found = read(row)
    assert (found.id, found.title, found.story) == ("7", "Rain", sentences)
    assert found.candidates == [Candidate(sentences)] * 2 + [
        Candidate(sentences, "de", 0.5),
        Candidate(sentences),
    ]
    named, same = (read({"story": story, "twins": []}).id for story in (sentences, row["story"]))
    assert named == same and len(named) == 12
    assert read({"story": ["Nadia ran."], "twins": []}).id != named


@pytest.mark.parametrize(
    ("measured", "taken"), [(1.0000001, 1), (-1.0005, -1), (1, 1), (float("nan"), None)]
)
def test_similarities_with_rounding_errors(measured, taken):
    found = read({"story": ["A."], "twins": [{"text": "B.", "similarity": measured}]})
    assert found.candidates[0].similarity == taken


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "is list; an object with 'story' and 'twins'"),
        ({"twins": []}, "no column 'story'"),
        ({"story": ["A."]}, "no column 'twins'"),
        ({"story": [""], "twins": []}, "'story': sentence 0 is empty"),
        ({"story": ["A."], "twins": "A."}, "'twins' is str; a list of tellings"),
        ({"story": ["A."], "twins": [["A."], 3]}, r"'twins\[1\]': a story is a text"),
        ({"story": ["A."], "twins": [{"text": " "}]}, r"'twins\[0\]': the story is empty"),
        (
            {"story": ["A."], "twins": [{"text": "A.", "similarity": 68.1}]},
            r"'twins\[0\].similarity' is 68.1",
        ),
        (
            {"story": ["A."], "twins": [{"text": "A.", "language": 3}]},
            r"'twins\[0\].language' is int",
        ),
        (
            {"story": ["A."], "twins": [{"text": "A.", "similarity": 1.01}]},
            r"'twins\[0\].similarity' is 1.01",
        ),
        (
            {"story": ["A."], "twins": [{"text": "A.", "language": "\ud800"}]},
            r"'twins\[0\].language' has a lone",
        ),
        ({"story": ["A."], "twins": [], "id": "a\ud800"}, "'id' has a lone surrogate"),
        ({"story": ["A."], "twins": [], "title": "a\ud800"}, "'title' has a lone surrogate"),
        ({"story": ["A."], "twins": [], "id": []}, "'id' is list"),
        ({"story": ["A."], "twins": [], "title": []}, "'title' is list"),
    ],
)
def test_invalid_rows(content, problem):
    with pytest.raises(RowError, match=f"here.json: .*{problem}"):
        read(content)


def name(content, where):
    ((_, found),) = read_works([Document(where, content)])
    return found.id


def summaries(**keys):
    """A document of `Tell me again!`."""
    document = {
        "wikidata_id": "Q12",
        "title": "The Mill",
        "titles": {"de": {"language": "de", "value": "Die Mühle"}},
        "description": "2001 film",
        "summaries": {
            "en": "# Plot\nOmar ran. It rained.\n\n## End\nHe fell.",
            "de": "Omar lief.",
            "fr": "Omar courut.",
        },
        "en_translated_summaries": {
            "de": {
                "text": "Omar walked.\nHe fell.",
                "translation_tool": "nllb",
                "sentences": ["Omar walked.", "He"],
            },
            "fr": {"text": "Omar raced.", "source_lang": "fr"},
        },
        "split_into_sents": {"en": ["Omar ran.", "It rained.", "He fell."]},
        "similarity": {
            "indexes": ["en", "de", "fr"],
            "similarities": [[0, 0.5, 0.7], [0.5, 0, 0.6], [0.7, 0.6, 0]],
        },
        "anonymized": {"en": "Abel ran. It rained.", "de": "Abel walked."},
    }
    return {key: value for key, value in (document | keys).items() if value is not ...}


def test_tell_me_again():
    assert read(summaries()) == Work(
        "Q12",
        "The Mill",
        ["Omar ran.", "It rained.", "He fell."],
        [Candidate(["Omar walked.", "He fell."], "de", 0.5), Candidate(["Omar raced."], "fr", 0.7)],
    )
    assert read(summaries(), anonymized=True) == Work(
        "Q12",
        "The Mill",
        ["Omar ran.", "It rained.", "He fell."],
        [Candidate(["Abel walked."], "de", 0.5)],
    )


@pytest.mark.parametrize("gap", [..., None])
def test_tell_me_again_with_missing_keys(gap):
    assert read(summaries(wikidata_id=gap)).id == "Qhere"
    assert read(summaries(title=gap)).title is None
    names = [
        name(summaries(wikidata_id=gap), "all.jsonl, line 1"),
        name(summaries(wikidata_id=gap), "all.json, item 1"),
    ]
    assert (
        names[0]
        == names[1]
        != name(summaries(wikidata_id=gap, summaries={"en": "He fell."}), "all.jsonl, line 2")
    )
    assert read(summaries(title={"language": "de", "value": "Die Mühle"})).title == "Die Mühle"
    assert read(summaries(summaries=gap)).story == []
    assert read(summaries(summaries={"de": "Omar lief."})).story == []
    assert read(summaries(summaries={"en": "# Plot\n\n ", "de": "Omar lief."})).story == []
    assert read(summaries(en_translated_summaries=gap)).candidates == []
    assert read(summaries(en_translated_summaries={"de": {}, "fr": {"text": ""}})).candidates == []
    assert [each.similarity for each in read(summaries(similarity=gap)).candidates] == [None, None]
    other = {"indexes": ["de", "fr"], "similarities": [[0, 0.6], [0.6, 0]]}
    assert [each.similarity for each in read(summaries(similarity=other)).candidates] == [
        None,
        None,
    ]
    nan = {"indexes": ["en", "de"], "similarities": [[0, float("nan")], [0.5, 0]]}
    assert [each.similarity for each in read(summaries(similarity=nan)).candidates] == [None, None]
    named = read(summaries(anonymized=gap), anonymized=True)
    assert (named.story, named.candidates) == (["Omar ran.", "It rained.", "He fell."], [])


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"wikidata_id": 12}, "'wikidata_id' is int"),
        ({"title": 3}, "'title' is int"),
        ({"wikidata_id": "Q\ud800"}, "'wikidata_id' has a lone surrogate"),
        ({"title": "\ud800"}, "'title' has a lone surrogate"),
        (
            {"en_translated_summaries": {"\ud800": {"text": "He ran."}}},
            "'en_translated_summaries' has a lone surrogate",
        ),
        (
            {"similarity": {"indexes": [{}], "similarities": [[0]]}},
            "'similarity.indexes' is dict; a text",
        ),
        ({"summaries": ["Omar ran."]}, "'summaries' is list; an object"),
        ({"summaries": {"en": ["Omar ran."]}}, "'summaries.en' is list; a text"),
        (
            {"en_translated_summaries": {"de": "Omar"}},
            "'en_translated_summaries.de' is str; an object",
        ),
        (
            {"en_translated_summaries": {"de": {"text": 3}}},
            "'en_translated_summaries.de.text' is int; a text",
        ),
        ({"similarity": []}, "'similarity' is list"),
        ({"similarity": {"indexes": "en"}}, "'similarity.indexes' is str"),
        (
            {"similarity": {"indexes": ["en"], "similarities": []}},
            "'similarity.similarities' is not a .* of the 1",
        ),
        (
            {"similarity": {"indexes": ["en"], "similarities": [[0, 1]]}},
            "'similarity.similarities' is not a square",
        ),
        (
            {"similarity": {"indexes": ["en"], "similarities": [[67.0]]}},
            r"'similarity.similarities \(en, en\)' is 67",
        ),
    ],
)
def test_tell_me_again_with_invalid_values(keys, problem):
    with pytest.raises(RowError, match=f"here.json: {problem}"):
        read(summaries(**keys))


@pytest.mark.parametrize("packed", [False, True])
def test_folders_and_archives(tmp_path, packed):
    files = {
        "summaries/2/21.json": json.dumps(summaries(wikidata_id="Q21")),
        "summaries/1/12.json": json.dumps(summaries()),
        "summaries/1/13.json": "{",
        "wikidata/1/12.json": json.dumps({"title": "Q12"}),
        "train_stories.csv": "12",
    }
    path = tmp_path / ("all.zip" if packed else "all")
    if packed:
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(content)
    found = list(read_works(read_documents([str(path)])))
    assert [getattr(each, "id", None) for _, each in found] == ["Q12", None, "Q21"]
    assert "13.json" in found[1][0] and "not valid JSON" in str(found[1][1])


def test_other_folders_and_files(tmp_path):
    row = {"id": "a", "story": ["Omar ran."], "twins": []}
    (tmp_path / "b.jsonl").write_text(
        json.dumps(row) + "\n\n" + json.dumps(row | {"id": "b"}) + "\n"
    )
    (tmp_path / "c.json").write_text(json.dumps([row | {"id": "c"}, summaries(wikidata_id="d")]))
    (tmp_path / "notes.txt").write_text("Omar ran.")
    assert [each.id for _, each in read_works(read_documents([str(tmp_path)]))] == [
        "a",
        "b",
        "c",
        "d",
    ]
    (tmp_path / "no.zip").write_bytes(b"PK")
    missing = str(tmp_path / "missing.jsonl")
    assert "not a zip file" in problems(tmp_path / "no.zip")[0]
    assert "missing.jsonl: can't be read" in problems(missing)[0]
    assert "missing: can't be read" in problems(tmp_path / "missing")[0]


def problems(path):
    return [
        str(each)
        for _, each in read_works(read_documents([str(path)]))
        if isinstance(each, RowError)
    ]


ROW = {"id": "a", "story": ["Omar ran."], "twins": []}


@pytest.mark.parametrize("name", ["works.txt", "works.jsonl.gz", "works.parquet", "works"])
def test_files_in_other_formats_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(json.dumps(ROW).encode()))
    (problem,) = problems(tmp_path / name)
    assert problem.startswith(
        f"{tmp_path / name}: has an unsupported format; unpack or convert it to .json, .jsonl,"
    )


def test_folder_or_archive_without_works(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("Omar ran.")
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.writestr("a.txt", "Omar ran.")
    for name in ("notes", "notes.zip"):
        assert (
            "has no file that ends in one of .json, .jsonl, .ndjson" in problems(tmp_path / name)[0]
        )


def test_archive_is_read_like_a_folder_of_its_files(tmp_path):
    rows = [ROW | {"id": str(n)} for n in range(5)]
    files = {
        "a.json": json.dumps(rows[:2]),
        "b.ndjson": json.dumps(rows[2]) + "\n\n",
        "c.JSONL": "\ufeff" + json.dumps(rows[3]) + "\n{\n",
        "d.json": json.dumps(rows[4]),
    }
    (tmp_path / "all").mkdir()
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name, content in files.items():
            (tmp_path / "all" / name).write_text(content)
            archive.writestr(name, content)
    folder, packed = (
        list(read_works(read_documents([str(tmp_path / name)]))) for name in ("all", "all.zip")
    )
    assert [getattr(each, "id", None) for _, each in folder] == ["0", "1", "2", "3", None, "4"]
    names = [name.removeprefix(f"{tmp_path / 'all'}/") for name, _ in folder]
    assert [name.removeprefix(f"{tmp_path / 'all.zip'}, ") for name, _ in packed] == names
    assert [each for _, each in packed][:4] == [each for _, each in folder][:4]
    assert "c.JSONL, line 2: is not valid JSON" in str(packed[4][1]) and "--" not in str(
        packed[4][1]
    )


def test_damaged_and_locked_archives(tmp_path):
    """Each unreadable file is reported, and the others are read."""
    path = tmp_path / "works.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abcd":
            archive.writestr(f"{name}.json", json.dumps(ROW | {"id": name, "title": "Rain " * 50}))
        starts = {name: archive.getinfo(f"{name}.json").header_offset for name in "abcd"}
    data = bytearray(path.read_bytes())
    # Change the compressed bytes of the first file, the password flag of the second, the method of
    # the third; flag and method also in the central directory.
    data[starts["a"] + 40 : starts["a"] + 60] = b"\xff" * 20
    for name, offset, value in (("b", 6, 1), ("c", 8, 99)):
        data[starts[name] + offset] = value
        data[data.rindex(f"{name}.json".encode()) - 46 + offset + 2] = value
    path.write_bytes(data)
    found = list(read_works(read_documents([str(path)])))
    assert [isinstance(each, RowError) for _, each in found] == [True, True, True, False]
    for (name, error), member in zip(found[:3], "abc", strict=True):
        assert name.endswith(f"works.zip, {member}.json") and "can't be read (" in str(error)


def test_files_are_read_in_order_of_names(tmp_path):
    names = [f"{n:02}.json" for n in range(10)]
    for name in random.Random(0).sample(names, 10):
        (tmp_path / name).write_text(json.dumps({"id": name, "story": ["Omar ran."], "twins": []}))
    assert [each.id for _, each in read_works(read_documents([str(tmp_path)]))] == names
