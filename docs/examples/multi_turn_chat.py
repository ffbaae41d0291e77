"""A chat of several turns, shown as it is written. What was said before lies in the server's cache.

With a server running there:

    python docs/examples/multi_turn_chat.py http://127.0.0.1:30000
"""

import sys
from collections.abc import Sequence

from sapwood import State, assistant, function, gen, set_default_backend, system, user

QUESTIONS = ("What is the capital of France?", "What can one see there?", "Which of these is the oldest?")


@function
def chat(s: State, questions: Sequence[str]) -> None:
    s += system("You are a helpful assistant.")
    for turn, question in enumerate(questions, 1):
        s += user(question)
        s += assistant(gen(f"answer_{turn}", max_tokens=48))


def main(url: str) -> None:
    set_default_backend(url)
    state = chat.stream(QUESTIONS, temperature=0)
    for piece in state.text_iter():
        print(piece, end="", flush=True)
    last = state.generation(f"answer_{len(QUESTIONS)}")
    print(f"\n\nThe last turn found {last.cached_tokens} of its {last.prompt_tokens} tokens in the cache.")


if __name__ == "__main__":
    main(*sys.argv[1:])
