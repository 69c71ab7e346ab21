"""The page as a person uses it: what they press, type and read, found by its visible names."""

import re
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

SHORT_MS = 10_000
"""How long anything may take to show up."""


@dataclass(frozen=True, slots=True)
class Playground:
    """One open page."""

    page: Page

    @property
    def editor(self) -> Locator:
        """The big text field."""
        return self.page.get_by_role("textbox", name="Text", exact=True)

    @property
    def notice(self) -> Locator:
        """The sentence under the editor."""
        return self.page.locator("#notice-text")

    @property
    def card(self) -> Locator:
        """The alternatives of a token."""
        return self.page.get_by_role("region", name="Alternatives of a token")

    @property
    def candidates(self) -> Locator:
        """The cards side by side."""
        return self.page.locator("#candidate-list > li")

    @property
    def text(self) -> str:
        """What is in the editor."""
        return self.editor.input_value()

    def button(self, name: str) -> Locator:
        """A button by what it says, or how it begins."""
        return self.page.get_by_role("button", name=re.compile(rf"^{re.escape(name)}"))

    def press(self, name: str) -> None:
        """Click a button."""
        self.button(name).click()

    def type(self, text: str) -> None:
        """Write at the end of the text, key by key."""
        self.editor.focus()
        self.page.keyboard.press("Control+End")
        self.page.keyboard.type(text)

    def paste(self, text: str) -> None:
        """Put a text in place of everything, in one go."""
        self.editor.fill(text)

    def caret_to(self, position: int) -> None:
        """Move the caret with the keys that a person has for it."""
        self.editor.focus()
        self.page.keyboard.press("Control+Home")
        for _ in range(position):
            self.page.keyboard.press("ArrowRight")

    def choose_model(self, name: str) -> None:
        """Pick a model from the list."""
        self.page.get_by_role("combobox", name="Model", exact=True).select_option(name)

    def set(self, field: str, value: str) -> None:
        """Write into a field of the form."""
        self.field(field).fill(value)

    def field(self, name: str) -> Locator:
        """The control of a request's field."""
        return self.page.locator(f"#field-{name}")

    def complaint(self, name: str) -> Locator:
        """What the server said beside a field."""
        return self.page.locator(f"#field-{name}-complaint")

    def open_tab(self, name: str) -> None:
        """Bring a tab to the front."""
        self.page.get_by_role("tab", name=name).click()

    def complete(self) -> None:
        """Ctrl+Enter, then wait for the end."""
        self.page.keyboard.press("Control+Enter")
        self.wait()

    def score(self) -> None:
        """Score the text, then wait for the end."""
        self.press("Score text")
        self.wait()

    def wait(self) -> None:
        """Until nothing runs."""
        expect(self.page.locator("body")).not_to_have_class(re.compile("busy"), timeout=60_000)

    def tokens(self) -> list[str]:
        """The texts of the coloured tokens behind the editor."""
        return self.page.locator("#mirror .token").all_text_contents()

    def point_at(self, token: int) -> None:
        """Move the mouse onto the coloured token with this number."""
        box = self.page.locator("#mirror .token").nth(token).bounding_box()
        assert box is not None
        self.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)

    def figure(self, name: str) -> str:
        """One of the numbers of the last answer."""
        pairs = self.page.locator("#run-figures > div")
        return pairs.filter(has_text=name).locator("dd").inner_text()

    def download(self, name: str, folder: Path) -> Path:
        """What a button saves."""
        with self.page.expect_download() as saved:
            self.press(name)
        path = folder / saved.value.suggested_filename
        saved.value.save_as(path)
        return path
