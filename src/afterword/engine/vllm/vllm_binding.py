"""vLLM's asynchronous engine on a thread and an event loop of its own. The only file that imports vLLM.

vLLM's types are converted to this package's own here and go no further. Importing this takes seconds and loads torch,
so it is imported only when a model of this kind is loaded.
"""

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Future
from dataclasses import fields
from typing import Any

import torch
from typing_extensions import override
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.exceptions import VLLMClientError
from vllm.inputs import tokens_input
from vllm.logprobs import FlatLogprobs
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM

import vllm
from afterword.engine.vllm.core import Core, CoreOutput, NewToken
from afterword.engine.vllm.facts import ModelFacts
from afterword.engine.vllm.huggingface import token_ids, tokenizer_facts
from afterword.engine.vllm.plan import Plan, sampling_arguments
from afterword.engine.vllm.scores import prompt_scores, sampled
from afterword.errors import ConfigurationError, EngineFailed, InvalidRequest
from afterword.fields.grammars import structured_outputs
from vllm import SamplingParams

START_SECONDS = 3600
"""Time-out of the start; large models load for many minutes."""


def known_options() -> frozenset[str]:
    """The names of all arguments of vLLM's engine."""
    return frozenset(field.name for field in fields(AsyncEngineArgs))


class VllmCore(Core):
    """A core over an `AsyncLLM`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Start vLLM; minutes. `options`: arguments of its engine. Raises `ConfigurationError`."""
        self.loop = asyncio.new_event_loop()
        self.on_end: Callable[[], None] = lambda: None
        self._numbers = itertools.count()
        self._steps = _Steps()
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="afterword-vllm", daemon=True)
        self._thread.start()
        started: Future[AsyncLLM] = asyncio.run_coroutine_threadsafe(_start(options, self._steps), self.loop)
        try:
            self._engine = started.result(START_SECONDS)
        except BaseException as error:
            self._end_loop()
            if isinstance(error, Exception):
                reason = " ".join(str(error).split()) or type(error).__name__
                raise ConfigurationError(f"vLLM cannot load {options['model']}: {reason}") from error
            raise
        self.facts = _facts(self._engine)

    @property
    @override
    def is_dead(self) -> bool:
        return not self.loop.is_running() or bool(self._engine.errored)

    @property
    @override
    def n_steps(self) -> int:
        return self._steps.n

    @override
    async def sample(self, plan: Plan) -> AsyncGenerator[CoreOutput, None]:
        outputs = self._engine.generate(tokens_input(list(plan.prompt)), _params(plan), f"{next(self._numbers)}")
        try:
            async for output in outputs:
                yield _step(output, plan)
        except VLLMClientError as error:
            raise InvalidRequest(str(error.args[0]), param=getattr(error, "parameter", None)) from error
        except GeneratorExit:
            raise
        except Exception as error:
            raise EngineFailed("The engine failed; the server's log has the cause.") from error
        finally:
            # Aborts the request in vLLM, unless it has ended.
            await outputs.aclose()

    @override
    def close(self) -> None:
        with self._closing:
            if not self.loop.is_closed():
                if self.loop.is_running():
                    asyncio.run_coroutine_threadsafe(_shut_down(self._engine), self.loop).result()
                else:
                    self._engine.shutdown()
                self._end_loop()
                # Its destructor shuts down again. At the end of the program the modules that it needs would be gone.
                del self._engine

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.on_end()

    def _end_loop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class _Steps:
    """Counts vLLM's forward passes as one of its stat loggers. Having one also makes vLLM time its requests."""

    def __init__(self) -> None:
        self.n = 0

    def record(self, scheduler_stats: object, iteration_stats: object, **more: object) -> None:  # noqa: ARG002
        """Called after each pass, and at other times without `scheduler_stats`."""
        self.n += scheduler_stats is not None

    def log_engine_initialized(self) -> None:
        """Not used here, like the two below."""

    def log(self) -> None:
        """Called at intervals."""

    def record_sleep_state(self, is_awake: int, level: int) -> None:
        """Called when weights are unloaded, which does not happen here."""


