"""`make screenshots`: the pictures of pages in the docs and the README, taken in Chromium."""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.browser import chromium
from support.processes import COMMAND, LIMIT, run_command, started

DOCS = Path(__file__).parents[2] / "docs"
BOOK = DOCS.parent / "examples" / "books" / "night_ferry.txt"


def main() -> None:
    """Score the example and take pictures of the page: the whole, and the part with the result."""
    with (
        started(COMMAND, "app", "--port", "0", stdout=subprocess.PIPE) as process,
        chromium() as browser,
    ):
        address = process.stdout.readline().split()[4]
        page = browser.new_page(viewport={"width": 1200, "height": 1000}, color_scheme="light")
        page.goto(address)
        page.get_by_role("button", name="Try an example").click()
        page.get_by_text("Done: 22 sentences").first.wait_for(timeout=LIMIT * 1000)
        page.get_by_role("button", name="Score", exact=True).blur()
        page.mouse.move(0, 0)
        page.wait_for_timeout(1000)  # the ends of animations
        page.screenshot(path=DOCS / "app.png")
        box = page.locator(".reader:visible").bounding_box()
        x, y, width = box["x"] - 20, box["y"] - 10, box["width"] + 40
        clip = {"x": x, "y": y, "width": width, "height": 780}
        page.screenshot(path=DOCS / "haunted_stable.png", clip=clip, full_page=True)
        picture_of_a_book(browser)
        print(*(DOCS / name for name in ("app.png", "haunted_stable.png", "book.png")), sep=", ")


def picture_of_a_book(browser: Any) -> None:
    """Take a picture of the page that `book` writes."""
    with TemporaryDirectory() as folder:
        written = Path(folder) / "book.html"
        run_command(COMMAND, "book", BOOK, "--out", written, "--quiet")
        page = browser.new_page(viewport={"width": 1000, "height": 890}, color_scheme="light")
        page.goto(written.as_uri())
        page.screenshot(path=DOCS / "book.png")


if __name__ == "__main__":
    main()
