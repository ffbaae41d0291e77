"""Self-consistency: the same question is thought through several times, and the answer that comes most often counts.

With a server running there:

    python docs/examples/self_consistency.py http://127.0.0.1:30000
"""

import sys
from collections import Counter

from sapwood import State, function, gen, set_default_backend

EXAMPLES = """\
Question: Tom has 3 apples and buys 4 more. How many apples has he?
Thoughts: He had 3 and buys 4, so he has 3 + 4 = 7 apples. The answer is 7.

Question: Eve has 6 cups and breaks 2 of them. How many cups has she?
Thoughts: She had 6 and breaks 2, so she has 6 - 2 = 4 cups. The answer is 4.

"""
QUESTION = "Ann has 5 pens and buys 3 more. How many pens has she?"
ANSWER = " The answer is "


@function
def vote(s: State, question: str, samples: int = 8) -> Counter[int]:
    """How often each answer came. The question is computed once for all samples."""
    s += EXAMPLES + f"Question: {question}\nThoughts:"
    s += gen("thoughts", n=samples, regex=rf"[^\n.]{{1,100}}\.{ANSWER}[0-9]{{1,2}}\.", max_tokens=64)
    return Counter(int(thoughts.rpartition(ANSWER)[2].strip(".")) for thoughts in s["thoughts"])


def main(url: str) -> None:
    set_default_backend(url)
    state = vote.run(QUESTION, temperature=0.7)
    print(*state["thoughts"], sep="\n")
    for answer, count in state.result.most_common():
        print(f"{answer}: {count} of {state.result.total()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
