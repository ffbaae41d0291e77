"""Small traces of few different tokens, so that much is shared and every boundary is met."""

from hypothesis import strategies as st

from scripts.bench.cache.trace import Record


def record(prompt, output=(), namespace="", submitted_s=0.0, cached=0, ttft_s=0.0, total_s=0.0):
    return Record("test", "", namespace, submitted_s, tuple(prompt), tuple(output), cached, ttft_s, total_s)


def records(max_size, longest, namespaces=("one", "two")):
    tokens = st.integers(0, 2)
    return st.lists(
        st.builds(
            record,
            st.lists(tokens, min_size=1, max_size=longest),
            st.lists(tokens, max_size=2),
            st.sampled_from(namespaces),
        ),
        min_size=1,
        max_size=max_size,
    )


def prefixes(tokens):
    """All of them, the empty one aside."""
    return {tuple(tokens[:length]) for length in range(1, len(tokens) + 1)}


def longest_held(held, prompt):
    """How much of the prompt, its last token aside, is in this set of prefixes."""
    return max((length for length in range(len(prompt)) if not length or tuple(prompt[:length]) in held), default=0)
