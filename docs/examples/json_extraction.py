"""Data out of plain text, as objects: the model can only write JSON of the type, and the value is an instance of it.

The types here are dataclasses. A pydantic model or a msgspec struct stands in their place without further changes.

With a server running there:

    python docs/examples/json_extraction.py http://127.0.0.1:30000
"""

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from sapwood import State, assistant, function, gen, set_default_backend, system, user

ORDER = "Hello, this is Ada. I would like 2 large lamps and 1 small chair, please. It is urgent!"
ShortText = Annotated[str, Meta(max_length=12)]


@dataclass
class Item:
    name: ShortText
    size: Literal["small", "large"]
    count: Annotated[int, Meta(ge=1, le=99)]


@dataclass
class Order:
    customer: ShortText
    items: Annotated[list[Item], Meta(min_length=1, max_length=3)]
    is_urgent: bool


@function
def extract(s: State, mail: str) -> Order:
    s += system("You write down orders as JSON: the customer, the items with size and count, and whether it is urgent.")
    s += user(mail) + assistant(gen("order", json_schema=Order, max_tokens=200))
    order: Order = s["order"]
    return order


def main(url: str) -> None:
    set_default_backend(url)
    order: Order = extract.run(ORDER, temperature=0).result
    print(f"{order.customer} {'urgently ' if order.is_urgent else ''}wants:")
    for item in order.items:
        print(f"- {item.count} × {item.name}, {item.size}")


if __name__ == "__main__":
    main(*sys.argv[1:])
