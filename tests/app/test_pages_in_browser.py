"""The page for scoring and written pages in headless Chromium, as people with and without a mouse
use them, on narrow and wide screens, light and dark."""

import json
import re
import signal
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from narrative_twins import BookSalience, Story
from narrative_twins.show.formats import write_results

from support.books import WRITERS, WrittenChapter
from support.browser import accessibility, contrasts, misplaced, opened, sideways
from support.browser import browser as browser
from support.processes import COMMAND, LIMIT, started
from support.results import NASTY, result_of

# One browser and one server for all.
pytestmark = pytest.mark.xdist_group("browser")
WAIT = LIMIT * 1000
FOUR = ("deletion", "shifting", "disruption", "summarization")
HOSTILE = "<script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\">"
HEBREW = ["הוא הלך הביתה.", "ירד גשם כל הלילה.", "בבוקר מצא את המפתח."]
STORY = "Omar ran.\n\nHe saw his house. It was on fire! <b>Nobody</b> came.\nIt rained."
SCREENS = [(1200, "light"), (1200, "dark"), (375, "light"), (375, "dark")]


def chapter(number: int, sentences: int) -> WrittenChapter:
    text = " ".join(f"On day {day} of part {number} Nadia walked on." for day in range(sentences))
    return WrittenChapter(f"Chapter {number}: The <Map>", [text, "It rained. She left."], [1])


def check(page) -> None:
    """Of any page that is shown: nothing is cut off, all can be read, axe-core finds nothing."""
    page.get_by_text("Loading...").first.wait_for(state="hidden", timeout=WAIT)
    assert sideways(page) == 0 and misplaced(page) == []
    assert contrasts(page)[0][1] >= 4.5, contrasts(page)[:3]
    assert accessibility(page) == []


# Written pages


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, str]:
    """The addresses of a page of stories and of a page of a book."""
    long = ["The old mill burned down and nobody knew. " * 9, "w" * 3000, "He left."] * 12
    stories = [
        result_of([HOSTILE, "Plain."], name=HOSTILE, operations=FOUR),
        result_of(long, 5, "long", FOUR),
        result_of(HEBREW, name="שלום עולם", operations=FOUR, cut_tokens=7),
        result_of([text for text in NASTY if text.isprintable()], name="n" * 3000),
    ]
    book = BookSalience("A <b>Tale</b>", levels=("chapter", "scene", "sentence"))
    for number, texts in enumerate([long, ["He came. " * 20] * 8, HEBREW]):
        scenes = [
            {
                "sentences": texts,
                "spans": [(i, i + 1) for i in range(len(texts))],
                "windows": [[0, len(texts)]],
                "paragraphs": [0, 2],
                "span": (0, len(texts)),
                "scores": {name: [i / 100 for i in range(len(texts))] for name in FOUR},
            }
        ] * 2
        row = {"heading": f"Chapter {number} {HOSTILE}", "span": (0, 9), "scenes": scenes}
        row["scores of scenes"] = {name: [0.5, 0.25] for name in FOUR}
        book.add(row)
        book.add_scores(row)
    book.chapters.scores = {name: [0.0001, 0.0003, 0.0002] for name in FOUR}
    folder, addresses = tmp_path_factory.mktemp("pages"), {}
    for name, results in (("stories", stories), ("book", book)):
        (folder / name).with_suffix(".html").write_text(
            "".join(write_results(results, "html")), encoding="utf-8"
        )
        addresses[name] = (folder / name).with_suffix(".html").as_uri()
    return addresses


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stories", "book"])
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_written_pages(browser, written, name, width, scheme):
    """Of long, hostile and right-to-left text."""
    with opened(browser, written[name], width, color_scheme=scheme) as page:
        check(page)
        assert page.title() != "run" and page.locator("script").count() == 1
        for details in page.locator("details").all():
            details.evaluate("element => element.open = true")
        assert sideways(page) == 0 and page.title() != "run"
        hebrew = page.locator(".text, .text div").filter(has_text=HEBREW[0]).last
        quotation = page.locator("q").filter(has_text=re.compile("[א-ת]")).first
        for element in (hebrew, quotation):
            assert element.evaluate("element => getComputedStyle(element).direction") == "rtl"


