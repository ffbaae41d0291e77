"""Readable English without meaning, by the token: the material of the workloads. The same seed writes the same.

Knows words and a tokenizer's `encode`. Does not know what the texts are used for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Encode = Callable[[str], list[int]]

TOPICS = (
    "gardens", "sailing", "bread", "railways", "astronomy", "chess", "beekeeping", "pottery", "mountains", "rivers",
    "libraries", "violins", "markets", "lighthouses", "weather", "bridges", "maps", "clocks", "forests", "printing",
)  # fmt: skip
NOUNS = (
    "keeper", "lamp", "valley", "letter", "harbour", "engine", "kitchen", "neighbour", "season", "window", "teacher",
    "orchard", "ladder", "village", "journey", "captain", "notebook", "workshop", "stone", "melody", "bakery", "tower",
    "traveller", "meadow", "carpenter", "station", "island", "storm", "recipe", "museum",
)  # fmt: skip
VERBS = (
    "repairs", "describes", "follows", "remembers", "measures", "paints", "visits", "explains", "carries", "studies",
    "finds", "collects", "crosses", "praises", "compares", "counts", "protects", "opens", "watches", "sketches",
)  # fmt: skip
ADJECTIVES = (
    "quiet", "old", "bright", "narrow", "patient", "distant", "wooden", "early", "careful", "green", "hidden", "warm",
    "curious", "heavy", "silver", "steady", "small", "famous", "plain", "gentle",
)  # fmt: skip
FRAMES = (
    "The {adjective} {noun} {verb} the {noun2} near the {noun3}.",
    "Every {noun} {verb} a {adjective} {noun2}, and nobody asks why.",
    "In a book about {topic}, a {adjective} {noun} {verb} the {noun2}.",
    "When the {noun} {verb} the {noun2}, the {noun3} is {adjective}.",
    "People who like {topic} say that a {noun} {verb} its {adjective} {noun2}.",
    "It took {number} days until the {noun} was as {adjective} as the {noun2}.",
)


@dataclass(frozen=True)
class Author:
    source: random.Random
    encode: Encode

    def topic(self) -> str:
        return self.source.choice(TOPICS)

    def sentence(self, topic: str) -> str:
        pick = self.source.choice
        noun, noun2, noun3 = self.source.sample(NOUNS, 3)
        return pick(FRAMES).format(
            topic=topic,
            noun=noun,
            noun2=noun2,
            noun3=noun3,
            verb=pick(VERBS),
            adjective=pick(ADJECTIVES),
            number=self.source.randrange(2, 1000),
        )

    def text(self, tokens: int, topic: str | None = None) -> list[int]:
        """Sentences, cut to exactly so many tokens."""
        about = topic or self.topic()
        written: list[int] = []
        while len(written) < tokens:
            written += self.encode(self.sentence(about) + " ")
        return written[:tokens]

    def message(self, role: str, content: list[int]) -> list[int]:
        """A whole message of a conversation, in the bundled model's form."""
        return self.encode(f"<|im_start|>{role}\n") + content + self.encode("<|im_end|>\n")

    def ask(self, content: list[int]) -> list[int]:
        """A user's message and the opening of the answer to it."""
        return self.message("user", content) + self.encode("<|im_start|>assistant\n")

    def end_answer(self) -> list[int]:
        return self.encode("<|im_end|>\n")


@dataclass(frozen=True)
class Desk:
    """Gives each program an author of its own: what it writes does not depend on how the programs interleave."""

    encode: Encode
    seed: int

    def author(self, *name: object) -> Author:
        return Author(random.Random(repr((self.seed, *name))), self.encode)
