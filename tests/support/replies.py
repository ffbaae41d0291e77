"""A reply of one generation, whole or as its events, from the pieces of its output."""

from services.gateway.generation import merge
from services.gateway.replies.reply import Output


def whole(reply, pieces, ending):
    return reply.whole([Output(merge(pieces), ending)], ending.usage)


def events(reply, pieces, ending):
    found = [event for piece in pieces for event in reply.events(0, piece)]
    return found + reply.ended(0, ending) + reply.closing(ending.usage)
