"""HTML pages and reports in a browser, on narrow and wide screens: layout, contrast, search and
sorting."""

from __future__ import annotations

import pytest

from narrative_twins.show.pages import to_html

from support.browser import browser, contrasts, misplaced  # noqa: F401
from support.results import NASTY, result_of, write_report

pytestmark = pytest.mark.slow

HOSTILE = "<script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\">"
FOUR = ("deletion", "shifting", "disruption", "summarization")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A report of stories with long, hostile and right-to-left text, and a page of some of them."""
    path = tmp_path_factory.mktemp("report") / "r"
    long = ["The old mill burned down and nobody knew. " * 9, "w" * 3000, "He left."] * 12
    hebrew = ["הוא הלך הביתה.", "ירד גשם כל הלילה."]
    results = [
        result_of([HOSTILE, "Plain."], name=HOSTILE, operations=FOUR),
        result_of(long, 5, "long", FOUR),
        result_of(hebrew, name="שלום עולם", operations=FOUR, cut_tokens=7),
        result_of([text for text in NASTY if text.isprintable()], name="n" * 3000),
    ]
    results += [
        result_of([f"Story {i} begins.", "It ends."] * (i + 1), name=f"A-{i}", seed=i)
        for i in range(30)
    ]
    write_report(path, results)
    (path / "page.html").write_text("".join(to_html(results[:4])), encoding="utf-8")
    return path


@pytest.fixture
def at(browser, folder):  # noqa: F811
    """Opens a page of the report, with a width in pixels. External requests, errors and log
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
def test_layout_and_contrast_of_every_page(at, folder, width):
    for name in ("index", "page", *(f"stories/00000{i}" for i in range(1, 5))):
        (path,) = folder.glob(f"{name}*.html")
        page = at(path.relative_to(folder).as_posix(), width)
        assert misplaced(page) == []
        found = contrasts(page)
        assert len(found) > 5 and found[0][1] >= 4.5, found[0]
        assert page.title() != "run"
        assert page.locator("script").count() == (name == "index")


def shown(page):
    return page.locator("tbody tr:visible a").all_text_contents()


def test_searching_and_sorting_by_keyboard(at):
    page = at("index.html", 390)
    assert len(shown(page)) == 34 and page.locator("output").text_content() == "34 of 34 shown"
    page.keyboard.press("Tab")
    page.keyboard.type("BEGINS 29")
    assert shown(page) == ["A-29"] and page.locator("output").text_content() == "1 of 34 shown"
    page.keyboard.press("Control+a")
    page.keyboard.type("<script>")
    assert shown(page) == [HOSTILE]
    page.keyboard.press("Control+a")
    page.keyboard.type("begins")
    page.keyboard.press("Tab")
    page.keyboard.type("sentences, most")
    assert shown(page)[:3] == ["A-29", "A-28", "A-27"] and len(shown(page)) == 30
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/stories/*-a-29.html")
    page.get_by_text("← previous").press("Enter")
    page.wait_for_url("**/stories/*-a-28.html")
    assert page.get_by_role("heading", level=1).text_content().startswith("A-28: ")
    assert page.get_by_role("img", name="Curves of the scores").count() == 1


def test_every_order(at):
    page, first = at("index.html"), {}
    values = "options => options.map(option => option.value)"
    for order in page.locator("#order option").evaluate_all(values):
        page.locator("#order").select_option(order)
        assert len(set(shown(page))) == 34, "sorting keeps all stories"
        first[order] = shown(page)[0]
    assert (first["position"], first["most"]) == (HOSTILE, "A-29")
    assert first["truncated"] == "שלום עולם"
    page.locator("#order").select_option("name")
    names = [name for name in shown(page) if name.startswith("A-")]
    assert names == [f"A-{i}" for i in range(30)], "numbers in names are sorted as numbers"


def test_the_index_works_without_javascript(at):
    page = at("index.html", java_script_enabled=False)
    assert page.locator("tbody tr").count() == 34 and not page.locator(".tools").is_visible()
    page.get_by_role("link", name="A-0", exact=True).click()
    assert page.get_by_role("heading", level=1).text_content().startswith("A-0: ")