@pytest.mark.slow
def test_a_curve_and_links_lead_to_the_place_in_the_text(browser, written):
    focused = "document.activeElement.textContent"
    with opened(browser, written["book"]) as page:
        chapters, sentences = page.locator("svg").all()
        assert page.locator("ol li").nth(0).inner_text().startswith("Chapter 1")
        scores = page.locator("details", has_text="All scores")
        scores.locator("summary").click()
        assert [row.split()[-1] for row in scores.locator("tr").all_inner_texts()[1:4]] == [
            *("0.00010", "0.00030", "0.00020")
        ]
        page.locator("ol li").nth(0).locator("a").first.click()
        assert page.locator("details.text").nth(1).get_attribute("open") is not None
        box = sentences.bounding_box()
        sentences.click(position={"x": box["width"] - 2, "y": 20})
        assert page.evaluate(focused) == HEBREW[-1]
        assert page.locator(".readout").inner_text().startswith("Sentence 94 of 94: summarization")
        chapters.click(position={"x": 5, "y": 20})
        assert page.evaluate(focused).startswith("Chapter 0")
        page.locator("a[href^='#b']").last.click()
        assert page.evaluate("document.activeElement.checkVisibility()")


@pytest.mark.slow
def test_arrow_keys_follow_the_direction_of_the_text(browser, tmp_path):
    result = replace(result_of(HEBREW), story=Story.parse({"sentences": HEBREW}))
    file = tmp_path / "story.html"
    file.write_text("".join(write_results([result], "html")), encoding="utf-8")
    with opened(browser, file.as_uri()) as page:
        page.locator(".text span").first.focus()
        for key, at in (("ArrowLeft", 1), ("ArrowDown", 2), ("ArrowRight", 1), ("ArrowUp", 0)):
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.textContent") == HEBREW[at]


@pytest.mark.slow
def test_notebooks_and_plots_show_text_from_right_to_left(browser, tmp_path):
    result = result_of(HEBREW, name="שלום")
    cell = tmp_path / "cell.html"
    cell.write_text(f"<meta charset='utf-8'>{result._repr_html_()}", encoding="utf-8")
    with opened(browser, cell.as_uri()) as page:
        first, second, third = (box.bounding_box()["x"] for box in page.locator("span").all())
        assert first > second > third
    result.plot(tmp_path / "plot.svg")
    place = "(text, i) => text.getExtentOfChar(i).x"
    with opened(browser, (tmp_path / "plot.svg").as_uri()) as page:
        sentence = page.locator("text", has_text=HEBREW[0])
        last = len(HEBREW[0]) - 1
        assert sentence.evaluate(place, last) < sentence.evaluate(place, 0), "the full stop is left"
        title = page.locator("text", has_text="sentences")
        places = [title.evaluate(place, title.text_content().index(part)) for part in "ש3s"]
        assert places == sorted(places), "the name, the number, what is counted"


# The page that scores


@pytest.fixture(scope="module")
def address(browser):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(COMMAND, "app", "--port", "0", **pipes) as process:
        yield process.stdout.readline().split()[4]
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
        # Neither a warning nor a traceback of any test.
        assert (process.returncode, out, errors) == (130, "", "narrative-twins: interrupted\n")


def paste(page, story: str) -> None:
    page.get_by_role("textbox", name="Story in English", exact=True).fill(story)
    page.get_by_role("button", name="Score", exact=True).click()


