"""An agent that looks something up: the model fills in what to ask, the program asks, and the model reads the answer.

The program's author lists what may be called; whatever the model writes, no other host is reached. With a server
running there, and an internet connection (or an address of your own that answers {"rates": {"EUR": 0.9}} behind it):

    python docs/examples/agent_with_api.py http://127.0.0.1:30000
"""

import sys
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from sapwood import (
    CallFailed,
    State,
    assistant,
    call_api,
    function,
    gen,
    set_api_hosts,
    set_default_backend,
    system,
    user,
)

RATES = "https://api.frankfurter.dev/v1/latest"
QUESTION = "I have 20 US dollars (USD). How many euros (EUR) do I get for them?"
Currency = Literal["USD", "EUR", "GBP", "JPY"]


@dataclass
class Exchange:
    amount: Annotated[int, Meta(ge=1, le=9999)]
    base: Currency
    wanted: Currency


@function
def exchange(s: State, question: str, rates_url: str = RATES) -> float:
    s += system("You help with money. First you write down as JSON what is asked.")
    s += user(question) + assistant(gen("asked", json_schema=Exchange, max_tokens=64))
    asked: Exchange = s["asked"]
    s += user("Today's rates: " + call_api("rates", rates_url, {"base": asked.base, "symbols": asked.wanted}))
    result: float = asked.amount * s["rates"]["rates"][asked.wanted]
    s += user(f"That makes {result:.2f} {asked.wanted}. Tell me so in one sentence.")
    s += assistant(gen("answer", max_tokens=48))
    return result


def main(url: str, rates_url: str = RATES) -> None:
    set_default_backend(url)
    set_api_hosts([urlsplit(rates_url).netloc])
    try:
        print(exchange.run(QUESTION, rates_url, temperature=0).text())
    except CallFailed as error:
        sys.exit(f"no rates: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
