"""A tree of thought: every thought goes on in several ways at the same time, and the best way to the end is kept.

With a server running there:

    python docs/examples/tree_of_thought.py http://127.0.0.1:30000
"""

import sys

from sapwood import State, assistant, function, gen, set_default_backend, user

PROBLEM = "How can a small town use less energy?"
GRADES = ("1", "2", "3", "4", "5")


def grow(s: State, depth: int, width: int) -> list[State]:
    """The tree's leaves, in order. Nothing is waited for: the branches grow side by side."""
    if depth == 0:
        return [s]
    forks = s.fork(width)
    forks += user("What comes next? Answer in a few words.") + assistant(gen("step", max_tokens=24, temperature=1))
    return [leaf for fork in forks for leaf in grow(fork, depth - 1, width)]


@function
def solve(s: State, problem: str, depth: int = 3, width: int = 3) -> list[tuple[int, State]]:
    """Every way through the tree and its grade, the best one first."""
    s += user(f"{problem} Let us think step by step.")
    s += assistant("Gladly.")
    leaves = grow(s, depth, width)
    for leaf in leaves:
        leaf += user("Grade these steps from 1 to 5.") + assistant(gen("grade", choices=GRADES))
    return sorted(((int(leaf["grade"]), leaf) for leaf in leaves), key=lambda graded: graded[0], reverse=True)


def main(url: str) -> None:
    set_default_backend(url)
    graded = solve.run(PROBLEM, temperature=0).result
    grade, best = graded[0]
    print(f"The best of {len(graded)} ways, with grade {grade}:\n{best.text()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