def open_book(page, path: Path) -> None:
    page.get_by_role("tab", name="A book").click()
    page.locator("#book input[type=file]").set_input_files(path)
    page.locator("#book", has_text=path.stem).wait_for(timeout=WAIT)
    page.get_by_role("button", name="Score the book").click()


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (375, "dark")])
def test_a_story_is_scored(address, browser, width, scheme):
    with opened(browser, address, width, color_scheme=scheme) as page:
        page.get_by_role("heading", name="Narrative salience").wait_for(timeout=WAIT)
        assert not page.get_by_role("button", name="Cancel").is_visible()
        check(page)
        paste(page, STORY)
        text = page.locator(".reader div.text")
        text.wait_for(timeout=WAIT)
        assert text.text_content() == STORY and text.locator("span").count() == 5
        page.locator(".status:visible", has_text="Done: 5 sentences, 1 window.").wait_for(
            timeout=WAIT
        )
        said = page.locator(".said[role=status]", has_text="Done: 5 sentences, 1 window.")
        said.wait_for(state="attached", timeout=WAIT)
        # The result is beside the status, or on a narrow screen below it.
        to_result = page.get_by_role("link", name="Show the result")
        assert to_result.is_visible() is (width < 900)
        if to_result.is_visible():
            to_result.click()
            assert 0 <= page.get_by_role("heading", name="Your story").bounding_box()["y"] < 100
        assert not page.get_by_role("button", name="Cancel").is_visible()
        check(page)
        shades = text.locator("span").evaluate_all("all => all.map(each => each.className)")
        page.get_by_role("radio", name="shifting").check()
        page.get_by_text("Salience by shifting is").wait_for(timeout=WAIT)
        others = text.locator("span").evaluate_all("all => all.map(each => each.className)")
        assert shades != others and sum("top" in each for each in others) == 1
        page.locator(".reader svg:visible").click(position={"x": 3, "y": 20})
        assert page.evaluate("document.activeElement.textContent") == "Omar ran."
        assert page.locator(".readout").inner_text().startswith("Sentence 1 of 5, rank")
        extract = page.locator(".extract:visible")
        extract.get_by_role("button").click()
        assert extract.get_by_role("button").inner_text() == "Copied"
        chosen = page.evaluate("getSelection().toString()").strip()
        assert chosen and chosen in STORY and chosen == extract.locator("p").inner_text().strip()


def test_downloads_open(address, browser):
    with opened(browser, address, accept_downloads=True) as page:
        page.get_by_role("button", name="Try an example").click()
        page.locator(".status:visible", has_text="Done: 22 sentences").wait_for(timeout=WAIT)
        page.get_by_text("Download, and what to do next").click()
        data = {}
        for link in page.locator(".next a").all():
            with page.expect_download() as download:
                link.click()
            data[link.inner_text()] = Path(download.value.path()).read_bytes()
    assert set(data) >= {"JSON", "CSV", "HTML"}
    assert len(json.loads(data["JSON"])[0]["sentences"]) == 22
    assert data["CSV"].count(b"\n") == 23
    assert b"Onokiri" in data["HTML"] and data["HTML"].startswith(b"<!doctype html>")
    if "PNG" in data:
        assert data["PNG"].startswith(b"\x89PNG") and data["SVG"].startswith(b"<?xml")


@pytest.mark.slow
def test_a_book_is_scored_and_its_result_is_kept_apart(address, browser, tmp_path):
    (tmp_path / "tale.epub").write_bytes(
        WRITERS["book3.epub"]("A <b>Tale</b>", [chapter(1, 20), chapter(2, 9)])
    )
    with opened(browser, address, 375) as page:
        paste(page, STORY)
        page.locator(".status:visible", has_text="Done: 5 sentences").wait_for(timeout=WAIT)
        page.get_by_role("tab", name="A book").click()
        page.locator("#book button:not([aria-label])").first.wait_for(timeout=WAIT)
        assert page.get_by_role("button", name="Score the book").is_disabled()
        check(page)
        open_book(page, tmp_path / "tale.epub")
        page.get_by_role("heading", name="A <b>Tale</b>").wait_for(timeout=WAIT)
        assert not page.get_by_role("heading", name="Your story").is_visible()
        check(page)
        assert (
            page.locator(".finding:visible").inner_text().startswith("Most salient of 2 chapters:")
        )
        page.locator(".finding a:visible").first.click()
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        page.get_by_role("tab", name="A story").click()
        page.get_by_role("heading", name="Your story").wait_for(timeout=WAIT)
        assert not page.get_by_role("heading", name="A <b>Tale</b>").is_visible()


