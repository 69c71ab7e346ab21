"""Fetches what a configuration names at a hub, before a command loads it."""

from afterword.config.hub_name import HUB, HubModel
from afterword.config.tree import Config


def pull_missing(config: Config) -> None:
    """Fetch what is not here yet; asks nobody for what is. Raises `PullFailed`, `ConfigurationError`."""
    named = {path for model in config.models for path in (model.path, model.tokenizer) if path is not None}
    for path in sorted(path for path in named if path.startswith(HUB)):
        # Here and not above: the library behind it takes a second to load.
        from afterword.cli.pull_command import pull_all
        from afterword.pulling import hub

        model = HubModel.parsed(path)
        if hub.cached(model) is None:
            pull_all(model, hub.listed(model))
