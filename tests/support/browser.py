"""Headless Chromium for tests of pages: what it shows, and what axe-core finds.

Without Chromium, playwright or axe-core the tests are skipped with a warning; where
`REQUIRE_BROWSER` is set in the environment, as by `.ci/run`, they fail.
"""

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.processes import LIMIT

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = "no-sandbox disable-gpu disable-quic no-first-run disable-background-networking".split()
ARGUMENTS += ["disable-component-update", "disable-sync"]
AXE = Path(sys.prefix) / "axe" / "node_modules" / "axe-core" / "axe.min.js"
IGNORED = "Method not implemented."
"""What gradio's client says when it closes the stream of an upload."""


def missing(what: str) -> None:
    """Skip a test, or fail in continuous integration, as something is not installed."""
    message = f"PAGES ARE NOT TESTED IN A BROWSER: {what}; `make test-app` says what is needed"
    if os.environ.get("REQUIRE_BROWSER"):
        pytest.fail(message)
    warnings.warn(message, stacklevel=2)
    pytest.skip(message)


@contextmanager
def chromium() -> Iterator[Any]:
    """Headless Chromium of the system, or `missing` is called."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (pip install .[app-test])")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing(f"Chromium is not installed as {', '.join(NAMES)}")
    with sync_playwright() as play:
        arguments = [f"--{name}" for name in ARGUMENTS]
        browser = play.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@contextmanager
def opened(browser: Any, address: str, width: int = 1200, **options: Any) -> Iterator[Any]:
    """A page. External requests and messages in the console fail the test."""
    size = {"width": width, "height": 900}
    context, requested, messages = browser.new_context(viewport=size, **options), [], []
    context.on("request", lambda sent: requested.append(sent.url))
    context.on("console", lambda told: messages.append(f"{told.type}: {told.text}"))
    context.set_default_timeout(LIMIT * 1000)
    page = context.new_page()
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(address)
    try:
        yield page
    finally:
        context.close()
    assert requested and all(url.startswith((address, "data:", "blob:")) for url in requested)
    assert [message for message in messages if not message.endswith(IGNORED)] == []


def accessibility(page: Any) -> list[str]:
    """What axe-core finds on a page that is serious or worse: the rule and the element."""
    if not AXE.exists():
        missing(f"axe-core is not at {AXE}")
    # In the world of the tests, which the policy of the page does not concern.
    found = page.evaluate(f"async () => {{ {AXE.read_text('utf-8')}; return await axe.run(); }}")
    return [
        f"{each['id']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def sideways(page: Any) -> int:
    """By how many pixels a page is wider than its window."""
    code = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return page.evaluate(code)


def misplaced(page: Any) -> list[str]:
    """Descriptions of texts that reach over the left or right edge of the window, and of texts that
    overlap."""
    return page.evaluate(f"() => {{ {_TEXTS} {_MISPLACED} return misplaced(); }}")


def contrasts(page: Any) -> list[tuple[str, float]]:
    """Every visible text with its WCAG 2 contrast to its background, lowest first. Transitions, such
    as that of a button that is enabled, are brought to their end before."""
    code = f"() => {{ {_TEXTS} {_AT_REST} {_CONTRASTS} return contrasts(); }}"
    return list(map(tuple, page.evaluate(code)))


_TEXTS = """
function visible(element) {
  const {width, height} = element.getBoundingClientRect();
  return width > 0 && height > 0 && element.checkVisibility({opacityProperty: true, visibilityProperty: true});
}
function texts() {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, element = node.parentElement;
    if (!node.data.trim() || !visible(element) || element.closest("script, style, option, title, desc, [aria-hidden=true]")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    // The part that a scrolling box shows.
    let box = element;
    while (box && !/auto|scroll|hidden/.test(getComputedStyle(box).overflow)) box = box.parentElement;
    const {top, bottom} = box?.getBoundingClientRect() ?? {top: -Infinity, bottom: Infinity};
    const boxes = [...range.getClientRects()].filter(each => each.top >= top && each.bottom <= bottom);
    found.push({text: node.data.trim().slice(0, 60), element, boxes});
  }
  return found;
}
"""

_AT_REST = """
for (const each of document.getAnimations()) if (each instanceof CSSTransition) each.finish();
"""

_MISPLACED = """
function misplaced() {
  const problems = [], width = document.documentElement.clientWidth, all = texts();
  if (document.documentElement.scrollWidth > width) problems.push("the page scrolls sideways");
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
