"""An OpenAI-style completions route in front of OpenVINO GenAI, which has no server of its own.

The pipeline has a process to itself, since a step holds the interpreter's lock: it steps while there is work and sleeps
otherwise, and hands on each step's new tokens at once. Runs in that peer's virtual environment, so it imports nothing
of the project.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import signal
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import openvino_genai as genai
from aiohttp import web
from openvino_genai.py_openvino_genai import GenerationHandle, GenerationStatus

OVER = (GenerationStatus.FINISHED, GenerationStatus.IGNORED, GenerationStatus.CANCEL, GenerationStatus.STOP)


@dataclass(frozen=True)
class Job:
    number: int
    prompt: str
    new_tokens: int
    ignore_eos: bool

    def config(self) -> genai.GenerationConfig:
        config = genai.GenerationConfig()
        config.max_new_tokens = self.new_tokens
        config.ignore_eos = self.ignore_eos
        config.do_sample = False
        return config


Chunk = tuple[int, list[int], bool]  # of which job, its new tokens, whether it is over


def run_engine(connection: Connection, arguments: argparse.Namespace) -> None:
    """The engine's process: says that it is ready, then takes jobs and hands out a list of chunks after each step."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipeline = make_pipeline(arguments)
    running: dict[int, GenerationHandle] = {}
    connection.send("ready")
    while True:
        while not running or connection.poll():
            job = connection.recv()
            running[job.number] = pipeline.add_request(job.number, job.prompt, job.config())
        pipeline.step()
        chunks = [_read(number, handle) for number, handle in running.items()]
        connection.send([chunk for chunk in chunks if chunk[1] or chunk[2]])
        for number, _, is_over in chunks:
            if is_over:
                del running[number]


def _read(number: int, handle: GenerationHandle) -> Chunk:
    is_over = handle.get_status() in OVER
    ids: list[int] = []
    while handle.can_read():
        for output in handle.read().values():
            ids += output.generated_ids
    return number, ids, is_over


def make_pipeline(arguments: argparse.Namespace) -> genai.ContinuousBatchingPipeline:
    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = True
    scheduler.max_num_seqs = arguments.max_requests
    scheduler.cache_size = arguments.cache_gib
    properties: dict[str, Any] = {"INFERENCE_NUM_THREADS": arguments.threads}
    if arguments.kv_precision:
        properties["KV_CACHE_PRECISION"] = arguments.kv_precision
    if arguments.exact:
        properties |= {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    return genai.ContinuousBatchingPipeline(arguments.model_path, scheduler, "CPU", properties)


class Engine:
    """The front's end of the engine's process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._streams: dict[int, asyncio.Queue[Chunk]] = {}

    def start(self) -> None:
        """To be called in the loop that it will speak to."""
        threading.Thread(target=self._listen, args=(asyncio.get_running_loop(),), daemon=True).start()

    def submit(self, job: Job) -> asyncio.Queue[Chunk]:
        stream = self._streams[job.number] = asyncio.Queue()
        self._connection.send(job)
        return stream

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            loop.call_soon_threadsafe(self._hand_out, self._connection.recv())

    def _hand_out(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self._streams[chunk[0]].put_nowait(chunk)
            if chunk[2]:
                del self._streams[chunk[0]]


class Text:
    """Ids to text, piece by piece: decodes the whole anew and gives what is new and certain."""

    def __init__(self, tokenizer: genai.Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._from = 0  # ids before it have been given out
        self._given = ""

    def add(self, ids: list[int]) -> str:
        self._ids += ids
        text = self._tokenizer.decode(self._ids[self._from :])
        if text.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        new, self._given = text[len(self._given) :], text
        if len(self._ids) - self._from > 32:
            self._from, self._given = len(self._ids) - 1, self._tokenizer.decode(self._ids[-1:])
        return new


class Front:
    def __init__(self, engine: Engine, tokenizer: genai.Tokenizer, model: str) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._model = model
        self._numbers = itertools.count()

    async def start(self, _app: web.Application) -> None:
        self._engine.start()

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self._model, "object": "model"}]})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        prompt = body["prompt"]
        job = Job(next(self._numbers), prompt, body.get("max_tokens", 16), bool(body.get("ignore_eos")))
        stream = self._engine.submit(job)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        new_tokens = await self._forward(stream, response)
        prompt_tokens = self._tokenizer.encode(prompt).input_ids.get_shape()[1]
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": new_tokens}
        await self._send(response, choices=[], usage=usage)
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _forward(self, stream: asyncio.Queue[Chunk], response: web.StreamResponse) -> int:
        """Returns the number of tokens."""
        text, new_tokens, is_over = Text(self._tokenizer), 0, False
        while not is_over:
            _, ids, is_over = await stream.get()
            new_tokens += len(ids)
            reason = "length" if is_over else None
            await self._send(response, choices=[{"index": 0, "text": text.add(ids), "finish_reason": reason}])
        return new_tokens

    async def _send(self, response: web.StreamResponse, **fields: Any) -> None:
        event = {"object": "text_completion", "model": self._model, **fields}
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--max-requests", type=int, default=256)
    parser.add_argument("--cache-gib", type=int, default=2)
    parser.add_argument("--kv-precision", help="u8 is OpenVINO's own default; f16, f32")
    parser.add_argument("--exact", action="store_true", help="compute in float32, nothing rounded to bfloat16 or int8")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=run_engine, args=(theirs, arguments), daemon=True).start()
    assert ours.recv() == "ready"
    front = Front(Engine(ours), genai.Tokenizer(arguments.model_path), "model")
    app = web.Application(client_max_size=64 << 20)
    app.on_startup.append(front.start)
    app.router.add_get("/v1/models", front.models)
    app.router.add_post("/v1/completions", front.completions)
    web.run_app(app, host="127.0.0.1", port=arguments.port, print=None)


if __name__ == "__main__":
    main()