async def _start(options: Mapping[str, Any], steps: _Steps) -> AsyncLLM:
    """Start vLLM on the loop that runs, which this blocks and to which vLLM stays bound."""
    return AsyncLLM.from_engine_args(AsyncEngineArgs(**options), stat_loggers=[lambda *_: steps])


async def _shut_down(engine: AsyncLLM) -> None:
    engine.shutdown()
    # One turn of the loop, in which the tasks that it cancelled end.
    await asyncio.sleep(0)


def _params(plan: Plan) -> SamplingParams:
    return SamplingParams(
        max_tokens=plan.max_tokens,
        min_tokens=plan.min_tokens,
        # The plan lists every token that ends a candidate; vLLM must add none.
        ignore_eos=True,
        stop_token_ids=sorted(plan.end_ids),
        **sampling_arguments(plan.sampling),
        logit_bias=dict(plan.bias.added) or None,
        allowed_token_ids=None if plan.bias.allowed is None else list(plan.bias.allowed),
        bad_words=list(plan.bad_words) or None,
        seed=plan.seed,
        logprobs=plan.logprobs,
        prompt_logprobs=plan.prompt_logprobs,
        structured_outputs=_form(plan),
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def _form(plan: Plan) -> StructuredOutputsParams | None:
    return None if plan.form is None else StructuredOutputsParams(**structured_outputs(plan.form))


def _step(output: RequestOutput, plan: Plan) -> CoreOutput:
    scores, times = None, output.metrics
    if plan.prompt_logprobs is not None and output.prompt_logprobs:
        flat = output.prompt_logprobs
        scores = prompt_scores(flat.token_ids, flat.logprobs, len(plan.prompt) - 1, plan.prompt_logprobs)
    waited = 0.0 if times is None else max(times.scheduled_ts - times.queued_ts, 0.0)
    return CoreOutput(_tokens(output.outputs[0], plan.logprobs), output.num_cached_tokens or 0, scores, waited)


def _tokens(output: CompletionOutput, k: int | None) -> tuple[NewToken, ...]:
    if k is None:
        return tuple(NewToken(token, None, ()) for token in output.token_ids)
    flat = output.logprobs
    assert isinstance(flat, FlatLogprobs), "asked for in this form"
    places = [slice(*ends) for ends in zip(flat.start_indices, flat.end_indices, strict=True)]
    return tuple(
        NewToken(token, *sampled(flat.token_ids[place], flat.logprobs[place], k))
        for token, place in zip(output.token_ids, places, strict=True)
    )


def _facts(engine: AsyncLLM) -> ModelFacts:
    config = engine.vllm_config
    model, parallel = config.model_config, config.parallel_config
    n_vocab = int(model.get_vocab_size())
    ends = token_ids(model.try_get_generation_config().get("eos_token_id"))
    ends |= token_ids(getattr(model.hf_text_config, "eos_token_id", None))
    return ModelFacts(
        max_model_len=int(model.max_model_len),
        n_vocab=n_vocab,
        n_slots=int(config.scheduler_config.max_num_seqs),
        max_logprobs=n_vocab if model.max_logprobs == -1 else min(int(model.max_logprobs), n_vocab),
        prefix_cache=bool(config.cache_config.enable_prefix_caching),
        new_runner=bool(config.use_v2_model_runner),
        identity=(
            f"vllm {vllm.__version__}",
            f"torch {torch.__version__}",
            f"{model.dtype} {model.quantization} {config.cache_config.cache_dtype}",
            f"{parallel.tensor_parallel_size} {parallel.pipeline_parallel_size} {config.device_config.device_type}",
            f"{getattr(model.hf_config, '_commit_hash', None)}",
        ),
        dtype=str(model.dtype).removeprefix("torch."),
        tokenizer=tokenizer_facts(engine.get_tokenizer(), ends, model.model),
    )
