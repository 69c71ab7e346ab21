"""The answer of a score request as JSON (docs/scoring.md). Knows no HTTP and no engine."""

from collections.abc import Sequence
from typing import Any

from afterword.api.render import new_head, usage_object
from afterword.api.render_logprobs import LogprobFormat
from afterword.completions.counting import Usage
from afterword.completions.scoring.score_answer import Score, label_probabilities, scores_of
from afterword.completions.scoring.score_plan import ScorePlan
from afterword.engine.events import PromptScores
from afterword.registry import ServedModel
from afterword.tokens import Tokenizer


def score_object(plan: ScorePlan, served: ServedModel, found: Sequence[PromptScores], usage: Usage) -> dict[str, Any]:
    """The whole body; `found`: the scores of the plan's prompts."""
    head = new_head(served.name, served.engine.fingerprint, "score-")
    answer: dict[str, Any] = {
        "id": head.id,
        "object": "scoring",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": head.system_fingerprint,
    }
    if plan.labels is None:
        tokenizer = served.engine.tokenizer
        spelling = LogprobFormat(tokenizer)
        scores = scores_of(plan, found)
        answer["data"] = [_shown(number, one, tokenizer, spelling) for number, one in enumerate(scores)]
    else:
        answer["scores"] = label_probabilities(plan, found)
    return answer | {"usage": usage_object(usage)}


def _shown(index: int, score: Score, tokenizer: Tokenizer, spelling: LogprobFormat) -> dict[str, Any]:
    n_bytes = sum(len(tokenizer.piece(token)) for token in score.token_ids)
    return {
        "object": "score",
        "index": index,
        "tokens": [spelling.spell(token) for token in score.token_ids],
        "token_ids": score.token_ids,
        "token_logprobs": score.logprobs,
        "sum_logprob": score.total,
        "mean_logprob": score.total / len(score.token_ids),
        "logprob_per_byte": score.total / n_bytes if n_bytes > 0 else None,
        "is_greedy": score.is_greedy,
    }
