"""Tickets routed to a desk: a choice decides, by a plain `if`, how the program goes on. A desk is a program, too.

With a server running there:

    python docs/examples/ticket_routing.py http://127.0.0.1:30000
"""

import sys

from sapwood import State, assistant, function, gen, select, set_default_backend, system, user

DESKS = ("delivery", "refund", "praise")
TICKETS = (
    "Where is my parcel? It should have been here on Monday.",
    "The kettle is broken. I want my 35 dollars back.",
    "Thank you so much, the lamp is wonderful!",
)


@function
def delivery(s: State) -> None:
    s += user("What is the state of the parcel, as JSON?")
    s += assistant(gen("parcel", regex=r'\{"status": "(packed|on its way|lost)", "days_late": [0-9]\}'))


@function
def refund(s: State) -> None:
    s += user("How much does the customer want back?")
    s += assistant(gen("amount", regex=r"\$[0-9]{1,4}\.[0-9]{2}"))


@function
def route(s: State, ticket: str) -> None:
    s += system(f"You answer a shop's mail. A mail is for one of these desks: {', '.join(DESKS)}.")
    s += user(ticket) + assistant("This is for the desk: " + select("desk", choices=DESKS))
    if s["desk"] == "delivery":
        delivery(s)
    elif s["desk"] == "refund":
        refund(s)
    s += user("Write the customer one friendly sentence.")
    s += assistant(gen("reply", max_tokens=48))


def main(url: str) -> None:
    set_default_backend(url)
    for state in route.run_batch([{"ticket": ticket} for ticket in TICKETS], temperature=0):
        print(f"{state.text()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
