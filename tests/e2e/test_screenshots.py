"""The pictures of docs/playground.md. `make screenshots` writes them there; otherwise they are only looked at."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.e2e.playground import Playground

pytestmark = [pytest.mark.e2e, pytest.mark.model]

ROOT = Path(__file__).resolve().parents[2]

TEXT = (
    "The lighthouse keeper had not spoken to anyone for three weeks when the boat came. It was late in the evening, and"
)

MAX_BYTES = 200_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where pictures go."""
    wanted = os.environ.get("AFTERWORD_SCREENSHOTS")
    if wanted is None:
        return tmp_path
    path = Path(wanted)
    path.mkdir(parents=True, exist_ok=True)
    return path


def shoot(playground: Playground, folder: Path, name: str, width: int = 1120, height: int = 720) -> None:
    """Take the picture that docs/playground.md shows under this name."""
    playground.page.set_viewport_size({"width": width, "height": height})
    playground.page.locator("#parameters-panel").evaluate("panel => panel.scrollTo(0, 0)")
    path = folder / f"{name}.png"
    playground.page.screenshot(path=path)
    assert 5_000 < path.stat().st_size < MAX_BYTES
    assert f"playground/{name}.png" in (ROOT / "docs" / "playground.md").read_text(encoding="utf-8")


def write(playground: Playground, **fields: str) -> None:
    """A completed and scored text, the same each time."""
    for name, value in {"max_tokens": "48", "seed": "11", "temperature": "0.8", **fields}.items():
        playground.set(name, value)
    playground.type(TEXT)
    playground.complete()
    playground.score()


def test_light_with_probabilities(playground: Playground, folder: Path) -> None:
    playground.page.get_by_role("combobox", name="Theme").select_option("light")
    write(playground)
    playground.page.mouse.move(5, 5)
    shoot(playground, folder, "light")
    box = playground.page.locator("#mirror .token", has_text="boat").bounding_box()
    assert box is not None
    playground.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(playground.card).to_be_visible()
    shoot(playground, folder, "probabilities")


def test_dark_with_candidates(playground: Playground, folder: Path) -> None:
    playground.page.get_by_role("combobox", name="Theme").select_option("dark")
    write(playground, n="3", max_tokens="28")
    playground.page.mouse.move(5, 5)
    shoot(playground, folder, "dark")


def test_tree(playground: Playground, folder: Path) -> None:
    playground.page.get_by_role("combobox", name="Theme").select_option("light")
    write(playground, n="3", max_tokens="24")
    playground.candidates.nth(1).get_by_role("button").click()
    playground.set("n", "2")
    playground.set("seed", "12")
    playground.editor.focus()
    playground.complete()
    playground.open_tab("Tree")
    entry = playground.page.locator("#tree .entry").nth(2)
    entry.hover()
    entry.get_by_role("button", name="Name").click()
    playground.page.get_by_label("Name of this branch").fill("calmer")
    playground.page.keyboard.press("Enter")
    playground.page.mouse.move(5, 5)
    shoot(playground, folder, "tree")


def test_narrow(playground: Playground, folder: Path) -> None:
    playground.page.get_by_role("combobox", name="Theme").select_option("light")
    write(playground, max_tokens="24")
    playground.page.mouse.move(5, 5)
    shoot(playground, folder, "narrow", 390, 780)
