"""The measurement of the gateway runs and gives its figures, whatever they are."""

import shutil

from benchmarks.gateway import measure
from benchmarks.report import direction


async def test_every_figure_has_a_name_with_a_unit() -> None:
    found = await measure(3)
    kinds = ["keyed"] if shutil.which("redis-server") is None else ["keyed", "shared"]
    assert list(found) == [
        "open_request_ms",
        *(f"{kind}_{what}" for kind in kinds for what in ("added_ms", "added_p99_ms")),
    ]
    assert {direction(name) for name in found} == {-1}
    assert found["open_request_ms"] > 0
