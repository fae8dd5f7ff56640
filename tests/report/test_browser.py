"""The report in a real browser: no errors, pointer and keyboard, phone, dark colours, print."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from mercer.report import write_report
from tests.helpers.comparisons import HOSTILE, comparison

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator:
    """Open the page of a kind of data; whatever the console says against it, or it fetches, fails."""
    complaints: list[str] = []
    contexts = []

    def open_page(kind: str, width: int = 1200, **options) -> Page:
        path = tmp_path / f"{kind}.html"
        write_report(comparison(kind), kind, path)
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda r: complaints.append(r.url) if r.url[:5] not in ("file:", "data:") else None,
        )
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def tip(page: Page) -> str | None:
    box = page.locator("#tip")
    return box.text_content() if box.evaluate("node => node.style.visibility") == "visible" else None


def overflow(page: Page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def place(page: Page, node: str) -> tuple[float, float]:
    box = page.locator(node).first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("kind", ["counts", "regression", "strings", "many classes"])
def test_every_figure_is_drawn(visit, kind: str) -> None:
    page = visit(kind)
    figures = page.locator("[data-plot]")
    for i in range(figures.count()):
        svg = figures.nth(i).locator("svg")
        assert svg.get_attribute("aria-label")
        assert svg.locator("path, rect, image, circle").count() > 0
    points = len(comparison(kind).target.y)
    assert page.locator('[data-plot="map"] path.point').count() == points
    assert overflow(page) == 0
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_timeout(50)
    assert overflow(page) == 0


def hover(page: Page, figure: str, mark: str) -> str | None:
    page.locator(f'[data-plot="{figure}"] svg').first.scroll_into_view_if_needed()
    page.wait_for_timeout(50)  # the end of scrolling takes tips away
    page.mouse.move(*place(page, f'[data-plot="{figure}"] {mark}'))
    return tip(page)


def test_labels_of_the_response_are_not_cut_off_on_phones(visit) -> None:
    page = visit("counts", width=320)
    for family in page.locator('input[name="family"]').all():
        family.check(force=True)
        assert page.locator('[data-plot="response"]').evaluate(
            "p => [...p.querySelectorAll('text')].every(t => t.getBoundingClientRect().right"
            " <= p.getBoundingClientRect().right + 1)"
        )


def test_a_shadow_says_that_there_is_more_to_scroll_to(visit) -> None:
    scroll = visit("counts", width=400).locator(".scroll").first
    assert scroll.evaluate("p => p.scrollWidth > p.clientWidth")
    assert "local, scroll" in scroll.evaluate("p => getComputedStyle(p).backgroundAttachment")


def test_pointer(visit) -> None:
    page = visit("counts")
    text = hover(page, "map", "path.point")
    assert text.startswith("row ")
    assert "predicted" in text
    page.mouse.move(2, 2)
    assert tip(page) is None
    assert "outer folds" in hover(page, "response", "rect")
    assert hover(page, "heat", "image").startswith("similarity ")
    assert "of pairs of one class" in hover(page, "pairs", "svg")
    assert "exact heat" in hover(page, "curves", "svg")
    page.mouse.wheel(0, 40)
    page.wait_for_function("document.getElementById('tip').style.visibility === 'hidden'")


def test_touch(visit) -> None:
    page = visit("counts", width=390, has_touch=True)
    page.locator('[data-plot="map"] svg').scroll_into_view_if_needed()
    page.wait_for_timeout(50)
    page.touchscreen.tap(*place(page, '[data-plot="map"] path.point'))
    page.wait_for_timeout(50)
    assert tip(page).startswith("row ")
    page.touchscreen.tap(*place(page, '[data-plot="map"] + div'))
    page.wait_for_timeout(50)
    assert tip(page) is None


def test_keyboard(visit) -> None:
    page = visit("counts")
    for name in ("map", "heat", "response", "pairs", "curves"):
        svg = page.locator(f'[data-plot="{name}"] svg').first
        svg.focus()
        page.keyboard.press("ArrowRight")  # a key makes the focus visible
        before = tip(page)
        assert before
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        if tip(page) == before:
            page.keyboard.press("ArrowLeft")
        assert tip(page) != before
        page.keyboard.press("Escape")
        assert tip(page) is None
    page.locator('input[name="family"]').first.focus()
    shown = page.locator("#kernel").text_content()
    page.keyboard.press("ArrowRight")
    assert page.locator("#kernel").text_content() != shown


def test_choosing_a_kernel_redraws(visit) -> None:
    page = visit("counts", reduced_motion="reduce")
    point = page.locator('[data-plot="map"] path.point').nth(3)
    heat = page.locator('[data-plot="heat"] image')
    before = point.get_attribute("style"), heat.get_attribute("href")
    names = [score.name for score in comparison("counts").scores]
    page.locator('input[name="family"]').nth(len(names) - 1).check(force=True)
    after = point.get_attribute("style"), heat.get_attribute("href")
    assert after[0] != before[0]
    assert after[1] != before[1]
    assert page.locator("#kernel").text_content() == repr(comparison("counts").scores[-1].kernel)
    assert point.evaluate("node => getComputedStyle(node).transitionDuration") == "0s"


def test_classes_and_mistakes(visit) -> None:
    page = visit("directions")
    button = page.locator("#map-key button").first
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert page.locator("path.point.dim").count() == 15
    button.click()
    assert page.locator("path.point.dim").count() == 0
    result = comparison("directions")
    wrong = sum(p != result.target.y[t] for t, p in _first_guesses(result).items())
    page.locator("#mistakes").check()
    assert page.locator("path.point.wrong").count() == wrong
    cell = page.locator("#confusion td[data-count]").first
    count = cell.text_content()
    page.locator('input[value="share"]').check(force=True)
    assert cell.text_content() == cell.get_attribute("data-share")
    page.locator('input[value="count"]').check(force=True)
    assert cell.text_content() == count


def _first_guesses(result) -> dict:
    nested = result.scores[0].nested
    pairs = list(zip(nested.tests, nested.predictions, strict=True))[:2]
    return {int(t): p for test, guess in pairs for t, p in zip(test, guess, strict=True)}


def test_hostile_names_stay_text(visit) -> None:
    page = visit("many classes")
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    title = page.locator("#map-key button").first.get_attribute("title")
    assert title.startswith(HOSTILE)


CONTRAST = """() => {
  const light = (c) => {
    const [r, g, b] = c.match(/[\\d.]+/g).map(Number)
      .map((v) => (c.startsWith("color(") ? v : v / 255))
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (node) => {
    for (; node; node = node.parentElement) {
      const c = getComputedStyle(node).backgroundColor;
      if (c !== "rgba(0, 0, 0, 0)") return c;
    }
  };
  const worst = { ratio: 99 };
  const check = (front, back, text) => {
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst.ratio) Object.assign(worst, { ratio, text, front, back });
  };
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || node.closest("svg, script, #tip, noscript, .hidden")) continue;
    check(getComputedStyle(node).color, background(node), node.textContent);
  }
  document.querySelectorAll('[data-plot="response"] rect:not(.cursor)').forEach((rect) => {
    check(getComputedStyle(rect.nextSibling).fill, getComputedStyle(rect).fill, "response");
  });
  document.querySelectorAll("svg text.soft").forEach((text) => {
    check(getComputedStyle(text).fill, background(text.closest("figure")), "axis");
  });
  return worst;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(visit, scheme: str) -> None:
    page = visit("counts", color_scheme=scheme)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 21, 27)"
    assert dark == (scheme == "dark")
    worst = page.evaluate(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


def test_colours_follow_the_system(visit) -> None:
    page = visit("counts", color_scheme="light")
    picture = page.locator('[data-plot="heat"] image')
    light = picture.get_attribute("href")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "old => document.querySelector('[data-plot=heat] image').getAttribute('href') !== old", arg=light
    )
    page.emulate_media(color_scheme="dark", media="print")
    page.wait_for_function(
        "old => document.querySelector('[data-plot=heat] image').getAttribute('href') === old", arg=light
    )
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()


def test_without_a_script(visit) -> None:
    page = visit("counts", java_script_enabled=False)
    assert page.locator("#verdict").is_visible()
    assert page.locator("#leaderboard tbody tr").count() == 3
    assert page.locator(".scores .dot").first.is_visible()
    assert page.locator("#confusion").is_visible()
    assert page.get_by_text("which did not run").is_visible()
    assert page.locator('input[name="family"]').first.is_hidden()
