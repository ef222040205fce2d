"""The web page in Chromium, served by the command with the default encoder."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from support.books import WRITERS, WrittenChapter
from support.browser import browser, contrasts, misplaced  # noqa: F401
from support.processes import COMMAND, LIMIT, started

pytestmark = pytest.mark.slow

pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")

ROOT = Path(__file__).parents[2]
OMAR = (ROOT / "examples" / "stories" / "window_cleaner.txt").read_text(encoding="utf-8").strip()
HAUNTED = (ROOT / "examples" / "stories" / "haunted_stable.txt").read_text(encoding="utf-8").strip()
WIDTHS = [390, 1280]
HOSTILE = (
    "<script>document.title = 'broken'</script> Omar ran. ${1+1} {{value}} *she* said.\n\n"
    "<img src=x onerror='document.title=1'> שלום עולם. The end &amp; more."
)
LONG = " ".join(
    f"On day {day} Nadia walked to house number {day * 7} and found nobody." for day in range(300)
)
BOOK = [
    WrittenChapter("Chapter 1: The Map", ["Nadia found a map. It rained.", "She left."], [1]),
    WrittenChapter("Chapter 2: The Mill", ["The mill was gone. Nobody knew why."], []),
]
WAIT = LIMIT * 1000


@pytest.fixture(scope="module")
def server(browser):  # noqa: F811
    """The address of the page, and the process that serves it, which is ended by Ctrl-C while it
    scores a story."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(COMMAND, "app", "--port", "0", **pipes) as process:
        address = process.stdout.readline().split()[4]
        yield address, process
        page = browser.new_page()  # noqa: F811
        page.goto(address)
        score(page, LONG, "exact")
        page.locator("progress").wait_for(timeout=WAIT)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
        page.close()
        assert (process.returncode, out, errors) == (130, "", "narrative-twins: interrupted\n")


