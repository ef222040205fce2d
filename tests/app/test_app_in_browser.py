"""The web page as a reader sees it, in Chromium: served by the command, with the default encoder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.browser import browser, contrasts, misplaced  # noqa: F401

pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")

ROOT = Path(__file__).parents[2]
OMAR = (ROOT / "examples" / "stories" / "window_cleaner.txt").read_text(encoding="utf-8").strip()
HOSTILE = (
    "<script>document.title = 'broken'</script> Omar ran. ${1+1} {{value}} *she* said.\n\n"
    "<img src=x onerror='document.title=1'> שלום עולם. The end &amp; more."
)
LONG = " ".join(f"On day {day} Nadia walked to house number {day * 7} and found nobody." for day in range(300))
WAIT = 120_000


@pytest.fixture(scope="module")
def server(browser):  # noqa: F811
    """The address of the page, and its process, which Ctrl-C ends quietly while it computes."""
    command = [str(Path(sys.executable).with_name("narrative-twins")), "app", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().split()[4]
        yield address, process
        page = browser.new_page()  # noqa: F811
        page.goto(address)
        score(page, LONG)
        page.locator("progress").wait_for(timeout=WAIT)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
        page.close()
        assert (process.returncode, out, errors) == (130, "", "narrative-twins: interrupted\n")


@pytest.fixture
def page(server, browser):  # noqa: F811
    """The page, which asks nobody else for anything and has nothing to complain of."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    found = context.new_page()
    asked, complaints = [], []
    context.on("request", lambda request: asked.append(request.url))
    context.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.goto(server[0])
    found.get_by_role("button", name="Score").wait_for()
    yield found
    context.close()
    assert asked and all(url.startswith((server[0], "data:", "blob:")) for url in asked), asked
    assert complaints == []


def score(page, text, how="exact"):
    page.get_by_label("Story", exact=True).fill(text)
    page.get_by_label(how, exact=True).check()
    page.get_by_role("button", name="Score").click()


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
    # By summarization the second or third carries the story, next to each other in every precision; by shifting the
    # first.
    ground, strongest = "one => getComputedStyle(one).backgroundColor", "rgb(242, 158, 76)"
    assert strongest in {sentences.nth(at).evaluate(ground) for at in (1, 2)}
    assert sentences.nth(0).evaluate(ground) == "rgb(255, 255, 255)"
    page.get_by_label("shifting", exact=True).last.check()
    page.wait_for_function("document.querySelector('.shaded').ariaLabel.endsWith('shifting')")
    assert sentences.nth(0).evaluate(ground) == strongest != sentences.nth(1).evaluate(ground)
    assert page.locator(".curve svg polyline").count() == 1
    assert [item.get_attribute("value") for item in page.locator(".salient li").all()] == ["1", "2", "3", "4", "5"]


def readout(sentence):
    """What stands at the foot of the window."""
    content = sentence.evaluate("one => getComputedStyle(one, '::after').content")
    return "" if content in ("none", "normal") else content.strip('"')


def test_scores_by_pointer_and_by_keyboard(page):
    score(page, OMAR)
    sentences = shown(page).locator(".sentence")
    assert readout(sentences.nth(1)) == ""
    sentences.nth(1).hover()
    assert re.search(r"Sentence 2 of 5, rank [12] by summarization: deletion 0\.\d{3}", readout(sentences.nth(1)))
    page.mouse.move(0, 0)
    assert readout(sentences.nth(1)) == ""
    sentences.nth(0).focus()
    assert "Sentence 1 of 5" in readout(sentences.nth(0))
    for key, at in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        assert sentences.nth(at).evaluate("one => one === document.activeElement")
    assert "Sentence 2 of 5" in readout(sentences.nth(1))


def test_without_a_mouse(page):
    """Tab goes to the story, the score button and the text that comes back."""

    def tab_to(selector):
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate(f"document.activeElement.matches({selector!r})"):
                return
        raise AssertionError(f"tab does not come to {selector}")

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


def open_file(page, path):
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open a text file").click()
    chooser.value.set_files(path)


