"""The web page in Chromium, served by the command with the default encoder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.books import WRITERS, WrittenChapter
from support.browser import browser, contrasts, misplaced  # noqa: F401
from support.processes import COMMAND, LIMIT, started

pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")

ROOT = Path(__file__).parents[2]
OMAR = (ROOT / "examples" / "stories" / "window_cleaner.txt").read_text(encoding="utf-8").strip()
HAUNTED = (ROOT / "examples" / "stories" / "haunted_stable.txt").read_text(encoding="utf-8").strip()
WIDTHS = [390, 1280, 1440]
HOSTILE = (
    "<script>document.title = 'broken'</script> Omar ran. ${1+1} {{value}} *she* said.\n\n"
    "<img src=x onerror='document.title=1'> שלום עולם. The end &amp; more."
)
LONG = " ".join(
    f"On day {day} Nadia walked to house number {day * 7} and found nobody." for day in range(300)
)
BOOK = [
    WrittenChapter(
        "Chapter 1: The Map", ["Nadia found a map. It rained.", "She laughed & left."], [1]
    ),
    WrittenChapter("Chapter 2: The Mill", ["The mill was gone. Nobody knew why. It was dark."], []),
]
WAIT = LIMIT * 1000


@pytest.fixture(scope="module")
def server(browser):  # noqa: F811
    """The address of the page, and the process that serves it, which is ended by Ctrl-C while it
    scores a story."""
    with started(
        COMMAND, "app", "--port", "0", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        address = process.stdout.readline().split()[4]
        yield address, process
        page = browser.new_page()  # noqa: F811
        page.goto(address)
        score(page, LONG)
        page.locator("progress").wait_for(timeout=WAIT)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
        page.close()
        assert (process.returncode, out, errors) == (130, "", "narrative-twins: interrupted\n")


@pytest.fixture
def page(server, browser):  # noqa: F811
    """The page. External requests, errors and error messages in the console fail the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    found = context.new_page()
    requested, problems = [], []
    context.on("request", lambda request: requested.append(request.url))
    context.on(
        "console",
        lambda message: problems.append(message.text) if message.type == "error" else None,
    )
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.goto(server[0])
    found.get_by_role("button", name="Score").wait_for()
    yield found
    context.close()
    assert requested and all(url.startswith((server[0], "data:", "blob:")) for url in requested), (
        requested
    )
    assert problems == []


def score(page, text, method="exact"):
    page.get_by_label("Story", exact=True).fill(text)
    if not page.get_by_label(method, exact=True).first.is_checked():
        unfold_settings(page)
        page.get_by_label(method, exact=True).first.check()
    page.get_by_role("button", name="Score").click()


def unfold_settings(page):
    """Show the settings, which are folded on a narrow page."""
    if not page.locator("#settings").is_visible():
        page.get_by_text("Settings", exact=True).click()


def shown(page):
    page.locator(".shaded").wait_for(timeout=WAIT)
    return page.locator(".shaded")


def test_paste_score_and_read(page):
    score(page, OMAR)
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
    page.get_by_label("shifting", exact=True).last.check()
    page.wait_for_function("document.querySelector('.shaded').ariaLabel.endsWith('shifting')")
    assert sentences.nth(0).evaluate(colour) == strongest != sentences.nth(1).evaluate(colour)
    assert page.locator(".curve svg polyline").count() == 1
    assert page.locator(".salient li").count() == 1
    page.locator("#k input[type=number]").fill("3")
    page.wait_for_function("document.querySelectorAll('.salient li').length == 3")


def readout(sentence):
    """The scores of a sentence as they are shown at the bottom of the window; "" if they are not
    shown."""
    content = sentence.evaluate("element => getComputedStyle(element, '::after').content")
    return "" if content in ("none", "normal") else content.strip('"')


def test_scores_by_pointer_and_by_keyboard(page):
    score(page, OMAR)
    sentences = shown(page).locator(".sentence")
    assert readout(sentences.nth(1)) == ""
    sentences.nth(1).hover()
    assert re.search(
        r"Sentence 2 of 5, rank [12] by summarization: deletion 0\.\d{3}", readout(sentences.nth(1))
    )
    page.mouse.move(0, 0)
    assert readout(sentences.nth(1)) == ""
    sentences.nth(0).focus()
    assert "Sentence 1 of 5" in readout(sentences.nth(0))
    for key, at in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        assert sentences.nth(at).evaluate("element => element === document.activeElement")
    assert "Sentence 2 of 5" in readout(sentences.nth(1))


def test_without_a_mouse(page):
    """The tab key reaches the story, the score button and the results."""

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
    shown(page)
    tab_to(".sentence")
    page.keyboard.press("ArrowRight")
    assert "Sentence 2 of 5" in readout(page.locator(".sentence").nth(1))
    tab_to(".downloads a")


