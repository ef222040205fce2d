"""Pages in headless Chromium, on narrow and wide screens, light and dark: nothing is cut off, no
text overlaps or has low contrast, nothing is loaded from elsewhere. The page of results, and the
page that scores a story and a book. Skipped without Chromium."""

import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from narrative_twins.show.pages import to_html

from support.books import WRITERS, WrittenChapter
from support.processes import COMMAND, LIMIT, started
from support.results import NASTY, result_of

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = "no-sandbox disable-gpu disable-quic no-first-run disable-background-networking".split()
ARGUMENTS += ["disable-component-update", "disable-sync"]


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium; tests that use it are skipped if Chromium or playwright is not
    installed."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="install .[app-test]")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"Chromium is not installed as {', '.join(NAMES)}")
    with sync_api.sync_playwright() as play:
        arguments = [f"--{name}" for name in ARGUMENTS]
        chromium = play.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@contextmanager
def opened(browser, address, **options):
    """A page. External requests and errors in the console fail the test."""
    context, requested, problems = browser.new_context(**options), [], []
    context.on("request", lambda sent: requested.append(sent.url))
    context.on("console", lambda told: told.type == "error" and problems.append(told.text))
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    yield page
    context.close()
    assert requested and all(url.startswith((address, "data:", "blob:")) for url in requested)
    assert problems == []


def misplaced(page) -> list[str]:
    """Descriptions of elements outside the left or right edge of the window, and of texts that
    overlap."""
    return page.evaluate(f"() => {{ {_TEXTS} {_MISPLACED} return misplaced(); }}")


def contrasts(page) -> list[tuple[str, float]]:
    """Every visible text with its WCAG 2 contrast to its background, lowest first."""
    return list(map(tuple, page.evaluate(f"() => {{ {_TEXTS} {_CONTRASTS} return contrasts(); }}")))


_TEXTS = """
function visible(element) {
  const {width, height} = element.getBoundingClientRect();
  return width > 0 && height > 0 && element.checkVisibility({opacityProperty: true, visibilityProperty: true});
}
function texts() {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, element = node.parentElement;
    if (!node.data.trim() || !visible(element) || element.closest("script, style, option, title, desc")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    found.push({text: node.data.trim().slice(0, 60), element, boxes: [...range.getClientRects()]});
  }
  return found;
}
"""

_MISPLACED = """
function misplaced() {
  const problems = [], width = document.documentElement.clientWidth, all = texts();
  if (document.documentElement.scrollWidth > width) problems.push("the page scrolls sideways");
  for (const element of document.body.querySelectorAll("*")) {
    if (!visible(element) || element.closest("svg") !== null && element.tagName !== "svg") continue;
    const box = element.getBoundingClientRect();
    if (box.left < -1 || box.right > width + 1)
      problems.push(`<${element.tagName}> from ${box.left} to ${box.right}`);
  }
  const boxes = all.flatMap(text => text.boxes.map(box => ({...text, box}))).sort((a, b) => a.box.top - b.box.top);
  for (const {text, box} of boxes)
    if (box.left < -1 || box.right > width + 1) problems.push(`text from ${box.left} to ${box.right}: ${text}`);
  boxes.forEach((a, i) => {
    for (const b of boxes.slice(i + 1)) {
      if (b.box.top >= a.box.bottom) break;
      const x = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      const y = Math.min(a.box.bottom, b.box.bottom) - b.box.top;
      // Boxes are as high as lines, letters are lower.
      if (a.element !== b.element && x > 1 && y > 0.4 * Math.min(a.box.height, b.box.height))
        problems.push(`${a.text} | ${b.text}`);
    }
  });
  return problems;
}
"""

_CONTRASTS = """
function contrasts() {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  function rgba(colour) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  }
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  function background(element) {
    const layers = [];
    for (let box = element; box; box = box.parentElement) layers.push(rgba(getComputedStyle(box).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  }
  function luminance(colour) {
    const [red, green, blue] = colour.map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }
  return texts().map(({text, element}) => {
    const style = getComputedStyle(element), below = background(element);
    const ink = over(rgba(element.closest("svg") ? style.fill : style.color), below);
    const [high, low] = [luminance(ink), luminance(below)].sort((a, b) => b - a);
    return [text, (high + 0.05) / (low + 0.05)];
  }).sort((a, b) => a[1] - b[1]);
}
"""


# Results

HOSTILE = "<script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\">"
FOUR = ("deletion", "shifting", "disruption", "summarization")


@pytest.mark.slow
@pytest.mark.parametrize("width", (390, 1280))
def test_layout_and_contrast(browser, width, tmp_path):
    """Of stories with long, hostile and right-to-left text."""
    long = ["The old mill burned down and nobody knew. " * 9, "w" * 3000, "He left."] * 12
    hebrew = ["הוא הלך הביתה.", "ירד גשם כל הלילה."]
    results = [
        result_of([HOSTILE, "Plain."], name=HOSTILE, operations=FOUR),
        result_of(long, 5, "long", FOUR),
        result_of(hebrew, name="שלום עולם", operations=FOUR, cut_tokens=7),
        result_of([text for text in NASTY if text.isprintable()], name="n" * 3000),
    ]
    (file := tmp_path / "page.html").write_text("".join(to_html(results)), encoding="utf-8")
    with opened(browser, file.as_uri(), viewport={"width": width, "height": 900}) as page:
        assert misplaced(page) == []
        found = contrasts(page)
        assert len(found) > 5 and found[0][1] >= 4.5, found[0]
        assert page.title() != "run" and page.locator("script").count() == 0


# The page that scores

OMAR = "Omar ran.\n\nHe saw his house. It was on fire! <b>Nobody</b> came.\nIt rained."
BOOK = [WrittenChapter("Chapter 1: The Map", ["Nadia found a map. It rained."], [])]
WAIT = LIMIT * 1000


@pytest.fixture(scope="module")
def address(browser):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(COMMAND, "app", "--port", "0", **pipes) as process:
        yield process.stdout.readline().split()[4]
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
        assert (process.returncode, out, errors) == (130, "", "narrative-twins: interrupted\n")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_story_and_a_book(address, browser, width, scheme, tmp_path):
    options = {"viewport": {"width": width, "height": 900}, "accept_downloads": True}
    with opened(browser, address, color_scheme=scheme, **options) as page:
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