def test_a_file_is_opened(page, tmp_path):
    path = tmp_path / "tale.txt"
    path.write_text(OMAR)
    open_file(page, path)
    story = page.get_by_label("Story", exact=True)
    page.wait_for_function("document.querySelector('#story textarea').value.length > 0")
    assert story.input_value() == OMAR
    path.write_bytes("Über ihm saß ein Rabe.".encode("latin-1"))
    open_file(page, path)
    page.get_by_role("alert").wait_for()
    assert "is not UTF-8 at byte 0" in page.get_by_role("alert").text_content()
    assert story.input_value() == OMAR


def test_any_text_is_text(page):
    score(page, HOSTILE, "one pass")
    assert shown(page).text_content() == HOSTILE
    assert shown(page).locator("script, img, em, a").count() == 0
    assert page.title() == "Narrative salience"
    assert "The scores are approximate (one-pass)" in page.locator("#status").text_content()
    # What a keyboard can't type: control characters, half characters.
    page.evaluate(
        """text => { const area = document.querySelector('#story textarea'); area.value = text;
        area.dispatchEvent(new Event('input', {bubbles: true})) }""",
        "Omar\0 ran.\tNadia\u0007 too.",
    )
    page.get_by_role("button", name="Score").click()
    page.wait_for_function("document.querySelector('.shaded').textContent.includes('too')", timeout=WAIT)
    assert shown(page).text_content() == "Omar\ufffd ran.\tNadia\ufffd too."


def test_an_error_is_a_sentence_and_goes(page):
    score(page, "   ")
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("alert").text_content() == "There is no story yet: paste one, or open a text file."
    score(page, OMAR, "one pass")
    shown(page)
    assert page.get_by_role("alert").count() == 0


def test_two_thousand_sentences_in_one_pass(page):
    text = "\n".join(f"On day {day} Nadia walked to house number {day * 7} and found nobody." for day in range(2_000))
    score(page, text, "one pass")
    assert shown(page).locator(".sentence").count() == 2_000
    assert shown(page).text_content() == text
    assert "The story was cut" in page.locator("#status").text_content()
    assert page.locator(".salient li").count() == 5


def seconds_of(process):
    """Seconds of computing a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(process):
    """Wait until a process computes no more."""
    for _ in range(100):
        before = seconds_of(process)
        time.sleep(0.5)
        if seconds_of(process) - before < 0.2:
            return True
    return False


@pytest.mark.parametrize("leave", [False, True], ids=["cancel", "close the tab"])
def test_long_exact_scoring_is_told_of_and_stops(page, server, leave):
    assert idle(server[1])
    score(page, LONG)
    page.locator("progress").wait_for(timeout=WAIT)
    assert re.search(r"Scoring: \d+%, about \d+ (second|minute|hour)s? left", page.locator("#status").text_content())
    assert not page.get_by_role("button", name="Score").is_enabled()
    before = seconds_of(server[1])
    time.sleep(1)
    assert seconds_of(server[1]) - before > 0.3, "it computes"
    if leave:
        page.close()
    else:
        page.get_by_role("button", name="Cancel").click()
        page.get_by_text("Cancelled. Nothing is computed any more.").wait_for(timeout=10_000)
        assert page.get_by_role("button", name="Score").is_enabled()
    assert idle(server[1])


def test_hopeless_work_is_refused(page):
    page.get_by_label("Windows").fill("1")
    score(page, " ".join(f"Nadia ran on day {day}." for day in range(2_000)))
    page.get_by_role("alert").wait_for(timeout=WAIT)
    assert "Windows of up to 2,000 sentences take more than" in page.get_by_role("alert").text_content()
    assert "choose one pass" in page.get_by_role("alert").text_content()


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_overlaps_or_overflows(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    score(page, f"{OMAR}\n\n{'word' * 200} ends.\n\n{'a longer paragraph of some words ' * 30}.", "one pass")
    shown(page)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert misplaced(page) == []
    for name in (".shaded", ".salient", "#status p"):
        assert page.locator(name).first.evaluate("one => one.scrollWidth <= one.clientWidth + 1"), name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.reload()
    score(page, OMAR, "one pass")
    shown(page)
    page.mouse.move(0, 0)
    # Buttons change their colour over a while.
    page.wait_for_timeout(500)
    found = contrasts(page)
    assert len(found) > 25
    assert found[0][1] >= 4.5, found[0]
