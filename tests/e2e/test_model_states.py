"""The list of models says which are loaded."""

import pytest
from playwright.sync_api import BrowserContext, expect
from tests.e2e.conftest import open_page
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.base import Capabilities
from afterword.engine.echo import EchoEngine
from afterword.engine.loaded_models import LoadedModels
from afterword.engine.on_demand import ModelSource, OnDemandEngine
from afterword.registry import Registry, ServedModel

pytestmark = pytest.mark.e2e

EXPECTED = Capabilities(context=0, max_logprobs=0, reproducible=False, prefix_cache=False, n_slots=1)


def on_demand(name: str, shared: LoadedModels) -> ServedModel:
    source = ModelSource(name, lambda: 1, lambda _: EchoEngine(), 1000, EXPECTED, 100)
    engine = OnDemandEngine(source, shared)
    return ServedModel(name, engine, 1700000000, on_demand=engine)


def test_a_model_that_is_chosen_is_loaded_and_the_list_says_so(context: BrowserContext, faults: list[str]) -> None:
    shared = LoadedModels()
    shared.budget = 1
    models = [on_demand(name, shared) for name in ("first", "second")]
    with run_server(create_app(Registry(models), ServerConfig())) as url:
        playground = open_page(context, url, faults)
        chooser = playground.page.get_by_role("combobox", name="Model", exact=True)
        expect(chooser.locator("option")).to_have_text(["first", "second (unloaded)"])
        chooser.select_option("second")
        expect(chooser.locator("option")).to_have_text(["first (unloaded)", "second"])
        expect(chooser).to_have_value("second")
        context.close()
    assert faults == []
