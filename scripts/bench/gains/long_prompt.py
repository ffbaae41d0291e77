"""A long text with a question, new to the server, then the text with another question: how much is computed again."""

from __future__ import annotations

import statistics

from scripts.bench.cache.program import one_request
from scripts.bench.cache.summary import Summary, share
from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text, spread_text
from scripts.bench.gains.sides import CACHED, Sides, new_namespace
from scripts.bench.measure.timing import round_ratios

TEXT_TOKENS, QUESTION_TOKENS, ANSWER_TOKENS = 8000, 50, 16


def measure(sides: Sides) -> tuple[list[Summary], list[Summary]]:
    """Both with the cache: what finds nothing there is what it would be without."""
    cold: list[Summary] = []
    warm: list[Summary] = []
    for number in range(sides.rounds):
        text = sides.desk.author("long", number).text(TEXT_TOKENS)
        namespace = new_namespace()
        for n, times in enumerate((cold, warm)):
            question = sides.desk.author("long question", number, n).text(QUESTION_TOKENS)
            times.append(sides.play(CACHED, [one_request(text + question, ANSWER_TOKENS)], 1, namespace))
    return cold, warm


def show(sides: Sides) -> None:
    cold, warm = measure(sides)
    skipped = statistics.median(share(each.reused_tokens, each.prompt_tokens) for each in warm)
    rows = [
        [name, spread_text(Spread.of([each.ttft_p50_s * 1e3 for each in summaries]), ".0f")]
        for name, summaries in (("new", cold), ("seen, another question", warm))
    ]
    sooner = Spread.of(round_ratios([each.ttft_p50_s for each in cold], [each.ttft_p50_s for each in warm]))
    print(f"**{TEXT_TOKENS} shared and {QUESTION_TOKENS} new tokens**\n\n{markdown(('text', 'TTFT, ms'), rows)}\n")
    print(f"{skipped:.1%} of the prompt's tokens were not computed again; ", end="")
    print(f"the first token came {ratio_text(sooner)} sooner\n", flush=True)
