"""Prompts made of common words, and the fields every request has. Pure.

A salt makes each round's prompts new, so that no cache answers from an earlier one; within a round all servers get the
same. Each word is one token of the shipped model, so words count tokens.
"""

from random import Random
from typing import Any

_WORDS = """
    amber anchor animal apple autumn bakery barley basket beach bell bird boat bread bridge brother butter candle carpet
    castle cedar chair cheese chapel city cloud clover coat copper corn cotton cow crown dance dawn desert doctor door
    dress drum dust eagle earth engine farmer feather fence field fire fish flag floor flower forest fox friend fruit
    garden gate ginger glass gold grain grass green hall hand harbor hat harvest hill honey horse house island jacket
    key king kitchen ladder lake lamp leaf letter lemon linen lion maple marble market meadow milk mirror moon morning
    mountain mouse music needle night north ocean orange orchard owl page paint paper path pepper pillow pine planet
    plant plum pocket pond prairie queen quilt quiet rabbit rain red river road rocket roof rope rose salt sand school
    sea seed shadow sheep shell shelter ship shoe shop silk silver sister sky snow soup south spoon spring square stable
    star stone storm street sugar summer sun table temple thunder timber tower town tree tunnel uncle valley velvet
    village violin wall water wheat wheel whisper white willow wind window winter wolf wood wool yard yellow young
"""

WORDS = tuple(_WORDS.split())

NO_END = {"0": -100, "1": -100, "2": -100}
"""Bans the shipped model's three control tokens, so that every completion has its full length."""


def text(n_words: int, random: Random) -> str:
    """A prompt of that many words."""
    return " ".join(random.choice(WORDS) for _ in range(n_words))


def request(prompt: str, max_tokens: int, **fields: Any) -> dict[str, Any]:
    """A request that runs to its last token: greedy, unless `fields` say otherwise."""
    return {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "logit_bias": NO_END, **fields}