@pytest.mark.slow
def test_a_long_book_is_cancelled_while_somebody_else_waits(address, browser, tmp_path):
    long = [chapter(number, 400) for number in range(60)]
    (tmp_path / "long.txt").write_bytes(WRITERS["book.txt"](None, long))
    with opened(browser, address) as page, opened(browser, address) as other:
        open_book(page, tmp_path / "long.txt")
        page.locator(".status:visible", has_text="Chapter 1 of 60").wait_for(timeout=WAIT)
        check(page)
        paste(other, STORY)
        other.locator(
            ".status:visible", has_text="Waiting: 1 other text will be scored first."
        ).wait_for(timeout=WAIT)
        assert other.get_by_role("button", name="Cancel").is_visible()
        page.get_by_role("button", name="Cancel").click()
        page.locator(".status:visible", has_text="Cancelled.").wait_for(timeout=WAIT)
        # In vain if the book had to be scored to its end, which takes minutes.
        other.locator(".status:visible", has_text="Done: 5 sentences").wait_for(timeout=WAIT)
        assert page.evaluate("document.activeElement.textContent").strip() == "Score the book"
        page.get_by_text("Open a book or a manuscript").wait_for(timeout=WAIT)
        page.get_by_role("tab", name="A story").click()
        paste(page, STORY)
        page.locator(".status:visible", has_text="Done: 5 sentences").wait_for(timeout=WAIT)


def test_a_wrong_file_is_refused(address, browser, tmp_path):
    (tmp_path / "bad.epub").write_bytes(b"no zip")
    with opened(browser, address) as page:
        open_book(page, tmp_path / "bad.epub")
        alert = page.get_by_role("alert").filter(has_text="Bad.epub")
        alert.wait_for(timeout=WAIT)
        assert str(tmp_path) not in unescape(alert.inner_text())
        assert page.get_by_role("button", name="Score the book").is_enabled()


@pytest.mark.slow
def test_all_can_be_done_by_the_keyboard(address, browser):
    with opened(browser, address) as page:
        page.get_by_role("textbox", name="Story in English", exact=True).wait_for(timeout=WAIT)

        def tab_to(condition: str) -> None:
            for _ in range(40):
                page.keyboard.press("Tab")
                if page.evaluate(f"(e => {condition})(document.activeElement)"):
                    return
            pytest.fail(f"the tab key does not reach an element with {condition}")

        tab_to("e.tagName === 'TEXTAREA'")
        page.keyboard.insert_text(STORY)
        tab_to("e.textContent.trim() === 'Score'")
        page.keyboard.press("Enter")
        page.locator(".status:visible", has_text="Done: 5 sentences").wait_for(timeout=WAIT)
        tab_to("e.value === 'summarization' && e.type === 'radio'")
        page.keyboard.press("ArrowRight")
        page.get_by_text("Salience by deletion is").wait_for(timeout=WAIT)
        tab_to("e.textContent === 'Omar ran.'")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.textContent") == "He saw his house."
        assert page.locator(".readout").inner_text().startswith("Sentence 2 of 5")
        page.keyboard.press("Escape")
        assert not page.locator(".readout").is_visible()
        tab_to("e.textContent === 'Copy'")
        page.keyboard.press("Enter")
        assert page.locator(".extract:visible button").inner_text() == "Copied"
