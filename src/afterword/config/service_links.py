"""A variable that is named like a setting and is none: Kubernetes and Docker's links describe services that way.

For a service called `afterword` every pod of its namespace gets `AFTERWORD_PORT=tcp://10.96.12.7:8000`.
"""

import re
from collections.abc import Mapping

from afterword.config.tree import SECTIONS

PORT = SECTIONS["server"]["port"].variable

LINK = re.compile(r"(?:tcp|udp|sctp)://\S+")


def is_link(variable: str, value: str) -> bool:
    """Whether `load_config` leaves the variable out (docs/rules.md#variables-of-services)."""
    return variable == PORT and LINK.fullmatch(value) is not None


def warning(environment: Mapping[str, str]) -> str | None:
    """The sentence about what is left out; None: nothing is."""
    value = environment.get(PORT, "")
    if not is_link(PORT, value):
        return None
    return (
        f"{PORT} is {value!r}, the address of a service called afterword, no port to listen on: it is ignored "
        "(enableServiceLinks: false turns such variables off)."
    )
