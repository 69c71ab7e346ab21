"""Two HTTP replicas with one database and one Redis: keys, limits and the ledger are those of one server."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import httpx
import pytest
from tests.cluster.live.conftest import Deploy, Live, until
from tests.gateway.postgres import programs, running_server
from tests.gateway.redis_server import free_port, run_redis

from afterword.gateway.database import Database, open_database
from afterword.gateway.grant import KeyLimits
from afterword.gateway.key_store import KeyTerms, create_key
from afterword.gateway.usage import sum_usage

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed")
    with running_server(folder) as server:
        yield server.url


@pytest.fixture(scope="module")
def database(postgres_url: str) -> Iterator[Database]:
    with closing(open_database(postgres_url)) as opened:
        yield opened


@pytest.fixture(scope="module")
def live(
    deploy_server: Deploy, postgres_url: str, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Live]:
    first = new_key(database, "first")
    folder = tmp_path_factory.mktemp("gateway")
    with run_redis(folder, free_port()) as redis:
        stores = {"database": postgres_url, "redis": redis}
        deployed = deploy_server(folder, model="echo", context="256", http_replicas="2", **stores)
        # Counters are for who has a key.
        deployed.client.headers["Authorization"] = f"Bearer {first}"
        yield deployed


def new_key(database: Database, name: str, limits: KeyLimits | None = None) -> str:
    terms = KeyTerms(name, limits=KeyLimits() if limits is None else limits)
    return create_key(database, terms, datetime.now(UTC))


def answers(live: Live, key: str, count: int) -> Counter[int]:
    """How often each status came, over a connection for each request, so that both replicas get some."""

    def one(_: int) -> int:
        with httpx.Client(base_url=live.url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
            body = {"prompt": "abcd", "max_tokens": 3, "temperature": 0}
            return client.post("/v1/completions", json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        return Counter(pool.map(one, range(count)))


def test_a_key_made_after_the_start_is_known_to_every_replica(live: Live, database: Database) -> None:
    assert answers(live, new_key(database, "later"), 20) == {200: 20}
    assert answers(live, "sk-nobody", 20) == {401: 20}


def test_a_limit_is_one_limit_whichever_replica_is_asked(live: Live, database: Database) -> None:
    key = new_key(database, "limited", KeyLimits(requests_per_minute=10))
    assert answers(live, key, 30) == {200: 10, 429: 20}


def test_nothing_is_missing_from_the_ledger_after_a_restart(live: Live, database: Database) -> None:
    before = sum(live.samples("afterword_requests_total").values())
    key = new_key(database, "counted")
    assert answers(live, key, 60) == {200: 60}
    until(lambda: sum(live.samples("afterword_requests_total").values()) >= before + 60)
    assert len([name for name, count in live.samples("afterword_requests_total").items() if count > 0]) == 2
    live.redeploy()
    until(lambda: used(database, "counted")[0] >= 60)
    assert used(database, "counted") == (60, 60 * 4, 60 * 3)


def used(database: Database, name: str) -> tuple[int, int, int]:
    """Requests, prompt tokens and completion tokens of a key in the ledger."""
    found = [line for line in sum_usage(database, ("key",), None, None) if name in line.group.values()]
    return (found[0].requests, found[0].prompt_tokens, found[0].completion_tokens) if found else (0, 0, 0)
