"""The page in a real browser: no message, no request, and what it shows is what the store holds."""

import csv
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from test_page import EVIL, ODD

from experiments import TWO, Accuracies, stored
from scyc.report import page as pages

pytestmark = pytest.mark.slow
sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
ARGS += " --disable-component-update --disable-sync --no-proxy-server"
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=ARGS.split())
        yield opened
        opened.close()


@dataclass
class Seen:
    """A page with everything it said and asked for."""

    page: Any
    said: list[str] = field(default_factory=list)

    def scrolled(self) -> "Seen":
        """To the end, so that everything is drawn."""
        for y in range(0, self.page.evaluate("document.documentElement.scrollHeight"), 600):
            self.page.evaluate(f"scrollTo(0, {y})")
            self.page.wait_for_timeout(60)
        self.page.wait_for_function(
            "[...document.querySelectorAll('[data-figure]:not([hidden])')].every((box) => box.dataset.drawn)"
        )
        return self


def opened(browser: Any, address: str, *, size: Any = WIDE, scheme: str = "light") -> Seen:
    page = browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True).new_page()
    page.set_default_timeout(60_000)
    seen = Seen(page)
    page.on("console", lambda message: seen.said.append(message.text))
    page.on("pageerror", lambda error: seen.said.append(str(error)))
    page.on(
        "request", lambda one: None if one.url.startswith(("file:", "data:", "blob:")) else seen.said.append(one.url)
    )
    page.goto(address)
    return seen


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return pages.write(stored(tmp_path_factory.mktemp("store"), TWO, doc=EVIL), ["e"]).as_uri()


def marks(seen: Seen, figure: str = "accuracy") -> int:
    """Points that are drawn."""
    return int(seen.page.evaluate(f"document.querySelectorAll('#figure-{figure} .mark-symbol.role-mark path').length"))


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "390"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_says_nothing_asks_for_nothing_and_does_not_scroll_sideways(
    browser: Any, address: str, size: Any, scheme: str
) -> None:
    seen = opened(browser, address, size=size, scheme=scheme).scrolled()
    assert seen.said == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    background = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 24, 27)")


@pytest.mark.parametrize("kind", ODD)
def test_whatever_lies_in_the_store_is_drawn_without_a_word(browser: Any, tmp_path: Path, kind: str) -> None:
    seen = opened(browser, pages.write(stored(tmp_path, ODD[kind]), ["e"]).as_uri()).scrolled()
    assert seen.said == []


def test_the_legend_hides_a_schedule_in_every_chart_and_by_keyboard_too(browser: Any, address: str) -> None:
    seen = opened(browser, address).scrolled()
    before = {name: marks(seen, name) for name in ("accuracy", "stops", "peaks")}
    key = seen.page.get_by_role("button", name="low", exact=True)
    key.click()
    seen.page.wait_for_timeout(300)
    assert {name: marks(seen, name) for name in before} == {name: count // 2 for name, count in before.items()}
    assert key.get_attribute("aria-pressed") == "false"
    key.focus()
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_timeout(300)
    assert {name: marks(seen, name) for name in before} == before


def test_hovering_says_the_numbers_of_the_store(browser: Any, address: str) -> None:
    """S-Cyc's dense network: 90 and 80 %, so 85 ± 7.07."""
    seen = opened(browser, address).scrolled()
    seen.page.evaluate("scrollTo(0, 0)")
    points = seen.page.locator("#figure-accuracy .mark-symbol.role-mark path")
    said = {}
    for k in range(points.count()):
        points.nth(k).scroll_into_view_if_needed()
        box = points.nth(k).bounding_box()
        seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        tip = seen.page.locator("#vg-tooltip-element.visible")
        tip.wait_for()
        seen.page.wait_for_timeout(150)  # for the words of this point
        rows = dict(line.split("\t") for line in tip.inner_text().splitlines() if "\t" in line)
        rows = {name.rstrip(":").strip(): value.strip() for name, value in rows.items()}
        said[rows["schedule"], rows["cycle m"]] = rows
    found = said["scyc", "0"]
    assert found["test accuracy"] == "85.00 ± 7.07 %"
    assert (found["n"], found["weights left"], found["of all weights"]) == ("2", "100.00 %", "100.00 %")
    assert found["peak learning rate"] == "0.1"
    assert said["low", "2"]["test accuracy"] == "77.00 ± 2.83 %"


def test_the_table_shows_the_means_of_the_store(browser: Any, address: str) -> None:
    rows = opened(browser, address).page.locator("#table table").first.locator("tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [
        ["0", "100.00", "100.00", "80.0±0.0", "85.0±7.1", "2"],
        ["1", "50.00", "50.00", "75.0±7.1", "85.0±7.1", "2"],
        ["2", "25.00", "25.00", "77.0±2.8", "75.0±7.1", "2"],
    ]


def test_the_button_turns_light_into_dark_and_the_charts_with_it(browser: Any, address: str) -> None:
    seen = opened(browser, address).scrolled()
    colour = "getComputedStyle(document.querySelector('#figure-accuracy .role-axis-label text')).fill"
    light = seen.page.evaluate(colour)
    seen.page.get_by_role("button", name="Switch between light and dark").click()
    seen.page.wait_for_function(f"{colour} !== '{light}'")
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 27)"
    assert seen.said == []


