"""The registry of served models: from names and aliases to engines. Knows no HTTP and no model library."""

from dataclasses import dataclass, field

from afterword.config.vendor import LOCAL
from afterword.engine.base import Engine
from afterword.engine.on_demand import OnDemandEngine
from afterword.errors import ModelNotFound
from afterword.text.infill_template import InfillTemplate
from afterword.tokens import InfillTokens


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A registered model and the engine that runs it."""

    name: str
    engine: Engine
    created: int
    """Unix seconds."""
    aliases: tuple[str, ...] = ()
    owned_by: str = "afterword"
    card: dict[str, object] = field(default_factory=dict)
    """Further facts for `/v1/models/{id}`: the file's name, size in bytes, what it cannot promise. No paths."""
    vendor: str = LOCAL
    """What runs it: the part of the full name before the slash."""
    on_demand: OnDemandEngine | None = None
    """The engine, if its model is loaded when it is asked for: who uses it holds it. None: it is there."""
    infill_template: InfillTemplate | None = None
    """Its prompt format for `suffix`; None: by its vocabulary's infill tokens, if it has some."""

    @property
    def is_loaded(self) -> bool:
        """Its tokenizer can be used."""
        return self.on_demand is None or self.on_demand.is_loaded

    @property
    def infill(self) -> InfillTokens | None:
        """The tokens of the model's own infill prompts, as far as it was loaded by now."""
        return self.engine.tokenizer.infill if self.on_demand is None else self.on_demand.infill

    @property
    def full_name(self) -> str:
        """`vendor/name`, as the Scale GP dialect, keys and the ledger spell it (docs/rules.md#model-names)."""
        return f"{self.vendor}/{self.name}"


class Registry:
    """The models of one server. The first registered is the default."""

    def __init__(self, models: list[ServedModel]) -> None:
        assert models, "a server has at least one model"
        self._models = models
        full = {model.full_name: model for model in models}
        aliases = {alias: model for model in models for alias in model.aliases}
        self._qualified = aliases | full
        self._by_name = {model.name: model for model in models} | self._qualified

    def get(self, name: str | None) -> ServedModel:
        """The model called `name`, by its full name, its short one or an alias; missing or blank is the default.

        Raises `ModelNotFound`.
        """
        if name is None or not name.strip():
            return self._models[0]
        try:
            return self._by_name[name]
        except KeyError:
            raise ModelNotFound(name) from None

    def get_qualified(self, name: str | None) -> ServedModel:
        """The same for clients that write the vendor too: by full name or alias, not by a short name.

        Raises `ModelNotFound`, which says the full name where the short one is known.
        """
        if name is None or not name.strip():
            return self._models[0]
        try:
            return self._qualified[name]
        except KeyError:
            meant = self._by_name.get(name)
            raise ModelNotFound(name, full_name=None if meant is None else meant.full_name) from None

    def engines(self) -> list[Engine]:
        """Every engine, once."""
        return list({id(model.engine): model.engine for model in self._models}.values())

    def all(self) -> list[ServedModel]:
        """Every model, in the order of registration."""
        return list(self._models)
