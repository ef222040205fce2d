"""HTML pages in a browser, on narrow and wide screens: layout and contrast."""

from __future__ import annotations

import pytest

from narrative_twins.show.pages import to_html

from support.browser import browser, contrasts, misplaced  # noqa: F401
from support.results import NASTY, result_of

pytestmark = pytest.mark.slow

HOSTILE = "<script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\">"
FOUR = ("deletion", "shifting", "disruption", "summarization")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A page of stories with long, hostile and right-to-left text."""
    path = tmp_path_factory.mktemp("pages")
    long = ["The old mill burned down and nobody knew. " * 9, "w" * 3000, "He left."] * 12
    hebrew = ["הוא הלך הביתה.", "ירד גשם כל הלילה."]
    results = [
        result_of([HOSTILE, "Plain."], name=HOSTILE, operations=FOUR),
        result_of(long, 5, "long", FOUR),
        result_of(hebrew, name="שלום עולם", operations=FOUR, cut_tokens=7),
        result_of([text for text in NASTY if text.isprintable()], name="n" * 3000),
    ]
    (path / "page.html").write_text("".join(to_html(results)), encoding="utf-8")
    return path


@pytest.fixture
def at(browser, folder):  # noqa: F811
    """Opens a page, with a width in pixels. External requests, errors and log
    messages fail the test."""
    contexts, problems = [], []

    def requested(sent):
        if not sent.url.startswith(folder.as_uri()):
            problems.append(sent.url)

    def show(name, width=1440, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", requested)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.goto((folder / name).as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert problems == []


@pytest.mark.parametrize("width", (390, 1280))
def test_layout_and_contrast(at, folder, width):
    page = at("page.html", width)
    assert misplaced(page) == []
    found = contrasts(page)
    assert len(found) > 5 and found[0][1] >= 4.5, found[0]
    assert page.title() != "run" and page.locator("script").count() == 0
