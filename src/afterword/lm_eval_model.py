"""A model for lm-evaluation-harness that asks `/v1/score`: lm-eval's `local-completions`, but for how it scores.

    python -m afterword.lm_eval_model run --model afterword --model_args base_url=http://127.0.0.1:8000/v1/completions

with further options is the command line of lm-eval. Needs that, which nothing else here does, and nothing of this
package.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.registry import register_model
from lm_eval.models.openai_completions import LocalCompletionsAPI
from requests.adapters import HTTPAdapter
from typing_extensions import override
from urllib3 import Retry

MOST_PAIRS = 256
"""In one request: enough to keep every slot busy."""

MOST_TOKENS = 200_000
"""In one request, contexts repeated: well below what a server takes by default."""

AT_ONCE = 2
"""Requests at once, so that the slots are busy while one of them ends."""

Wanted = tuple[Any, list[int], list[int]]
"""What lm-eval asks for: a key for its cache, the tokens of a context and of a continuation."""

Score = tuple[float, bool]
"""The log-probability of a continuation, and whether it is the greedy one."""


@register_model("afterword")
class AfterwordModel(LocalCompletionsAPI):  # type: ignore[misc]  # lm-eval is installed elsewhere
    """Takes the arguments of `local-completions`; those about batches of scores change nothing."""

    @override
    def _loglikelihood_tokens(self, requests: Sequence[Wanted], **kwargs: Any) -> list[Score]:
        # Continuations of one context follow each other, so that they are in one request.
        order = sorted(range(len(requests)), key=lambda number: (requests[number][1], number))
        pairs = [self._within_the_context(*requests[number][1:]) for number in order]
        with self._session() as session, ThreadPoolExecutor(max(AT_ONCE, self._concurrent)) as threads:
            batches = list(threads.map(lambda batch: self._scored(session, batch), _batches(pairs)))
        found = dict(zip(order, (score for batch in batches for score in batch), strict=True))
        for number, score in found.items():
            if requests[number][0] is not None:
                self.cache_hook.add_partial("loglikelihood", requests[number][0], score)
        return [found[number] for number in range(len(requests))]

    def _within_the_context(self, context: list[int], continuation: list[int]) -> list[list[int]]:
        """The pair, with the beginning of the context left out if both are longer than the model's."""
        n_kept = min(len(context), self.max_length - len(continuation))
        return [context[len(context) - n_kept :], continuation]

    def _session(self) -> requests.Session:
        session = requests.Session()
        # A server that is full says when to come back.
        again = Retry(self.max_retries, status_forcelist=(429, 503), allowed_methods=None, backoff_factor=0.5)
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=again, pool_maxsize=max(AT_ONCE, self._concurrent)))
        return session

    def _scored(self, session: requests.Session, pairs: list[list[list[int]]]) -> list[Score]:
        url = self.base_url.rstrip("/").removesuffix("/completions") + "/score"
        answer = session.post(
            url,
            json={"model": self.model, "pairs": pairs},
            headers=self.header,
            verify=self.verify_certificate,
            timeout=self.timeout,
        )
        if not answer.ok:
            raise RuntimeError(f"{url} answered {answer.status_code}: {answer.text[:500]}")
        return [(one["sum_logprob"], one["is_greedy"]) for one in answer.json()["data"]]


def _batches(pairs: Sequence[list[list[int]]]) -> Iterator[list[list[list[int]]]]:
    batch: list[list[list[int]]] = []
    n_tokens = 0
    for pair in pairs:
        n_more = sum(map(len, pair))
        if batch and (len(batch) == MOST_PAIRS or n_tokens + n_more > MOST_TOKENS):
            yield batch
            batch, n_tokens = [], 0
        batch.append(pair)
        n_tokens += n_more
    if batch:
        yield batch


if __name__ == "__main__":
    cli_evaluate()
