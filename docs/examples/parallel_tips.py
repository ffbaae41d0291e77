"""Tips written side by side: a branch for each, all of them at the same time, and then one text of them.

With a server running there:

    python docs/examples/parallel_tips.py http://127.0.0.1:30000
"""

import sys
from collections.abc import Sequence

from sapwood import State, function, gen, set_default_backend

TIPS = ("eat well", "move every day", "sleep enough")


@function
def advise(s: State, tips: Sequence[str]) -> None:
    s += f"{len(tips)} tips for a healthy life: {', '.join(tips)}.\n"
    forks = s.fork(len(tips))
    for fork, tip in zip(forks, tips, strict=True):
        fork += f"\nWhy one should {tip}, in one sentence:" + gen("reason", max_tokens=40, stop="\n")
    forks.join()
    for number, (tip, reason) in enumerate(zip(tips, s["reason"], strict=True), 1):
        s += f"\n{number}. {tip.capitalize()}:{reason}"
    s += "\n\nIn short, a healthy life" + gen("summary", max_tokens=32, stop="\n")


def main(url: str) -> None:
    set_default_backend(url)
    print(advise.run(TIPS, temperature=0).text())


if __name__ == "__main__":
    main(*sys.argv[1:])
