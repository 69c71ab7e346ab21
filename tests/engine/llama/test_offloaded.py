"""Layers on the accelerators that llama.cpp finds. Speed is measured elsewhere (docs/hardware.md)."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.models.engines import kept_tiny, settings
from tests.models.tiny import N_LAYERS, Tiny

from afterword.engine.llama.binding import LIBRARY, LlamaContext, LlamaModel, start_backend
from afterword.engine.llama.caches import Attention
from afterword.engine.llama.devices import list_devices
from afterword.engine.llama.llama_loading import load_engine
from afterword.engine.llama.offload import ON_PROCESSOR, ModelShape, OffloadSettings, Placement, place

pytestmark = pytest.mark.gpu

TEXT = np.arange(40, dtype=np.int32) + 5

SAYS_ITS_BUFFERS = """
import ctypes, json, sys
from pathlib import Path
import llama_cpp.llama_cpp as c
from afterword.engine.llama import binding
from tests.engine.llama.test_offloaded import computed, placed

said = []
binding._LOG_CALLBACK = c.llama_log_callback(lambda level, text, data: said.append(text.decode()))
computed(Path(sys.argv[1]), placed(sys.argv[2] if sys.argv[2] == "all" else int(sys.argv[2])))
print(json.dumps("".join(said)))
"""


def placed(layers: int | str) -> Placement:
    start_backend()
    return place(OffloadSettings(layers), list_devices(LIBRARY), ModelShape(N_LAYERS, 1, 1))  # type: ignore[arg-type]


def computed(path: Path, placement: Placement) -> list[float]:
    """Logits of the last token of a text."""
    model = LlamaModel(path, placement=placement)
    context = LlamaContext(model, n_slots=2, n_ctx_slot=256, n_batch=64, n_threads=1, attention=Attention(True))
    try:
        logits = context.decode(TEXT, range(40), [0] * 40, [0] * 39 + [1])
        return [float(logit) for logit in logits[0]]
    finally:
        context.close()
        model.close()


def buffers(path: Path, layers: int | str) -> dict[str, float]:
    """MiB of weights and of the KV cache by the device that llama.cpp says has them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SAYS_ITS_BUFFERS, str(path), str(layers)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    said: str = json.loads(done.stdout.splitlines()[-1])
    found = re.findall(r"(\w+) (model|KV) buffer size = +([0-9.]+) MiB", said)
    return {f"{device} {what}": float(size) for device, what, size in found}


def test_llama_cpp_s_own_report_has_weights_and_cells_on_the_device() -> None:
    path, (device, *_) = kept_tiny(Tiny("Q8_0")), placed("all").devices
    whole, half, none = buffers(path, "all"), buffers(path, 2), buffers(path, 0)
    for what in ("model", "KV"):
        assert whole[f"{device.name} {what}"] > half[f"{device.name} {what}"] > 0
        assert f"{device.name} {what}" not in none
    assert half["CPU KV"] > 0
    assert "CPU KV" not in whole


@pytest.mark.parametrize("layers", ["all", 2])
@pytest.mark.parametrize("weights", ["F32", "F16", "Q8_0", "Q4_0"])
def test_numbers_are_the_processor_s_but_for_rounding(weights: str, layers: int | str) -> None:
    path = kept_tiny(Tiny(weights))
    expected = np.array(computed(path, ON_PROCESSOR))
    found = np.array(computed(path, placed(layers)))
    assert np.abs(found - expected).max() < 0.02 * np.ptp(expected)


async def test_the_card_and_the_fingerprint_say_what_runs_where(tmp_path: Path) -> None:
    path, found = kept_tiny(Tiny("Q8_0")), {}
    for layers in (0, 2, "all"):
        asked = replace(settings(path, tmp_path), offload=OffloadSettings(layers))
        engine = load_engine(asked)
        found[engine.capabilities.runs_on] = engine.fingerprint
        await engine.aclose()
    (name, *_) = (device.name for device in placed("all").devices)
    said = [runs_on.partition(" (")[0] for runs_on in found]
    assert said == ["processor", f"2 of 3 layers on {name}", f"all layers on {name}"]
    assert len(set(found.values())) == 3
