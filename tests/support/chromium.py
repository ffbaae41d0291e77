"""A browser without a window, steered over its own debugging protocol. Needs Debian's `chromium`, or Chrome."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--disable-extensions", "--remote-debugging-port=0"),
)
WITHIN_S = 60.0
LOOK_S = 0.05


def find_chromium() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One tab. What goes wrong in its scripts is kept in `errors`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self._passwords: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())

    async def open(self, url: str, *, width: int = 1440, height: int = 900) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.protocol !== 'about:'")

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        return await asyncio.wait_for(answer, WITHIN_S)

    async def value(self, script: str) -> Any:
        """Of an expression, which may be a promise."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer.get("result", {}).get("value")  # none, if the page has just gone elsewhere

    async def until(self, script: str, timeout_s: float = WITHIN_S) -> None:
        """Waits until an expression, which may be a promise, is true or an object."""
        try:
            async with asyncio.timeout(timeout_s):
                while not await self.value(f"(async () => Boolean(await ({script})))()"):
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise AssertionError(f"never true: {script}; {self.errors}") from None

    async def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def fill(self, selector: str, text: str) -> None:
        """A field, as if that was typed."""
        field = f"document.querySelector({json.dumps(selector)})"
        await self.value(f"{field}.value = {json.dumps(text)}")
        await self.value(f"{field}.dispatchEvent(new Event('input'))")

    async def move(self, x: float, y: float) -> None:
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def picture(self, path: Path) -> None:
        answer = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))

    async def give(self, *passwords: str) -> None:
        """One after the other where the browser asks for one; after the last, Cancel is pressed."""
        self._passwords = list(passwords)
        await self.call("Fetch.enable", handleAuthRequests=True)

    async def close(self) -> None:
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                answer = self._answers.pop(told["id"], None)
                if answer is not None and not answer.done():
                    answer.set_result(told.get("result") or {"error": told.get("error")})
            elif told["method"].startswith("Fetch."):
                await self._let_pass(told["method"], told["params"]["requestId"])
            elif told["method"] == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(told["params"]["exceptionDetails"]))
            elif told["method"] == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.errors.append(json.dumps(told["params"]["entry"]))

    async def _let_pass(self, event: str, request_id: str) -> None:
        method, parameters = "Fetch.continueRequest", {}
        if event == "Fetch.authRequired":
            method, parameters = "Fetch.continueWithAuth", {"authChallengeResponse": self._next_password()}
        await self._socket.send_json(
            {"id": next(self._numbers), "method": method, "params": {"requestId": request_id, **parameters}}
        )

    def _next_password(self) -> dict[str, str]:
        if not self._passwords:
            return {"response": "CancelAuth"}
        return {"response": "ProvideCredentials", "username": "anyone", "password": self._passwords.pop(0)}


@contextlib.asynccontextmanager
async def chromium_page(path: str, folder: Path) -> AsyncIterator[Page]:
    """Args:
    folder: for what the browser writes down.
    """
    process = await asyncio.create_subprocess_exec(
        *(path, *FLAGS, f"--user-data-dir={folder}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _port(folder / "DevToolsActivePort")
        async with aiohttp.ClientSession() as client:
            async with client.get(f"http://127.0.0.1:{port}/json/list") as response:
                url = next(tab["webSocketDebuggerUrl"] for tab in await response.json() if tab["type"] == "page")
            async with client.ws_connect(url, max_msg_size=0) as socket:
                page = Page(socket)
                yield page
                await page.close()
    finally:
        process.terminate()
        await process.wait()


async def _port(file: Path) -> int:
    async with asyncio.timeout(WITHIN_S):
        while not (file.exists() and "\n" in file.read_text()):
            await asyncio.sleep(LOOK_S)
    return int(file.read_text().splitlines()[0])
