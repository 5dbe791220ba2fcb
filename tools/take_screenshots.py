"""Take pictures of the report of a sweep: docs/assets/report-light.png and docs/assets/report-dark.png.

    python -m tools.take_screenshots DIRECTORY

DIRECTORY is a sweep with its report.html, such as tools.record_terminal keeps. Needs Debian's chromium and
chromium-driver.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.browser.webdriver import Browser, missing

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "docs" / "assets"
WIDTH, HEIGHT = 1100, 1085
COLOURS = 128
"""Enough for text and flat figures; a third of the bytes of full colour."""


def main(arguments: list[str]) -> int:
    """Take both pictures and say where they are."""
    absent = missing()
    if absent or len(arguments) != 1:
        print(absent or "give the directory of a sweep", file=sys.stderr)
        return 2
    page = Path(arguments[0]) / "report.html"
    with tempfile.TemporaryDirectory() as temporary, Browser(Path(temporary) / "profile") as browser:
        browser.size(WIDTH, HEIGHT)
        for scheme in ("light", "dark"):
            browser.colours(scheme)
            browser.open(page)
            whole = Path(temporary) / f"{scheme}.png"
            browser.screenshot(whole)
            target = ASSETS / f"report-{scheme}.png"
            target.write_bytes(small(whole.read_bytes()))
            print(f"{target.relative_to(ROOT)}: {target.stat().st_size // 1024} kB")
    return 0


def small(png: bytes) -> bytes:
    """Return the upper part of a picture in few colours."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture = picture.crop((0, 0, picture.width, min(picture.height, HEIGHT)))
    written = io.BytesIO()
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return written.getvalue()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
