"""What a cluster's nodes must share."""

from pathlib import Path

import pytest
import structlog

from afterword.cluster.sharing import check_shared
from afterword.config.load import load_config
from afterword.errors import ConfigurationError

POSTGRES = "postgresql://user@host/name"


def test_a_file_on_one_machine_is_no_database_for_a_cluster(tmp_path: Path) -> None:
    config = load_config({"database": str(tmp_path / "a.db"), "model": "echo"}, {}, tmp_path)
    with pytest.raises(ConfigurationError, match=r"a\.db is a file of this machine, .* give --database the URL"):
        check_shared(config)


@pytest.mark.parametrize(
    ("settings", "warnings"),
    [
        pytest.param({"database": "none", "http_replicas": "2"}, 0, id="nothing-kept"),
        pytest.param({"database": POSTGRES, "http_replicas": "1"}, 0, id="one-replica"),
        pytest.param({"database": POSTGRES, "http_replicas": "2"}, 1, id="two-replicas"),
        pytest.param({"database": POSTGRES, "http_replicas": "2", "redis": "redis://host"}, 0, id="redis"),
    ],
)
def test_limits_that_each_replica_counts_for_itself_are_warned_of(
    tmp_path: Path, settings: dict[str, str], warnings: int
) -> None:
    with structlog.testing.capture_logs() as logs:
        check_shared(load_config({**settings, "model": "echo"}, {}, tmp_path))
    assert [line["log_level"] for line in logs] == ["warning"] * warnings
