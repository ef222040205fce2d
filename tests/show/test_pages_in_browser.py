"""HTML pages and reports in a browser, on narrow and wide screens: layout, contrast, search and
sorting."""

from __future__ import annotations

import pytest

from narrative_twins.show.pages import to_html

from support.browser import browser, contrasts, misplaced  # noqa: F401
from support.results import NASTY, result_of, write_report

WIDTHS = (390, 1440)
HOSTILE = "<script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\">"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A report of stories with long, hostile and right-to-left text, and a page of some of them."""
    path = tmp_path_factory.mktemp("report") / "r"
    four = ("deletion", "shifting", "disruption", "summarization")
    results = [
        result_of([HOSTILE, "Plain."], name=HOSTILE, operations=four),
        result_of(
            ["The old mill burned down and nobody knew. " * 9, "w" * 3000, "He left."] * 12,
            5,
            "long",
            four,
        ),
        result_of(
            ["הוא הלך הביתה.", "ירד גשם כל הלילה."], name="שלום עולם", operations=four, cut_tokens=7
        ),
        result_of([text for text in NASTY if text.isprintable()], name="n" * 3000),
        *(
            result_of([f"Story {i} begins.", "It ends."] * (i + 1), name=f"A-{i}", seed=i)
            for i in range(30)
        ),
    ]
    write_report(path, results)
    (path / "page.html").write_text("".join(to_html(results[:4])), encoding="utf-8")
    return path


@pytest.fixture
def at(browser, folder):  # noqa: F811
    """Opens a page of the report, with a width in pixels. External requests, errors and log
    messages fail the test."""
    contexts, problems = [], []

    def show(name, width=1440, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "request",
            lambda sent: (
                problems.append(sent.url) if not sent.url.startswith(folder.as_uri()) else None
            ),
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.goto((folder / name).as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert problems == []


PAGES = (
    "index.html",
    "page.html",
    *(f"stories/{number}" for number in ("000001", "000002", "000003", "000004")),
)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_layout_and_contrast_of_every_page(at, folder, name, width):
    (path,) = folder.glob(f"{name}*")
    page = at(path.relative_to(folder).as_posix(), width)
    assert misplaced(page) == []
    found = contrasts(page)
    assert len(found) > 5 and found[0][1] >= 4.5, found[0]
    assert page.title() != "run"
    assert page.locator("script").count() == (name == "index.html")


def shown(page):
    return page.locator("tbody tr:visible a").all_text_contents()


@pytest.mark.parametrize("width", WIDTHS)
def test_searching_and_sorting_by_keyboard(at, width):
    page = at("index.html", width)
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
    page = at("index.html")
    first = {}
    for order in page.locator("#order option").evaluate_all(
        "options => options.map(option => option.value)"
    ):
        page.locator("#order").select_option(order)
        assert len(set(shown(page))) == 34, "sorting keeps all stories"
        first[order] = shown(page)[0]
    assert (
        first["position"] == HOSTILE
        and first["most"] == "A-29"
        and first["truncated"] == "שלום עולם"
    )
    page.locator("#order").select_option("name")
    names = [name for name in shown(page) if name.startswith("A-")]
    assert names == [f"A-{i}" for i in range(30)], "numbers in names are sorted as numbers"


def test_the_index_works_without_javascript(at):
    page = at("index.html", java_script_enabled=False)
    assert page.locator("tbody tr").count() == 34
    assert not page.locator(".tools").is_visible()
    page.get_by_role("link", name="A-0", exact=True).click()
    assert page.get_by_role("heading", level=1).text_content().startswith("A-0: ")


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        ('<p style="width:500px">wide</p>', 1),
        ('<p>one</p><p style="margin-top:-30px">two</p>', 1),
        ("<p>one</p><p>two</p>", 0),
    ],
)
def test_misplaced(browser, body, problems):  # noqa: F811
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.set_content(f"<body>{body}</body>")
    assert bool(misplaced(page)) == bool(problems)
    page.close()


def test_contrasts(browser):  # noqa: F811
    page = browser.new_page()
    page.set_content(
        '<body style="background:#fff"><p style="color:#777">a</p><p'
        ' style="background:#000a">b</p></body>'
    )
    assert contrasts(page) == [
        ("b", pytest.approx(2.82, abs=0.01)),
        ("a", pytest.approx(4.48, abs=0.01)),
    ]
    page.close()
