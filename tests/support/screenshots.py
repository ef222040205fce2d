"""Screenshots of the web page for the README: `make screenshots`."""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from support.browser import ARGUMENTS, NAMES
from support.processes import COMMAND, LIMIT, started

STORIES = Path(__file__).parents[2] / "examples" / "stories"
VIEWS = {"app": (1280, 980, "haunted_stable"), "app-narrow": (390, 860, "window_cleaner")}


def take(folder: Path) -> None:
    """Serve the page, and save each screenshot, with the pointer on a sentence."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    command = COMMAND, "app", "--port", "0"
    with started(*command, stdout=subprocess.PIPE) as server, sync_playwright() as playwright:
        address = server.stdout.readline().split()[4]
        chromium = playwright.chromium.launch(
            executable_path=next(filter(None, map(shutil.which, NAMES))), args=ARGUMENTS
        )
        for name, (width, height, story) in VIEWS.items():
            page = chromium.new_page(viewport={"width": width, "height": height})
            page.goto(address)
            page.get_by_label("Story", exact=True).fill(
                (STORIES / f"{story}.txt").read_text(encoding="utf-8")
            )
            page.get_by_role("button", name="Score").click()
            page.locator(".shaded").wait_for(timeout=LIMIT * 1000)
            page.locator("#story textarea").evaluate(
                "area => { area.scrollTop = 0; scrollTo(0, 0) }"
            )
            page.locator("#results").evaluate(
                "element => { if (innerWidth < 800) element.scrollIntoView() }"
            )
            page.locator(".sentence").nth(1).hover()
            page.wait_for_timeout(500)
            # Pages have few colours; with a palette the files are much smaller.
            screenshot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            screenshot.quantize(128, dither=Image.Dither.NONE).save(
                folder / f"{name}.png", optimize=True
            )
            print(f"{folder / name}.png, {(folder / f'{name}.png').stat().st_size // 1000} kB")
        chromium.close()
        server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    if not any(map(shutil.which, NAMES)):
        sys.exit(f"Chromium is not installed as {', '.join(NAMES)}")
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    take(folder)
