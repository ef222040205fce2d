"""A headless browser, and checks of pages: elements that are cut off, text that overlaps or has low
contrast."""

from __future__ import annotations

import shutil

import pytest

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