def test_downloads(page, tmp_path):
    score(page, OMAR)
    shown(page)
    for form in ("JSON", "CSV", "HTML"):
        with page.expect_download() as started:
            page.get_by_role("link", name=form).click()
        assert started.value.suggested_filename == f"salience.{form.lower()}"
        started.value.save_as(tmp_path / form)
    (row,) = json.loads((tmp_path / "JSON").read_text())
    assert len(row["sentences"]) == 5
    assert (tmp_path / "CSV").read_text().count("\n") == 6
    assert "On the thirtieth floor" in (tmp_path / "HTML").read_text()


def test_opening_a_file(page, tmp_path):
    path = tmp_path / "tale.txt"
    path.write_bytes(b"\xef\xbb\xbf" + OMAR.encode())
    button = page.get_by_label("Open a text file")
    button.focus()
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")
    chooser.value.set_files(path)
    story = page.get_by_label("Story", exact=True)
    page.wait_for_function("document.querySelector('#story textarea').value.length > 0")
    assert story.input_value() == OMAR
    problem = page.locator("#open").get_by_role("alert")
    for content, words in (
        ("Über ihm saß ein Rabe.".encode("latin-1"), "tale.txt is not UTF-8 text."),
        (b"a" * 8_000_001, "8000000 bytes"),
    ):
        path.write_bytes(content)
        button.set_input_files(path)
        page.wait_for_function(
            "words => document.querySelector('#open .problem').textContent.includes(words)",
            arg=words,
        )
        assert problem.is_visible()
        assert story.input_value() == OMAR
    path.write_text("Nadia ran. She fell.")
    button.set_input_files(path)
    page.wait_for_function("document.querySelector('#story textarea').value.startsWith('Nadia')")
    assert not problem.is_visible()
    page.get_by_role("button", name="Score").click()
    assert shown(page).text_content() == "Nadia ran. She fell."


def test_any_text_is_shown_as_text(page):
    score(page, HOSTILE, "one pass")
    assert shown(page).text_content() == HOSTILE
    assert shown(page).locator("script, img, em, a").count() == 0
    assert page.title() == "Narrative salience"
    assert "The scores are approximate (one-pass)" in page.locator("#status").text_content()
    # Control characters, which a keyboard can't type.
    page.evaluate(
        """text => { const area = document.querySelector('#story textarea'); area.value = text;
        area.dispatchEvent(new Event('input', {bubbles: true})) }""",
        "Omar\0 ran.\tNadia\u0007 too.",
    )
    page.get_by_role("button", name="Score").click()
    page.wait_for_function(
        "document.querySelector('.shaded').textContent.includes('too')", timeout=WAIT
    )
    assert shown(page).text_content() == "Omar\ufffd ran.\tNadia\ufffd too."


def test_an_error_is_one_sentence_and_disappears(page):
    score(page, "   ")
    page.get_by_role("alert").wait_for()
    assert (
        page.get_by_role("alert").text_content()
        == "There is no story yet: paste one, or open a text file."
    )
    score(page, OMAR, "one pass")
    shown(page)
    assert page.get_by_role("alert").count() == 0


def test_two_thousand_sentences_in_one_pass(page):
    text = "\n".join(
        f"On day {day} Nadia walked to house number {day * 7} and found nobody."
        for day in range(2_000)
    )
    score(page, text, "one pass")
    assert shown(page).locator(".sentence").count() == 2_000
    assert shown(page).text_content() == text
    assert "The story is longer than the 512 tokens" in page.locator("#status").text_content()
    assert page.locator(".salient li").count() == 400


