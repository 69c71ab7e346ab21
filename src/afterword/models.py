"""Which models are served: names and aliases to engines. Knows no HTTP and no model library."""

from dataclasses import dataclass, field

from afterword.engine.base import Engine
from afterword.errors import ModelNotFound


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
    """Further facts for `/v1/models/{id}`: path, size in bytes, quantisation, layout, promises it cannot keep."""


class Registry:
    """The models of one server. The first registered is the default."""

    def __init__(self, models: list[ServedModel]) -> None:
        assert models, "a server has at least one model"
        self._models = models
        self._by_name = {name: model for model in models for name in (model.name, *model.aliases)}

    def get(self, name: str | None) -> ServedModel:
        """The model called `name`; missing or blank is the default. Raises `ModelNotFound`."""
        if name is None or not name.strip():
            return self._models[0]
        try:
            return self._by_name[name]
        except KeyError:
            raise ModelNotFound(name) from None

    def all(self) -> list[ServedModel]:
        """Every model, in the order of registration."""
        return list(self._models)
