"""What every node of a cluster must be able to reach. Knows no Ray."""

from pathlib import Path

import structlog

from afterword.config.tree import Config
from afterword.errors import ConfigurationError


def check_shared(config: Config) -> None:
    """Raise `ConfigurationError` for a database that other nodes do not have; warn of limits that are not shared."""
    database = config.gateway.database
    if isinstance(database, Path):
        raise ConfigurationError(
            f"The database {database} is a file of this machine, which other nodes of a cluster do not have: give "
            "--database the URL of a PostgreSQL database, or none to keep neither keys nor usage."
        )
    if config.cluster.http_replicas > 1 and database is not None and config.gateway.redis is None:
        structlog.get_logger("afterword.cluster").warning(
            "without --redis each HTTP replica counts the limits of keys for itself",
            http_replicas=config.cluster.http_replicas,
        )
