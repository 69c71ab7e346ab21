"""Which layers of a model accelerators hold, and what memory that leaves for its contexts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from afterword.config.model import SplitMode
from afterword.config.values import GpuLayers
from afterword.engine.llama.devices import Device
from afterword.errors import ConfigurationError

USABLE = 0.9
"""Share of a device's free memory that is used: drivers and buffers of computing take some."""


@dataclass(frozen=True, slots=True)
class OffloadSettings:
    """What the configuration says."""

    layers: GpuLayers = "auto"
    devices: tuple[str, ...] = ()
    """Names of those that may be used; none: all."""
    split_mode: SplitMode = "layer"
    main_gpu: int = 0
    """Which of the devices computes where `split_mode` is none, and what is not split where it is row."""


NOTHING_ASKED = OffloadSettings()


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What of a model's file decides how much of it a device can hold."""

    n_layers: int
    weights: int
    """Bytes."""
    kv: int
    """Bytes of the keys and values of one context."""

    @property
    def most_layers(self) -> int:
        """As llama.cpp counts them: the output counts as one more."""
        return self.n_layers + 1


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a model's layers are."""

    n_layers: int
    """On devices, of `most_layers`."""
    most_layers: int
    devices: tuple[Device, ...]
    """Those that hold some; none: the processor computes everything."""
    split_mode: SplitMode
    main_gpu: int

    @property
    def share(self) -> float:
        """Of weights and contexts that devices hold, roughly."""
        return self.n_layers / self.most_layers

    @override
    def __str__(self) -> str:
        if not self.devices:
            return "processor"
        part = "all layers" if self.n_layers == self.most_layers else f"{self.n_layers} of {self.most_layers} layers"
        return f"{part} on " + ", ".join(f"{device.name} ({device.description})" for device in self.devices)

    def budget(self, of_processor: int | None) -> int | None:
        """Bytes that weights and contexts may take in all places together. `of_processor`: of them, without devices."""
        on_processor = None if of_processor is None or self.share == 1 else int(of_processor / (1 - self.share))
        if not self.devices:
            return on_processor
        on_devices = int(_room(self.devices) / self.share)
        return on_devices if on_processor is None else min(on_devices, on_processor)


ON_PROCESSOR = Placement(0, 1, (), "layer", 0)
"""Nothing is on a device."""


def place(settings: OffloadSettings, devices: Sequence[Device], model: ModelShape) -> Placement:
    """Put layers on those of `devices` that may be used. Raises `ConfigurationError` if what is asked for cannot be.

    `auto` takes as many layers as fit with their share of one context; none where there is no device.
    """
    if settings.layers == 0:
        return ON_PROCESSOR
    chosen = _chosen(settings, devices)
    if not chosen:
        if settings.layers == "auto":
            return ON_PROCESSOR
        raise ConfigurationError(
            f"`gpu_layers` is {settings.layers}, but this build of llama.cpp finds no accelerator: set it to none or "
            "auto, or see docs/hardware.md for a build that has one."
        )
    if settings.layers == "auto":
        need = model.weights + model.kv
        n_layers = int(model.most_layers * min(1.0, _room(chosen) / max(1, need)))
    else:
        n_layers = model.most_layers if settings.layers == "all" else min(settings.layers, model.most_layers)
    if n_layers == 0:
        return ON_PROCESSOR
    main = 0 if settings.split_mode == "none" else settings.main_gpu
    return Placement(n_layers, model.most_layers, chosen, settings.split_mode, main)


def _chosen(settings: OffloadSettings, devices: Sequence[Device]) -> tuple[Device, ...]:
    by_name = {device.name: device for device in devices}
    for name in settings.devices:
        if name not in by_name:
            found = ", ".join(by_name) or "none"
            raise ConfigurationError(
                f"`devices` names {name}, which is not there. Those that llama.cpp finds: {found}."
            )
    chosen = tuple(by_name[name] for name in settings.devices) or tuple(devices)
    if chosen and settings.main_gpu >= len(chosen):
        raise ConfigurationError(
            f"`main_gpu` is {settings.main_gpu}, but there are {len(chosen)} devices: it must be below that."
        )
    return chosen[settings.main_gpu :][:1] if settings.split_mode == "none" else chosen


def _room(devices: Sequence[Device]) -> int:
    return int(USABLE * sum(device.free for device in devices))
