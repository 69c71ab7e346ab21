import pytest

from afterword.engine.llama.devices import Device
from afterword.engine.llama.offload import ON_PROCESSOR, ModelShape, OffloadSettings, Placement, place
from afterword.errors import ConfigurationError

GIB = 2**30
MODEL = ModelShape(n_layers=9, weights=9 * GIB, kv=GIB)
"""Ten layers as llama.cpp counts them, of a GiB each with their share of a context."""


def device(name: str, free: int) -> Device:
    return Device(name, f"the one called {name}", free, pointer=hash(name))


LARGE, SMALL, TINY = device("CUDA0", 20 * GIB), device("CUDA1", 6 * GIB), device("Vulkan0", GIB // 2)


@pytest.mark.parametrize(
    ("settings", "devices", "n_layers", "on"),
    [
        pytest.param(OffloadSettings(), (), 0, (), id="no device"),
        pytest.param(OffloadSettings(), (LARGE,), 10, (LARGE,), id="all fit"),
        pytest.param(OffloadSettings(), (SMALL,), 5, (SMALL,), id="half fit"),
        pytest.param(OffloadSettings(), (SMALL, SMALL), 10, (SMALL, SMALL), id="two hold what one cannot"),
        pytest.param(OffloadSettings(), (TINY,), 0, (), id="none fit"),
        pytest.param(OffloadSettings("all"), (SMALL,), 10, (SMALL,), id="all, asked for"),
        pytest.param(OffloadSettings(3), (LARGE,), 3, (LARGE,), id="a number"),
        pytest.param(OffloadSettings(99), (LARGE,), 10, (LARGE,), id="more than there are"),
        pytest.param(OffloadSettings(0), (LARGE,), 0, (), id="none, asked for"),
        pytest.param(OffloadSettings(devices=("CUDA1",)), (LARGE, SMALL), 5, (SMALL,), id="by name"),
        pytest.param(OffloadSettings(split_mode="none", main_gpu=1), (LARGE, SMALL), 5, (SMALL,), id="not split"),
    ],
)
def test_layers_are_where_they_fit_and_are_wanted(
    settings: OffloadSettings, devices: tuple[Device, ...], n_layers: int, on: tuple[Device, ...]
) -> None:
    placement = place(settings, devices, MODEL)
    assert (placement.n_layers, placement.devices) == (n_layers, on)


@pytest.mark.parametrize(
    ("settings", "devices", "said"),
    [
        (OffloadSettings("all"), (), "`gpu_layers` is all, but this build of llama.cpp finds no accelerator"),
        (OffloadSettings(4), (), "`gpu_layers` is 4, but this build"),
        (OffloadSettings(devices=("CUDA7",)), (LARGE,), "`devices` names CUDA7, which is not there. Those .* CUDA0."),
        (OffloadSettings(devices=("CUDA7",)), (), "Those that llama.cpp finds: none."),
        (OffloadSettings(main_gpu=2), (LARGE, SMALL), "`main_gpu` is 2, but there are 2 devices"),
    ],
)
def test_what_cannot_be_is_refused(settings: OffloadSettings, devices: tuple[Device, ...], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        place(settings, devices, MODEL)


def test_a_placement_says_what_is_where() -> None:
    assert str(ON_PROCESSOR) == "processor"
    assert str(place(OffloadSettings("all"), (LARGE,), MODEL)) == "all layers on CUDA0 (the one called CUDA0)"
    both = str(place(OffloadSettings(3), (LARGE, TINY), MODEL))
    assert both == "3 of 10 layers on CUDA0 (the one called CUDA0), Vulkan0 (the one called Vulkan0)"


@pytest.mark.parametrize(
    ("n_layers", "of_processor", "expected"),
    [
        pytest.param(0, 8 * GIB, 8 * GIB, id="on the processor"),
        pytest.param(0, None, None, id="without a limit"),
        pytest.param(10, GIB, 18 * GIB, id="on the device: the processor's memory is no limit"),
        pytest.param(5, 12 * GIB, 24 * GIB, id="in halves, of which the processor's is the limit"),
        pytest.param(5, 100 * GIB, 36 * GIB, id="in halves, of which the device's is the limit"),
        pytest.param(5, None, 36 * GIB, id="in halves, without a limit of the processor's"),
    ],
)
def test_both_places_limit_what_contexts_may_take(n_layers: int, of_processor: int | None, expected: int) -> None:
    placement = place(OffloadSettings(n_layers), (LARGE,), MODEL)
    budget = placement.budget(of_processor)
    assert budget == expected if expected is None else budget == pytest.approx(expected, abs=10)


def test_a_build_for_processors_finds_no_device() -> None:
    pytest.importorskip("llama_cpp")
    from afterword.engine.llama.binding import LIBRARY, start_backend
    from afterword.engine.llama.devices import list_devices

    start_backend()
    assert all(device.free >= 0 and device.name != "CPU" for device in list_devices(LIBRARY))
    assert isinstance(ON_PROCESSOR, Placement)