@pytest.fixture(params=WIDTHS)
def page(server, browser, request):  # noqa: F811
    """The page. External requests, errors and error messages in the console fail the test."""
    size = {"width": request.param, "height": 900}
    context = browser.new_context(viewport=size, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    found, requested, problems = context.new_page(), [], []
    context.on("request", lambda sent: requested.append(sent.url))
    context.on("console", lambda told: told.type == "error" and problems.append(told.text))
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.goto(server[0])
    found.get_by_role("button", name="Score").wait_for()
    yield found
    context.close()
    assert requested and all(url.startswith((server[0], "data:", "blob:")) for url in requested)
    assert problems == []


wide = pytest.mark.parametrize("page", [1280], indirect=True)


def setting(page, name):
    """A setting, which is folded on a narrow page."""
    if not page.locator("#settings").is_visible():
        page.get_by_text("Settings", exact=True).click()
    return page.get_by_label(name, exact=True).first


def score(page, text, *settings):
    page.get_by_label("Story", exact=True).fill(text)
    for name in settings:
        setting(page, name).check()
    page.get_by_role("button", name="Score").click()


def shown(page):
    page.locator(".shaded").wait_for(timeout=WAIT)
    return page.locator(".shaded")


def has(page, condition, **options):
    page.wait_for_function(condition, timeout=WAIT, **options)


def readout(sentence):
    """The scores of a sentence as they are shown at the bottom of the window; "" if they are not
    shown."""
    content = sentence.evaluate("element => getComputedStyle(element, '::after').content")
    return "" if content in ("none", "normal") else content.strip('"')


def test_score_and_read(page):
    assert page.locator(".guide").get_by_text("Agrees best with human readers").is_visible()
    score(page, OMAR, "exact", "shifting")
    text = shown(page)
    assert text.text_content() == OMAR
    sentences = text.locator(".sentence")
    assert sentences.count() == 5
    assert "5 sentences, 1 window." in page.locator("#status").text_content()
    # The most salient sentence by summarization is the second or the third, depending on the
    # precision, since their scores are close; by shifting it is the first.
    colour, strongest = "element => getComputedStyle(element).backgroundColor", "rgb(242, 158, 76)"
    assert strongest in {sentences.nth(at).evaluate(colour) for at in (1, 2)}
    assert sentences.nth(0).evaluate(colour) == "rgb(255, 255, 255)"
    page.locator("#operation").get_by_label("shifting", exact=True).check()
    has(page, "document.querySelector('.shaded').ariaLabel.endsWith('shifting')")
    assert sentences.nth(0).evaluate(colour) == strongest != sentences.nth(1).evaluate(colour)
    assert page.locator(".curve svg polyline").count() == 1
    page.locator("#k input[type=number]").fill("3")
    has(page, "document.querySelectorAll('.salient li').length == 3")
    page.locator("#operation").get_by_label("disruption", exact=True).check()
    page.locator("#results .hint").get_by_text("second and third").wait_for(timeout=WAIT)
    assert misplaced(page) == []


@wide
def test_scores_by_pointer_and_by_keyboard(page):
    """The tab key reaches the story, the score button and the results, which are downloaded."""

    def tab_to(selector):
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate(f"document.activeElement.matches({selector!r})"):
                return
        raise AssertionError(f"the tab key does not reach {selector}")

    tab_to("#story textarea")
    page.keyboard.insert_text(OMAR)
    tab_to("#score")
    page.keyboard.press("Enter")
    sentences = shown(page).locator(".sentence")
    tab_to(".sentence")
    assert "Sentence 1 of 5" in readout(sentences.nth(0))
    for key, at in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        assert sentences.nth(at).evaluate("element => element === document.activeElement")
    sentences.nth(3).hover()
    found = readout(sentences.nth(3))
    assert re.search(r"Sentence 4 of 5, rank \d by summarization: deletion 0\.\d{3}", found)
    page.mouse.move(0, 0)
    assert readout(sentences.nth(3)) == ""
    tab_to(".downloads a")
    for form in ("CSV", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("link", name=form).click()
        assert download.value.suggested_filename == f"salience.{form.lower()}"
        data = Path(download.value.path()).read_bytes()
        assert data.startswith(b"\x89PNG") if form == "PNG" else data.count(b"\n") == 6


@wide
def test_opening_a_file(page, tmp_path):
    path = tmp_path / "tale.txt"
    button, problem = page.get_by_label("Open a text file"), page.locator("#open .problem")
    story = page.get_by_label("Story", exact=True)
    path.write_bytes(b"\xef\xbb\xbf" + OMAR.encode())
    button.set_input_files(path)
    has(page, "document.querySelector('#story textarea').value.length > 0")
    assert story.input_value() == OMAR
    for content, words in (
        ("Über ihm saß ein Rabe.".encode("latin-1"), "tale.txt is not UTF-8 text."),
        (b"a" * 8_000_001, "8000000 bytes"),
    ):
        path.write_bytes(content)
        button.set_input_files(path)
        has(page, f"document.querySelector('#open .problem').textContent.includes('{words}')")
        assert problem.is_visible() and story.input_value() == OMAR
    path.write_text("Nadia ran. She fell.")
    button.set_input_files(path)
    has(page, "document.querySelector('#story textarea').value.startsWith('Nadia')")
    assert not problem.is_visible()


@wide
def test_any_text_is_shown_as_text(page):
    score(page, "   ")
    page.get_by_role("alert").get_by_text("There is no story yet: paste one").wait_for()
    score(page, HOSTILE, "one pass")
    assert shown(page).text_content() == HOSTILE
    assert shown(page).locator("script, img, em, a").count() == 0
    assert page.title() == "Narrative salience" and page.get_by_role("alert").count() == 0
    assert "The scores are approximate (one-pass)" in page.locator("#status").text_content()
    # Control characters, which a keyboard can't type.
    page.evaluate(
        """text => { const area = document.querySelector('#story textarea'); area.value = text;
        area.dispatchEvent(new Event('input', {bubbles: true})) }""",
        "Omar\0 ran.\tNadia\u0007 too.",
    )
    page.get_by_label("Story", exact=True).press("Control+Enter")
    has(page, "document.querySelector('.shaded').textContent.includes('too')")
    assert shown(page).text_content() == "Omar\ufffd ran.\tNadia\ufffd too."


def idle(process):
    """Wait until a process uses little CPU time; False if it still does after a while."""
    measured = psutil.Process(process.pid)
    measured.cpu_percent()
    return any(measured.cpu_percent(0.5) < 40 for _ in range(100))


@wide
@pytest.mark.parametrize("close", [False, True], ids=["cancel", "close the tab"])
def test_progress_and_cancelling_of_a_long_scoring(page, server, close):
    score(page, LONG, "exact")
    page.locator("progress").wait_for(timeout=WAIT)
    words = r"Scoring: \d+%, about \d+ (second|minute|hour)s? left"
    assert re.search(words, page.locator("#status").text_content())
    assert not page.get_by_role("button", name="Score").is_enabled()
    if close:
        page.close()
    else:
        page.get_by_role("button", name="Cancel").click()
        page.get_by_text("Cancelled. The scoring has stopped.").wait_for(timeout=WAIT)
        assert page.get_by_role("button", name="Score").is_enabled()
    assert idle(server[1])


def test_layout_with_long_words_and_settings(page):
    width = page.viewport_size["width"]
    settings, fold = page.locator("#settings"), page.get_by_text("Settings", exact=True)
    assert settings.is_visible() is not fold.is_visible() is (width == 390)
    if width == 390:
        fold.focus()
        page.keyboard.press("Enter")
        assert settings.is_visible() and misplaced(page) == []
    verse = f"{OMAR}\n{'word' * 200} ends.\n\n{'a longer paragraph of some words ' * 30}."
    setting(page, "lines").check()
    score(page, verse, "one pass")
    shown(page)
    assert page.locator(".sentence").count() == len(list(filter(None, verse.split("\n"))))
    page.get_by_text("With numbers and scores").click()
    page.wait_for_timeout(300)
    assert misplaced(page) == []
    for name in (".shaded", ".extract", ".salient", "#status p"):
        fits = "element => element.scrollWidth <= element.clientWidth + 1"
        assert page.locator(name).first.evaluate(fits), name


@wide
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast_and_the_button_is_in_view(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.reload()
    page.set_viewport_size({"width": 1280, "height": 720})
    page.get_by_label("Story", exact=True).focus()
    page.keyboard.insert_text(f"{OMAR}\n\n" * 30)
    assert page.evaluate("scrollY") == 0
    score(page, OMAR * 20, "one pass")
    shown(page)
    page.evaluate("scrollTo(0, 0)")
    in_view = (
        "element => { const {top, bottom} = element.getBoundingClientRect(); return top >= 0 &&"
        " bottom <= innerHeight }"
    )
    for name in ("#story", "#score", "#status p"):
        assert page.locator(name).evaluate(in_view), "without scrolling"
    page.mouse.move(0, 0)
    # The colours of buttons change gradually.
    page.wait_for_timeout(500)
    found = contrasts(page)
    assert len(found) > 40 and found[0][1] >= 4.5, found[0]
    background = "element => getComputedStyle(element).backgroundColor"
    for selector in ("body", ".shaded", "#story textarea", ".sentence.top", ".extract"):
        colour = page.locator(selector).first.evaluate(background)
        is_dark = sum(map(int, re.findall(r"\d+", colour)[:3])) < 300
        assert is_dark is (scheme == "dark"), (selector, colour)


def test_the_example_is_scored_by_one_click_and_its_extract_copied(page):
    page.get_by_role("button", name="Try an example").click()
    story = page.get_by_label("Story", exact=True)
    assert shown(page).text_content() == HAUNTED == story.input_value()
    labels = page.locator(".plot .numbers span").all_text_contents()
    assert labels == ["1", "5", "10", "15", "20"]
    # Each label is below its sentence: in the middle of a 22nd part of the curve.
    curve = page.locator(".plot svg").bounding_box()
    for label, text in zip(page.locator(".plot .numbers span").all(), labels, strict=True):
        box = label.bounding_box()
        expected = curve["x"] + (int(text) - 0.5) * curve["width"] / 22
        assert abs(box["x"] + box["width"] / 2 - expected) < 2
        assert box["y"] >= curve["y"] + curve["height"] - 1
    extract = page.locator(".extract").text_content()
    for clipboard in (True, False):
        if not clipboard:  # as on pages of other machines without https
            page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.get_by_role("button", name=re.compile("Copy|Copied")).click()
        page.get_by_role("button", name="Copied").wait_for()
        story.fill("")
        story.press("Control+v")
        assert story.input_value() == extract


def test_a_book(page, tmp_path):
    """Opened, scored, read down to the sentences, copied and downloaded; the story before it is
    gone."""
    page.get_by_role("tab", name="A book").click()
    book = tmp_path / "tale.epub"
    book.write_bytes(b"no archive")
    page.locator("#open-book input").set_input_files(book)
    page.locator("#score-book").click()
    page.locator("#book-status [role=alert]").get_by_text("Tale.epub: ").wait_for(timeout=WAIT)
    assert not page.locator("#book-results").is_visible()
    book.write_bytes(WRITERS["book3.epub"]("A <b>Tale</b>", BOOK))
    page.locator("#open-book input").set_input_files(book)
    page.wait_for_timeout(300)
    # By the keyboard; the button of stories is not visible.
    page.keyboard.press("Control+Enter")
    contents = page.locator(".contents")
    contents.wait_for(timeout=WAIT)
    assert "2 chapters, 3 scenes, 5 sentences" in page.locator("#book-status").text_content()
    assert page.locator("#contents h2").text_content() == "A <b>Tale</b>"
    sentence = contents.get_by_text("Nobody knew why.")
    assert not sentence.is_visible()
    contents.get_by_text("Chapter 2: The Mill").click()
    sentence.wait_for()
    assert "summarization" in sentence.get_attribute("title")
    assert not page.locator(".invitation").is_visible() and misplaced(page) == []
    before = page.locator("#book-extract .extract").text_content()
    page.locator("#share input[type=number]").fill("50")
    longer = (
        "before => document.querySelector('#book-extract .extract').textContent.length > before"
    )
    has(page, longer, arg=len(before))
    page.locator("#book-extract .copy").click()
    page.locator("#book-extract").get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#book-extract .extract").text_content()
    with page.expect_download() as download:
        page.locator("#book-results").get_by_role("link", name="JSON").click()
    saved = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert saved["levels"] == ["chapter", "scene", "sentence"]
    page.get_by_role("tab", name="A story").click()
    score(page, OMAR)
    shown(page)
    assert not contents.is_visible()
