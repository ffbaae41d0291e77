"""The one line for people: that a request would be answered now, and how to make one.

Asks the gateway over HTTP, as a client would. Knows no process and no supervisor.
"""

from __future__ import annotations

import asyncio
import json
import time

from shared import logging
from shared.config import Config
from shared.model_card import load_card

READY_POLL_S = 0.1


async def announce_ready(config: Config) -> None:
    """Print the one line for people, once a request would be answered."""
    started_s = time.monotonic()
    while not await _answers(config, "/ready"):  # noqa: ASYNC110 - another process knows, no event of ours
        await asyncio.sleep(READY_POLL_S)
    card = load_card(config.model)
    address = _address(config)
    body = json.dumps(
        {"model": card.model_id, "messages": [{"role": "user", "content": "What is the capital of France?"}]}
    )
    logging.say(
        f"\nSapwood is ready at {address} with {card.model_id} ({time.monotonic() - started_s:.1f} s). Try:\n\n"
        f"  curl {address}/v1/chat/completions -H 'Content-Type: application/json'{_key_header(config)} -d '{body}'\n\n"
        f"{_logs(config)}"
    )


def _address(config: Config) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.gateway.host, config.gateway.host)
    return f"http://[{host}]:{config.gateway.port}" if ":" in host else f"http://{host}:{config.gateway.port}"


def _logs(config: Config) -> str:
    folder = config.logging.kept_in(config.run_dir)
    return "" if folder is None else f"Logs: {folder}\n\n"


def _key_header(config: Config) -> str:
    keyed = config.gateway.api_keys or config.gateway.api_keys_file
    return " -H 'Authorization: Bearer YOUR_KEY'" if keyed else ""


async def _answers(config: Config, path: str) -> bool:
    """Whether the gateway answers 200 there."""
    host = _address(config).removeprefix("http://").rpartition(":")[0].strip("[]")
    try:
        reader, writer = await asyncio.open_connection(host, config.gateway.port)
    except OSError:
        return False
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        status = await asyncio.wait_for(reader.readline(), 5.0)
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()
    return b" 200 " in status
