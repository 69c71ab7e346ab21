"""The page below a path, behind nginx with TLS, as docs/operate.md puts it there."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.api.served import app_of
from tests.clients.certificate import make_certificate
from tests.clients.nginx import NGINX, address, documented_site, listeners, run_nginx
from tests.e2e.conftest import open_page
from tests.live import run_server

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]


def test_the_page_writes_and_links_below_its_path(browser: Browser, tmp_path: Path, faults: list[str]) -> None:
    certificate = make_certificate(tmp_path)
    context = browser.new_context(ignore_https_errors=True)
    with run_server(app_of()) as server, listeners(1) as [listener]:
        where = f"https://{address(listener)}/afterword"
        with run_nginx(tmp_path, documented_site(listener, server, certificate), [listener]):
            opened = open_page(context, f"{where}/", faults)
            opened.set("max_tokens", "4")
            opened.set("temperature", "0")
            opened.type("hello ")
            opened.complete()
            expect(opened.editor).to_have_value("hello hell")
            opened.open_tab("Code")
            expect(opened.page.locator("#code-text")).to_contain_text(f"{where}/v1/completions")
            opened.page.get_by_role("link", name="API").click()
            expect(opened.page).to_have_url(f"{where}/docs")
            context.close()
    assert faults == []
