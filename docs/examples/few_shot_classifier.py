"""Reviews sorted by a few examples: `select` takes the mood that the model finds most likely, and nothing is generated.

With a server running there:

    python docs/examples/few_shot_classifier.py http://127.0.0.1:30000
"""

import sys
from collections.abc import Sequence

from sapwood import State, function, select, set_default_backend

MOODS = ("positive", "negative")
EXAMPLES = (
    ("I loved every minute of it.", "positive"),
    ("A waste of time and money.", "negative"),
    ("Dull, long and badly played.", "negative"),
    ("The best film of the year!", "positive"),
)
REVIEWS = (
    "What a wonderful, funny film.",
    "Terrible. I walked out after an hour.",
    "Beautiful pictures and a great cast.",
    "The worst thing I have ever seen.",
)


@function
def classify(s: State, review: str) -> None:
    for example, mood in EXAMPLES:
        s += f"Review: {example}\nMood: {mood}\n\n"
    s += f"Review: {review}\nMood:" + select("mood", choices=[f" {mood}" for mood in MOODS])


def moods_of(reviews: Sequence[str]) -> list[str]:
    """All at the same time; the examples before them are computed once."""
    states = classify.run_batch([{"review": review} for review in reviews])
    return [state["mood"].strip() for state in states]


def main(url: str) -> None:
    set_default_backend(url)
    for review, mood in zip(REVIEWS, moods_of(REVIEWS), strict=True):
        print(f"{mood}: {review}")


if __name__ == "__main__":
    main(*sys.argv[1:])
