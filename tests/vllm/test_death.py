"""What remains when vLLM's own process dies. Runs last: nothing brings that process back."""

import multiprocessing

import httpx
import pytest
from tests.cases.conftest import Running
from tests.fakes import eventually, generation_request, until_prompt_is_done

from afterword.engine.vllm.vllm_engine import VllmEngine
from afterword.errors import EngineFailed

pytestmark = pytest.mark.vllm


async def test_readers_and_newcomers_are_told_that_the_engine_failed(running: Running, engine: VllmEngine) -> None:
    request = generation_request(engine.tokenizer.encode("Once", add_bos=False, parse_special=False), max_tokens=1500)
    async with engine.generate(request) as generation:
        await until_prompt_is_done(generation)
        for child in multiprocessing.active_children():
            child.kill()
        with pytest.raises(EngineFailed):
            [event async for event in generation]
    await eventually(lambda: engine.stats().state == "failed")
    with pytest.raises(EngineFailed):
        engine.generate(request)
    answer = running.post({"prompt": "Once"})
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert httpx.get(f"{running.url}/ready").status_code == 503