def seconds_of(process):
    """The CPU time of a process, in seconds."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(process):
    """Wait until a process uses no CPU time; False if it still does after a while."""
    for _ in range(100):
        before = seconds_of(process)
        time.sleep(0.5)
        if seconds_of(process) - before < 0.2:
            return True
    return False


@pytest.mark.parametrize("close", [False, True], ids=["cancel", "close the tab"])
def test_progress_and_cancelling_of_a_long_scoring(page, server, close):
    assert idle(server[1])
    score(page, LONG)
    page.locator("progress").wait_for(timeout=WAIT)
    assert re.search(
        r"Scoring: \d+%, about \d+ (second|minute|hour)s? left",
        page.locator("#status").text_content(),
    )
    assert not page.get_by_role("button", name="Score").is_enabled()
    before = seconds_of(server[1])
    time.sleep(1)
    assert seconds_of(server[1]) - before > 0.3, "it is scoring"
    if close:
        page.close()
    else:
        page.get_by_role("button", name="Cancel").click()
        page.get_by_text("Cancelled. The scoring has stopped.").wait_for(timeout=WAIT)
        assert page.get_by_role("button", name="Score").is_enabled()
    assert idle(server[1])


def test_stories_that_take_too_long_are_refused(page):
    page.get_by_label("Windows").fill("1")
    score(page, " ".join(f"Nadia ran on day {day}." for day in range(2_000)))
    page.get_by_role("alert").wait_for(timeout=WAIT)
    assert (
        "Windows of up to 2,000 sentences take more than"
        in page.get_by_role("alert").text_content()
    )
    assert "choose one pass" in page.get_by_role("alert").text_content()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overlaps_or_overflows(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    score(
        page,
        f"{OMAR}\n\n{'word' * 200} ends.\n\n{'a longer paragraph of some words ' * 30}.",
        "one pass",
    )
    shown(page)
    page.get_by_text("With numbers and scores").click()
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert misplaced(page) == []
    for name in (".shaded", ".extract", ".salient", "#status p"):
        assert page.locator(name).first.evaluate(
            "element => element.scrollWidth <= element.clientWidth + 1"
        ), name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.reload()
    score(page, OMAR, "one pass")
    shown(page)
    page.mouse.move(0, 0)
    # The colours of buttons change gradually.
    page.wait_for_timeout(500)
    found = contrasts(page)
    assert len(found) > 40
    assert found[0][1] >= 4.5, found[0]
    for selector in ("body", ".shaded", "#story textarea", ".sentence.top", ".extract"):
        colour = page.locator(selector).first.evaluate(
            "element => getComputedStyle(element).backgroundColor"
        )
        assert (sum(map(int, re.findall(r"\d+", colour)[:3])) < 300) is (scheme == "dark"), (
            selector,
            colour,
        )


def in_view(page, *selectors):
    """Whether elements are in the window as a whole."""
    box = (
        "element => { const {top, bottom} = element.getBoundingClientRect(); return top >= 0 &&"
        " bottom <= innerHeight }"
    )
    return all(page.locator(selector).evaluate(box) for selector in selectors)


@pytest.mark.parametrize("height", [900, 720])
def test_the_button_and_the_status_are_in_view_without_scrolling(page, height):
    page.set_viewport_size({"width": 1280, "height": height})
    assert in_view(page, "#story", "#open", "#score")
    story = page.get_by_label("Story", exact=True)
    story.focus()
    page.keyboard.insert_text(f"{OMAR}\n\n" * 30)
    assert page.evaluate("scrollY") == 0 and in_view(page, "#story", "#score")
    score(page, OMAR * 20, "one pass")
    shown(page)
    assert "100 sentences" in page.locator("#status").text_content()
    page.evaluate("scrollTo(0, 0)")
    assert in_view(page, "#score", "#status p")


@pytest.mark.parametrize("key", ["Control+Enter", "Meta+Enter"])
def test_control_enter_scores(page, key):
    story = page.get_by_label("Story", exact=True)
    story.fill("Nadia ran. She fell.")
    story.press(key)
    assert shown(page).text_content() == "Nadia ran. She fell." == story.input_value()
    story.fill("Nadia ran. She fell. It rained.")
    page.locator(".sentence").first.press(key)
    page.wait_for_function("document.querySelectorAll('.sentence').length == 3", timeout=WAIT)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_operations_are_explained_before_and_after_scoring(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    guide = page.locator(".guide")
    for words in (
        "summarization",
        "deletion",
        "shifting",
        "disruption",
        "Agrees best with human readers",
    ):
        assert guide.get_by_text(words, exact=words.islower()).first.is_visible()
    score(page, OMAR)
    shown(page)
    assert guide.is_visible()
    for name, words in (
        ("disruption", "second and third sentence"),
        ("deletion", "follows the length"),
    ):
        page.locator("#operation").get_by_label(name, exact=True).check()
        page.locator("#results .hint").get_by_text(words).wait_for(timeout=WAIT)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_example_is_scored_by_one_click(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    unfold_settings(page)
    page.get_by_label("one pass", exact=True).check()
    page.get_by_role("button", name="Try an example").click()
    assert (
        shown(page).text_content()
        == HAUNTED
        == page.get_by_label("Story", exact=True).input_value()
    )
    assert page.locator(".sentence").count() == 22
    labels = page.locator(".plot .numbers span").all_text_contents()
    assert labels == ["1", "5", "10", "15", "20"]
    # Each label is below its sentence: in the middle of a 22nd part of the curve.
    curve = page.locator(".plot svg").bounding_box()
    for label, text in zip(page.locator(".plot .numbers span").all(), labels, strict=True):
        box = label.bounding_box()
        expected = curve["x"] + (int(text) - 0.5) * curve["width"] / 22
        assert (
            abs(box["x"] + box["width"] / 2 - expected) < 2
            and box["y"] >= curve["y"] + curve["height"] - 1
        )


@pytest.mark.parametrize(
    "clipboard", [True, False], ids=["clipboard", "without access to the clipboard"]
)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_extract_is_copied(page, width, clipboard):
    page.set_viewport_size({"width": width, "height": 900})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("navigator.clipboard.writeText('nothing')")
    if not clipboard:  # as on pages of other machines without https
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    text = "Omar cleaned the windows.\n\nA man <b>cried</b> & laughed. He wrote a word."
    score(page, text)
    shown(page)
    page.locator("#k input[type=number]").fill("3")
    page.wait_for_function("document.querySelectorAll('.salient li').length == 3", timeout=WAIT)
    expected = "Omar cleaned the windows.\nA man <b>cried</b> & laughed.\nHe wrote a word."
    assert page.locator(".extract").text_content() == expected
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    story = page.get_by_label("Story", exact=True)
    story.fill("")
    story.press("Control+v")
    assert story.input_value() == expected


@pytest.mark.parametrize("width", WIDTHS)
def test_verse_is_scored_by_lines(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    verse = "The snow had come\nand gone. A man\n\nwent out to look,\nand never ran."
    unfold_settings(page)
    for split, count in (("lines", 4), ("paragraphs", 2), ("sentences", 3)):
        page.get_by_label(split, exact=True).check()
        score(page, verse + split)
        page.wait_for_function(
            f"document.querySelector('.shaded')?.textContent.endsWith('{split}')", timeout=WAIT
        )
        assert shown(page).text_content() == verse + split
        assert page.locator(".sentence").count() == count


@pytest.mark.parametrize("width", WIDTHS)
def test_settings_are_folded_on_a_narrow_page(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    settings, fold = page.locator("#settings"), page.get_by_text("Settings", exact=True)
    assert settings.is_visible() is not fold.is_visible() is (width == 390)
    if width == 390:
        fold.focus()
        page.keyboard.press("Enter")
        assert settings.is_visible()
        assert (
            page.evaluate("document.documentElement.scrollWidth") <= width and misplaced(page) == []
        )
        page.keyboard.press("Enter")
        assert not settings.is_visible()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_book(page, width, tmp_path):
    """Opened, scored, read down to the sentences, copied and downloaded; the story before it is
    gone."""
    page.set_viewport_size({"width": width, "height": 900})
    page.get_by_role("tab", name="A book").click()
    book = tmp_path / "tale.epub"
    book.write_bytes(WRITERS["book3.epub"]("A <b>Tale</b>", BOOK))
    page.locator("#open-book input").set_input_files(book)
    page.get_by_text("tale.epub").wait_for()
    assert misplaced(page) == []
    # By the keyboard; the button of stories is not visible.
    page.keyboard.press("Control+Enter")
    contents = page.locator(".contents")
    contents.wait_for(timeout=WAIT)
    assert "2 chapters, 3 scenes, 6 sentences" in page.locator("#book-status").text_content()
    assert page.locator("#contents h2").text_content() == "A <b>Tale</b>"
    sentence = contents.get_by_text("Nobody knew why.")
    assert not sentence.is_visible()
    contents.get_by_text("Chapter 2: The Mill").click()
    sentence.wait_for()
    assert "summarization" in sentence.get_attribute("title")
    assert not page.locator(".invitation").is_visible() and misplaced(page) == []
    before = page.locator("#book-extract .extract").text_content()
    page.locator("#share input[type=number]").fill("50")
    page.wait_for_function(
        "before => document.querySelector('#book-extract .extract').textContent.length > before",
        arg=len(before),
    )
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#book-extract .copy").click()
    page.locator("#book-extract").get_by_text("Copied").wait_for()
    assert (
        page.evaluate("navigator.clipboard.readText()")
        == page.locator("#book-extract .extract").text_content()
    )
    with page.expect_download() as download:
        page.locator("#book-results").get_by_role("link", name="JSON").click()
    saved = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert saved["levels"] == ["chapter", "scene", "sentence"]
    page.get_by_role("tab", name="A story").click()
    score(page, OMAR)
    shown(page)
    assert not contents.is_visible()


def test_a_book_that_can_not_be_read(page, tmp_path):
    page.get_by_role("tab", name="A book").click()
    (tmp_path / "book.epub").write_bytes(b"no archive")
    page.locator("#open-book input").set_input_files(tmp_path / "book.epub")
    page.get_by_text("book.epub").wait_for()
    page.locator("#score-book").click()
    page.locator("#book-status [role=alert]").wait_for(timeout=WAIT)
    assert "Book.epub: " in page.locator("#book-status").text_content()
    assert not page.locator("#book-results").is_visible()
