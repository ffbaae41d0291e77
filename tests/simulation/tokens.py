"""The fake model: which token stands at a position is a function of the prompt and the position, and nothing else."""

EOS, STOP = 2, 5  # end of sequence; what the fake detokenizer takes for a stop string
VOCABULARY = 90


def token_at(prompt: tuple[int, ...], position: int) -> int:
    drawn = hash((prompt, position, 7919))
    if drawn % 23 == 0:
        return EOS
    return STOP if drawn % 19 == 0 else 10 + drawn % VOCABULARY


def is_forced(prompt: tuple[int, ...], position: int) -> bool:
    """Whether a constraint leaves no choice about the token there. They come in runs."""
    return hash((prompt, position // 5, 104729)) % 3 == 0 and token_at(prompt, position) != EOS


def expected_output(prompt: tuple[int, ...], max_new_tokens: int, *, stops_at_string: bool) -> tuple[list[int], str]:
    """The one right answer, and why it ends."""
    output: list[int] = []
    while len(output) < max_new_tokens:
        output.append(token_at(prompt, len(prompt) + len(output)))
        if output[-1] == EOS or (stops_at_string and output[-1] == STOP):
            return output, "stop"
    return output, "length"
