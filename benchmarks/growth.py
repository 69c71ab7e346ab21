"""How cost grows with the number of clients, the length of the prompt, the candidates, and the prompts scored."""

from random import Random
from statistics import median

from benchmarks.client import Client
from benchmarks.prompts import request, text
from benchmarks.sizes import Sizes
from benchmarks.workloads import Measures, all_at_once, joint_measures, questions, sampled, score_all


async def clients(client: Client, random: Random, sizes: Sizes) -> Measures:
    """Ordinary requests of more and more clients at once."""
    found: Measures = {}
    for n in sizes.growing_clients:
        measures = joint_measures(*await all_at_once(client, sampled(n, random, sizes)))
        found |= {f"{metric}@{n}": value for metric, value in measures.items()}
    return found


async def prompt(client: Client, random: Random, sizes: Sizes) -> Measures:
    """Time to the first token of longer and longer prompts, nothing else running."""
    found: Measures = {}
    for n in sizes.growing_prompts:
        streams = [await client.stream(request(text(n, random), 8)) for _ in range(sizes.repeats)]
        first = median(stream.first for stream in streams)
        found |= {f"first_token_ms@{n}": 1e3 * first, f"prompt_tokens_per_s@{n}": n / first}
    return found


async def candidates(client: Client, random: Random, sizes: Sizes) -> Measures:
    """More and more candidates of one ordinary prompt."""
    found: Measures = {}
    for n in sizes.growing_candidates:
        body = request(text(sizes.prompt, random), sizes.out, temperature=0.9, n=n)
        seconds, _ = await client.complete(body)
        found |= {f"wall_s@{n}": seconds, f"out_tokens_per_s@{n}": n * sizes.out / seconds}
    return found


async def scores(client: Client, random: Random, sizes: Sizes) -> Measures:
    """More and more prompts to score, four to a context."""
    found: Measures = {}
    for n in sizes.growing_scores:
        n_scored, seconds = await score_all(client, questions(n, random), sizes.scoring_seconds)
        found[f"requests_per_s@{n}"] = n_scored / seconds
    return found
