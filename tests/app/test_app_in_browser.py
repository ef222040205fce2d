"""The page in headless Chromium: a story is scored and read, as is a book, and the scoring can be
cancelled. Skipped without Chromium."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from support.books import WRITERS, WrittenChapter
from support.browser import browser, contrasts, misplaced  # noqa: F401
from support.processes import COMMAND, LIMIT, started

pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")

OMAR = "Omar ran.\n\nHe saw his house. It was on fire! <b>Nobody</b> came.\nIt rained."
BOOK = [WrittenChapter("Chapter 1: The Map", ["Nadia found a map. It rained."], [])]
WAIT = LIMIT * 1000


@pytest.fixture(scope="module")
def address(browser):  # noqa: F811
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(COMMAND, "app", "--port", "0", **pipes) as process:
        yield process.stdout.readline().split()[4]
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
        assert (process.returncode, out, errors) == (130, "", "narrative-twins: interrupted\n")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_story_and_a_book(address, browser, width, scheme, tmp_path):  # noqa: F811
    """External requests, errors in the console, texts that overlap and low contrast fail."""
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True)
    page, requested, problems = context.new_page(), [], []
    context.on("request", lambda sent: requested.append(sent.url))
    context.on("console", lambda told: told.type == "error" and problems.append(told.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    page.get_by_label("Story", exact=True).fill(OMAR)
    page.get_by_role("button", name="Score", exact=True).click()
    text = page.locator(".shaded")
    text.wait_for(timeout=WAIT)
    assert text.text_content() == OMAR and text.locator(".sentence").count() == 5
    assert "5 sentences, 1 window." in page.locator("#status").text_content()
    text.locator(".sentence").first.focus()
    page.keyboard.press("ArrowRight")
    focused = "element => element === document.activeElement"
    assert text.locator(".sentence").nth(1).evaluate(focused)
    page.get_by_label("shifting", exact=True).last.check()
    page.locator(".shaded[aria-label$=shifting]").wait_for(timeout=WAIT)
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert Path(download.value.path()).read_bytes().count(b"\n") == 6
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)
    assert misplaced(page) == [] and contrasts(page)[0][1] >= 4.5
    page.get_by_role("button", name="Try an example").click()
    page.get_by_text("22 sentences").wait_for(timeout=WAIT)

    page.get_by_role("tab", name="A book").click()
    book = tmp_path / "tale.epub"
    book.write_bytes(WRITERS["book3.epub"]("A <b>Tale</b>", BOOK))
    page.locator("#book input[type=file]").set_input_files(book)
    page.get_by_text("tale", exact=False).first.wait_for(timeout=WAIT)
    page.get_by_role("button", name="Score the book").click()
    page.locator(".contents").wait_for(timeout=WAIT)
    assert page.locator("#result h2").first.text_content() == "A <b>Tale</b>"
    assert misplaced(page) == []
    context.close()
    assert requested and all(url.startswith((address, "data:", "blob:")) for url in requested)
    assert problems == []
