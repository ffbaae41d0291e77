import asyncio

import pytest
from structlog.testing import capture_logs

from shared.model_card import ModelCard
from tests.support.served_gateway import serving

CARD = ModelCard(
    model_id="tiny",
    architecture="llama",
    max_model_len=256,
    vocab_size=1000,
    eos_token_ids=(2,),
    bos_token_id=1,
    add_bos=False,
    bos_token="<s>",
    eos_token="</s>",
    chat_template=None,
    source="nowhere",
)


@pytest.fixture
async def served(tmp_path):
    """A gateway that listens, before stages that answer "Hello, world!"."""
    with capture_logs():
        async with serving(tmp_path, CARD) as found:
            yield found


@pytest.fixture
def command(served, capsys):
    """Runs a command's `main` against the gateway: exit code, output, errors."""

    async def run(main, *arguments):
        code = await asyncio.to_thread(main, ["--url", served.url, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