def test_the_slider_shows_another_cycle(browser: Any, address: str) -> None:
    seen = opened(browser, address).scrolled()
    shown = "document.querySelector('#figure-rate .mark-symbol.role-mark path')?.getAttribute('aria-label')"
    slider = seen.page.locator("#peaks ~ .controls [data-cycle], #peaks [data-cycle]").first
    slider.focus()
    seen.page.keyboard.press("Home")
    seen.page.wait_for_timeout(300)
    assert seen.page.locator("output").first.inner_text() == "m = 0: 100.00 % of the weights left"
    assert seen.page.evaluate(shown)


def test_data_and_pictures_can_be_saved(browser: Any, address: str, tmp_path: Path) -> None:
    seen = opened(browser, address).scrolled()
    for kind in ("csv", "svg", "png"):
        with seen.page.expect_download() as waiting:
            seen.page.locator(f"#figure-accuracy [data-get={kind}]").click()
        waiting.value.save_as(tmp_path / f"figure.{kind}")
    rows = list(csv.DictReader((tmp_path / "figure.csv").read_text().splitlines()))
    assert [float(row["accuracy_percent"]) for row in rows] == pytest.approx([80, 75, 77, 85, 85, 75])
    assert (tmp_path / "figure.svg").read_text().startswith("<svg")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    with seen.page.expect_download() as waiting:
        seen.page.locator("[data-save='e.toml']").click()
    waiting.value.save_as(tmp_path / "e.toml")
    assert "[schedules.scyc]" in (tmp_path / "e.toml").read_text()
    assert seen.said == []


def test_the_first_tab_skips_to_the_results(browser: Any, address: str) -> None:
    seen = opened(browser, address)
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.className") == "skip"
    seen.page.keyboard.press("Enter")
    assert seen.page.evaluate("document.activeElement.id") == "report"


def test_thirty_runs_of_twenty_five_cycles_are_less_than_three_megabytes(browser: Any, tmp_path: Path) -> None:
    labels = ("constant", "decay", "cyclical", "warmup-1", "warmup-2", "scyc")
    values: Accuracies = {
        label: {seed: [0.9 - 0.0123 * m - 0.00391 * seed - 0.00217 * k for m in range(25)] for seed in range(5)}
        for k, label in enumerate(labels)
    }
    steps = list(range(100, 5001, 100))
    losses = [1.0 + 0.123456789 * k / 7 for k in range(50)]
    layers = {f"layer{k}.0.conv1.weight": 0.1 + k / 40 for k in range(22)}
    curves = {"curve_step": steps, "curve_train_loss": losses, "curve_validation_loss": losses}
    more = {**curves, "curve_validation_accuracy": losses, "layers": layers}
    path = pages.write(stored(tmp_path, values, cycles=25, **more), ["e"])
    assert path.stat().st_size < 3_000_000
    seen = opened(browser, path.as_uri()).scrolled()
    assert seen.said == []
    assert marks(seen) == 6 * 25


def test_watch_follows_a_run_and_stops_with_it(browser: Any, tmp_path: Path) -> None:
    run = [sys.executable, "-m", "scyc.cli", "run", "digits", "--root", str(tmp_path / "runs"), "--quiet"]
    run += ["--cycles", "4", "--seeds", "2", "--set", "steps=600"]
    with subprocess.Popen(run, stdout=subprocess.DEVNULL) as training:
        while not (tmp_path / "runs" / ".experiments" / "digits.json").exists():
            assert training.poll() is None
        command = [sys.executable, "-m", "scyc.cli", "watch", "digits", "--root", str(tmp_path / "runs")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
            assert following.stdout
            line = following.stdout.readline()
            seen = opened(browser, line.split()[2])
            words = seen.page.locator("#live .said")
            seen.page.wait_for_function("document.querySelector('#live .said').textContent.includes('runs finished')")
            first = words.inner_text()
            seen.page.wait_for_function("document.querySelector('#live').dataset.done === 'true'", timeout=240_000)
            seen.page.wait_for_function("document.querySelector('#live .said').textContent.startsWith('done')")
            assert training.wait(timeout=60) == 0
            assert following.wait(timeout=60) == 0
            assert "digits is done" in following.stdout.read()
    assert "12 runs finished" in first
    assert Path(tmp_path / "runs" / ".reports" / "digits.html").exists()
    assert not any("127.0.0.1" not in said for said in seen.said if said.startswith("http"))


def test_no_chart_says_what_it_does_not_know(browser: Any, address: str) -> None:
    seen = opened(browser, address).scrolled()
    for id in seen.page.evaluate("[...document.querySelectorAll('[data-figure]:not([hidden])')].map((box) => box.id)"):
        mark = seen.page.locator(f"#{id} .role-mark path").last
        mark.scroll_into_view_if_needed()
        box = mark.bounding_box()
        seen.page.mouse.move(box["x"] + box["width"] / 2 - 1, box["y"] + box["height"] / 2)
        seen.page.wait_for_timeout(150)
        tip = seen.page.locator("#vg-tooltip-element").inner_text()
        assert "undefined" not in tip, id
        assert "\t" in tip, id
