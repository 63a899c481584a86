"""The page in a browser: wide and narrow, light and dark, nothing sticks out and nothing fails."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ggmc
from tests.support.traces import Gaussian, trace_of, white_noise

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--dump-dom",
    "--hide-scrollbars",
]  # fmt: skip

MEASURE = """<script>
window.addEventListener("load", function () {
  document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  var root = document.documentElement, style = getComputedStyle(document.body);
  var small = Array.from(document.querySelectorAll("figure svg text")).map(function (t) {
    return t.getBoundingClientRect().height; }).filter(function (h) { return h > 0; });
  document.title = JSON.stringify({ scroll: root.scrollWidth, client: root.clientWidth, paper: style.backgroundColor,
    least: Math.min.apply(null, small), figures: document.querySelectorAll("figure svg").length });
});
</script>"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs, one of them with very long names, all unfolded; a copy of the page that measures itself."""
    folder = tmp_path_factory.mktemp("browser")
    long = trace_of(white_noise(size=12), Gaussian({"a_very_long_parameter_name_" * 5: (12,)}))
    biased = trace_of(white_noise(), kernel=ggmc.GGMC(0.1, adjust=False))
    runs = {"good": trace_of(white_noise()), "long " + "name" * 40: long, "biased": biased}
    path = ggmc.report.write(runs, folder / "page.html", command="python run.py " + "x" * 300)
    path.write_text(path.read_text().replace("</body>", MEASURE + "</body>"))
    return path


def measured(page: Path, width: int, dark: bool, profile: Path) -> dict[str, Any]:
    # Chromium's own windows are at least 500 wide: a phone is a frame of its width.
    frame = page.with_name(f"frame-{width}.html")
    frame.write_text(
        f'<!DOCTYPE html><iframe id="f" src="{page.name}" style="width:{width}px;height:900px;border:0"></iframe>'
        "<script>window.addEventListener('load', function () { setTimeout(function () {"
        "document.title = document.getElementById('f').contentDocument.title; }, 300); });</script>"
    )
    assert CHROMIUM is not None
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    more = [scheme, f"--user-data-dir={profile}", "--allow-file-access-from-files", "--virtual-time-budget=5000"]
    done = subprocess.run(
        [CHROMIUM, *OPTIONS, *more, "--window-size=1400,1000", frame.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title is not None, done.stdout[:500]
    return json.loads(html.unescape(title[1]))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_sticks_out(page: Path, width: int, dark: bool, tmp_path: Path) -> None:
    seen = measured(page, width, dark, tmp_path / "profile")
    assert seen["client"] == width
    assert seen["scroll"] <= seen["client"]
    assert seen["figures"] >= 10
    assert seen["least"] >= 9  # pixels: text in figures can be read
    brightness = sum(map(int, re.findall(r"\d+", seen["paper"])[:3]))
    assert brightness < 150 if dark else brightness > 600
