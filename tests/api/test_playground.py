"""The page at the root and its files: headers, caching, and what its sources may hold."""

import gzip
import re
from pathlib import Path

import pytest
from tests.api.served import app_of, assert_error, client_of

import afterword
from afterword.api.playground import form, load
from afterword.fields.field import GROUPS
from afterword.fields.table import FIELDS

FOLDER = Path(afterword.__file__).parent / "playground"
MODULES = sorted(FOLDER.glob("*.js"))
SOURCES = sorted(path for path in FOLDER.iterdir() if path.suffix in (".js", ".css", ".html"))

MAX_FIRST_LOAD = 170_000


def ids(path: Path) -> str:
    return path.name


async def test_the_page_is_served_at_the_root_with_a_strict_policy() -> None:
    async with client_of(app_of()) as client:
        answer = await client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_every_file_that_the_page_names_is_there_to_be_kept_for_good() -> None:
    async with client_of(app_of()) as client:
        page = (await client.get("/")).text
        named = set(re.findall(r'(?:href|src)="(playground/[^"]+)"', page))
        answers = [await client.get(f"/{path}") for path in sorted(named)]
    assert len(named) == len(SOURCES) - 1 + 1, "all but the page itself, and the icon"
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["cache-control"] for answer in answers} == {"public, max-age=31536000, immutable"}
    kinds = {answer.headers["content-type"] for answer in answers}
    assert kinds == {"text/css; charset=utf-8", "text/javascript; charset=utf-8", "image/svg+xml"}
    assert {answer.headers["x-content-type-options"] for answer in answers} == {"nosniff"}


async def test_the_page_is_asked_for_again_and_not_sent_again() -> None:
    async with client_of(app_of()) as client:
        first = await client.get("/")
        again = await client.get("/", headers={"if-none-match": f'"other", {first.headers["etag"]}'})
        other = await client.get("/", headers={"if-none-match": '"other"'})
    assert first.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
    assert other.status_code == 200


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [("gzip", "gzip"), ("br, gzip;q=0.5", "gzip"), ("*", "gzip"), ("gzip;q=0", None), ("br", None), ("", None)],
)
async def test_files_are_compressed_for_who_takes_it(accepted: str, expected: str | None) -> None:
    path = f"/playground/{load().version}/app.js"
    offer = {"accept-encoding": accepted}
    async with client_of(app_of()) as client, client.stream("GET", path, headers=offer) as answer:
        raw = b"".join([part async for part in answer.aiter_raw()])
    assert answer.headers.get("content-encoding") == expected
    assert answer.headers["vary"].startswith("accept-encoding")
    assert (gzip.decompress(raw) if expected == "gzip" else raw) == (FOLDER / "app.js").read_bytes()


@pytest.mark.parametrize("path", ["0123456789abcdef/app.js", "{version}/none.js", "{version}/index.html"])
async def test_files_of_another_version_and_unknown_ones_are_not_found(path: str) -> None:
    async with client_of(app_of()) as client:
        answer = await client.get("/playground/" + path.format(version=load().version))
    assert_error(answer, 404, None, None)


async def test_head_says_what_get_would() -> None:
    async with client_of(app_of()) as client:
        head, get = await client.head("/"), await client.get("/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


async def test_the_page_needs_no_key_and_what_it_asks_does() -> None:
    async with client_of(app_of(api_key="secret")) as client:
        statuses = [
            (await client.get(path)).status_code
            for path in ("/", f"/playground/{load().version}/fields.json", "/v1/models", "/v1")
        ]
    assert statuses == [200, 200, 401, 401]


async def test_the_form_is_made_of_the_table_of_fields() -> None:
    async with client_of(app_of()) as client:
        served = (await client.get(f"/playground/{load().version}/fields.json")).json()
    assert served == form()
    assert list(served["fields"]) == [field.name for field in FIELDS]
    assert served["fields"]["temperature"] == {
        "description": "Divides the logits; 0 takes the likeliest token.",
        "default": 1.0,
        "documented": True,
        "control": "slider",
        "type": "number",
        "minimum": 0,
        "maximum": 2,
    }
    length = served["fields"]["max_tokens"]
    assert (length["type"], length["default"], length["control"]) == ("integer", 16, "number")


def test_every_field_stands_in_one_group_or_is_set_by_the_page() -> None:
    groups = form()["groups"]
    assert [group["title"] for group in groups] == list(GROUPS)
    entered = [name for group in groups for name in group["fields"]]
    by_page = [name for name, field in form()["fields"].items() if "by_page" in field]
    assert sorted(entered + by_page) == sorted(field.name for field in FIELDS)


def test_every_control_is_one_that_the_page_can_make() -> None:
    controls = (FOLDER / "controls.js").read_text(encoding="utf-8")
    made = re.search(r"export const CONTROLS = \{ (.*) \};", controls)
    assert made is not None
    names = {name.partition(":")[0] for name in made[1].split(", ")}
    assert {field["control"] for field in form()["fields"].values() if "control" in field} == names


def test_first_load_is_small() -> None:
    playground = load()
    total = len(playground.page.body) + sum(len(asset.body) for asset in playground.assets.values())
    assert total < MAX_FIRST_LOAD


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_modules_are_short_and_say_what_they_are_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert text.startswith("/**\n * ")
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("path", SOURCES, ids=ids)
def test_sources_have_no_way_to_run_text_and_no_other_host(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    dangerous = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setHTML|srcdoc|javascript:"
    )
    assert re.findall(dangerous, text) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
    assert re.findall(r"""\s(?:on\w+|style)=["']""", text) == []
