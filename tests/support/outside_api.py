"""An outside API on this machine's own address: answers each path with the bytes that a test gives, or never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class OutsideApi:
    """`answers`: of each path; a path without one is connected to and hears nothing."""

    answers: dict[str, bytes]
    port: int = 0
    requests: list[bytes] = field(default_factory=list)  # heads and bodies, as they came

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await read_request(reader)
            self.requests.append(request)
            path = request.split(b" ", 2)[1].decode().partition("?")[0]
            if path not in self.answers:
                await reader.read()  # until the client gives up
            else:
                writer.write(self.answers[path])
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lengths[0].partition(b":")[2]) if lengths else 0
    return head + await reader.readexactly(length)


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", "Content-Type: application/json", "Connection: close", *headers])
    return head.encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def outside_api(**answers: bytes) -> AsyncIterator[OutsideApi]:
    """Args:
    answers: by path, without its slash.
    """
    api = OutsideApi({f"/{path}": text for path, text in answers.items()})
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
    async with server:
        api.port = server.sockets[0].getsockname()[1]
        yield api
