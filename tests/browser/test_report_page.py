"""The report in a real Chromium. Screenshots of every view are left in build/screenshots/."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import SCREENSHOTS
from tests.browser.webdriver import ENTER, SPACE, TAB

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.webdriver import Browser

pytestmark = pytest.mark.browser

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
ORDER = (
    "return [...document.querySelectorAll('table.sortable tbody tr')].map(row => row.cells[arguments[0]].textContent)"
)
COLUMN = "return [...document.querySelectorAll('table.sortable th')].findIndex(th => th.textContent === arguments[0])"

# Names and roles, as assistive technology computes them.
UNNAMED = """
const named = (element) => (element.getAttribute('aria-label') || element.textContent || '').trim()
  || element.getAttribute('aria-labelledby');
return [...document.querySelectorAll('a, button, summary, svg[role=img], figure, section, nav, [role=region], pre')]
  .filter(element => !named(element)).map(element => element.outerHTML.slice(0, 80));
"""

# Text against the nearest opaque background: WCAG 2.2, 1.4.3. Text of charts is checked by its inks in the unit tests.
FAINT = """
const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = numbers(getComputedStyle(e).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const faint = [];
for (const element of document.querySelectorAll('body *:not(svg *):not(script)')) {
  if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
  if (!element.checkVisibility()) continue;
  const pair = [light(numbers(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => b - a);
  const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
  if (contrast < 4.5) faint.push(`${contrast.toFixed(2)} ${element.outerHTML.slice(0, 60)}`);
}
return faint;
"""


def show(browser: Browser, page: Path, size: str = "desktop", scheme: str = "light") -> None:
    browser.size(*SIZES[size])
    browser.colours(scheme)
    browser.open(page)


def focused(browser: Browser) -> str:
    return str(browser.script("return document.activeElement.textContent"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("which", ["report", "faulty"])
def test_page_fits_reads_and_is_silent(
    browser: Browser, request: pytest.FixtureRequest, which: str, size: str, scheme: str
) -> None:
    browser.log("browser")
    show(browser, request.getfixturevalue(which), size, scheme)
    browser.screenshot(SCREENSHOTS / f"{which}-{size}-{scheme}.png")
    assert browser.log("browser") == []
    assert browser.script("return document.documentElement.scrollWidth") <= SIZES[size][0]
    assert browser.script(FAINT) == []
    paper = browser.script("return getComputedStyle(document.documentElement).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 29)"}[scheme]


@pytest.mark.parametrize("size", SIZES)
def test_text_of_charts_is_large_enough(browser: Browser, report: Path, size: str) -> None:
    show(browser, report, size)
    heights = browser.script(
        "return [...document.querySelectorAll('svg text')].filter(t => t.checkVisibility())"
        ".map(t => t.getBoundingClientRect().height)"
    )
    assert len(heights) > 40
    assert min(heights) >= 11


@pytest.mark.parametrize("size", SIZES)
def test_text_of_charts_is_not_cut_off(browser: Browser, report: Path, size: str) -> None:
    show(browser, report, size)
    cut = browser.script(
        "return [...document.querySelectorAll('svg')].filter(s => s.checkVisibility()).flatMap(s => {"
        " const frame = s.getBoundingClientRect();"
        " return [...s.querySelectorAll('text')].filter(t => { const b = t.getBoundingClientRect();"
        " return b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 1"
        " || b.bottom > frame.bottom + 1; }).map(t => t.textContent); })"
    )
    assert [text for text in cut if "script" not in text] == []  # the evil arm's name is longer than any allowed one


def test_no_request_leaves_the_page(browser: Browser, report: Path) -> None:
    browser.log("performance")
    show(browser, report)
    messages = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked == [report.resolve().as_uri()]


def test_text_of_logs_is_text(browser: Browser, report: Path) -> None:
    show(browser, report)
    assert browser.script("return document.title").startswith("Does speculation pay?")
    assert browser.script("return document.scripts.length") == 1
    assert browser.script("return document.images.length") == 0
    assert "<script>" in browser.script("return document.querySelector('#failed').parentElement.textContent")


def test_the_policy_stops_a_script_that_got_in(browser: Browser, report: Path) -> None:
    show(browser, report)
    browser.script(
        "const s = document.createElement('script'); s.textContent = \"document.title = 'owned'\";"
        "document.body.append(s);"
    )
    assert browser.script("return document.title") != "owned"
    browser.log("browser")


def test_table_sorts_by_keyboard(browser: Browser, report: Path) -> None:
    show(browser, report)
    column = browser.script(COLUMN, "tok/s")
    before = browser.script(ORDER, column)
    browser.script("document.querySelectorAll('table.sortable th button')[arguments[0] - 1].focus()", column)
    browser.keys(TAB)
    assert focused(browser) == "tok/s"
    browser.keys(ENTER)
    sort = "return document.querySelectorAll('table.sortable th')[arguments[0]].getAttribute('aria-sort')"
    assert browser.script(sort, column) == "ascending"
    rising = browser.script(ORDER, column)
    assert rising[:-1] == sorted(before, key=lambda text: float("inf") if text == "-" else float(text))[:-1]
    assert rising[-1] == "-"
    browser.keys(SPACE)
    assert browser.script(sort, column) == "descending"
    falling = browser.script(ORDER, column)
    assert float(falling[0]) == max(float(text) for text in before if text != "-")
    assert falling[-1] == "-"
    assert browser.script("return document.getElementById('status').textContent") == "Sorted by tok/s, descending."
    assert browser.script("return document.querySelectorAll('[aria-sort]').length") == 1


def test_focus_starts_at_the_skip_link_and_is_visible(browser: Browser, report: Path) -> None:
    show(browser, report)
    browser.keys(TAB)
    assert focused(browser) == "To the verdict"
    assert browser.script("return document.activeElement.getBoundingClientRect().left") >= 0
    assert browser.script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_colours_can_be_switched(browser: Browser, report: Path) -> None:
    show(browser, report, scheme="light")
    paper = "return getComputedStyle(document.documentElement).backgroundColor"
    light = browser.script(paper)
    browser.script("document.getElementById('theme').focus()")
    browser.keys(SPACE)
    assert browser.script(paper) != light
    assert browser.script("return document.getElementById('theme').getAttribute('aria-pressed')") == "true"
    browser.keys(SPACE)
    assert browser.script(paper) == light


def test_everything_has_a_name_and_a_place(browser: Browser, report: Path) -> None:
    show(browser, report)
    assert browser.script(UNNAMED) == []
    counts: dict[str, Any] = browser.script(
        "return Object.fromEntries(['main', 'header', 'nav', 'footer', 'h1'].map("
        "name => [name, document.querySelectorAll(name).length]))"
    )
    assert set(counts.values()) == {1}
    assert browser.script("return [...document.querySelectorAll('table')].every(t => t.caption)")
    assert browser.script("return [...document.querySelectorAll('th')].every(th => th.scope)")
    levels = browser.script("return [...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))
    # What the browser tells a screen reader about a figure.
    nodes = browser.cdp("Accessibility.getFullAXTree")["nodes"]
    images = [node for node in nodes if node.get("role", {}).get("value") in {"image", "img"}]
    assert len(images) == 5
    assert all("simulated" in node["name"]["value"] or "Phases" in node["name"]["value"] for node in images)


def test_scrolling_parts_can_be_reached_by_keyboard(browser: Browser, report: Path) -> None:
    show(browser, report, "phone")
    stuck = browser.script(
        "return [...document.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1"
        " && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0).map(e => e.outerHTML)"
    )
    assert stuck == []


def test_works_without_javascript(browser: Browser, report: Path) -> None:
    browser.cdp("Emulation.setScriptExecutionDisabled", value=True)
    try:
        show(browser, report)
        browser.screenshot(SCREENSHOTS / "report-without-javascript.png")
    finally:
        browser.cdp("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.script("return document.querySelectorAll('table.sortable tbody tr').length") == 12
    assert not browser.script("return document.getElementById('theme').checkVisibility()")


def test_prints(browser: Browser, report: Path) -> None:
    show(browser, report, scheme="dark")
    pdf = browser.print_to_pdf()
    assert pdf.startswith(b"%PDF")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / "report.pdf").write_bytes(pdf)
    browser.media("print")
    try:
        assert (
            browser.script("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
        )
        assert not browser.script("return document.querySelector('nav').checkVisibility()")
    finally:
        browser.media("")
