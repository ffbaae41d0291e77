"""The link protocol over `shared.transport`: Hello, Welcome, grants, Reset, heartbeats; typed messages in and out.

A `BoundLink` (gateway front, scheduler hub) and a `DialledLink` (everyone else) look the same to a service: call
`send(peer, message)`, get `Joined`, `Left` and `Received` through `on_event`, call `tick()` now and then. A peer is
named by the identity that its process drew at start. No clock of another machine is involved: order comes from
grants, and a grant is only a number that the bound side increases.

What travels towards a bound side is [grant, payload], and back [payload]. A dialler's route, the identity of its
socket, is its name and a secret that only the two ends of that connection know: who knows a name cannot take its place.

What cannot be is answered or dropped, complained of at most once a second, and never more than one link's affair.
"""

from __future__ import annotations

from shared.bound_link import BoundLink
from shared.dialled_link import DialledLink
from shared.link_terms import Joined, Left, LinkEvent, OnEvent, Received, new_identity

__all__ = ["BoundLink", "DialledLink", "Joined", "Left", "LinkEvent", "OnEvent", "Received", "new_identity"]
