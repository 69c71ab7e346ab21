"""The page at /docs, as a browser without a network would see it."""

import json
import re
from urllib.parse import urljoin

import pytest
from tests.api.served import app_of, client_of

from afterword.fields.table import FIELDS


async def documentation() -> str:
    async with client_of(app_of()) as client:
        answer = await client.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    return answer.text


async def test_every_field_and_route_has_a_row() -> None:
    page = await documentation()
    for field in FIELDS:
        assert f"<td><code>{field.name}</code></td>" in page
    assert "<td><code>POST /v1/completions</code></td>" in page
    assert "<td>number 0 to 2</td><td><code>1.0</code></td>" in page


def test_descriptions_name_no_files_of_the_repository() -> None:
    assert re.findall(r"\w+\.(?:md|py)\b", json.dumps(app_of().openapi())) == []


async def test_nothing_comes_from_elsewhere() -> None:
    page = await documentation()
    assert re.findall(r"(?:src|href)=\"([^\"]*)\"", page) == ["openapi.json"]
    assert "<script" not in page


@pytest.mark.parametrize("path", ["/", "/docs", "/docs/", "/v1", "/v1/"])
async def test_every_link_is_relative_so_that_a_proxy_may_put_all_below_a_path(path: str) -> None:
    async with client_of(app_of()) as client:
        answer = await client.get(path)
        found = re.findall(r'(?:src|href)="([^"#]+)"', answer.text)
        if answer.headers["content-type"] == "application/json":
            found = [answer.json()[name] for name in ("completions", "models", "documentation")]
        assert found != []
        below = urljoin("http://localhost/a/path/", path.lstrip("/"))
        for link in found:
            target = urljoin(below, link)
            assert target.startswith("http://localhost/a/path/")
            assert (await client.get(target.replace("/a/path/", "/"))).status_code in (200, 405)


async def test_the_description_is_of_the_server_beside_it() -> None:
    async with client_of(app_of()) as client:
        described = (await client.get("/openapi.json")).json()
    assert [urljoin("http://localhost/a/path/openapi.json", one["url"]) for one in described["servers"]] == [
        "http://localhost/a/path/"
    ]


async def test_texts_are_escaped() -> None:
    assert "`{&quot;tokens&quot;" in await documentation()
