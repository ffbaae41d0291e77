"""One request's page: how it is found, and what it says of the reason why it was slow."""

from __future__ import annotations

import pytest

from tests.support.chromium import find_chromium
from tests.support.log_maker import line, made_log

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(find_chromium() is None, reason="there is no Chromium: apt-get install chromium"),
]

ID = "38e4c15f86056a8dc1825cc8532209ae"
OTHER = "a1fdaad8c0ee6c3bd939e4436eb55710"
GONE = {"peer": "executor-1", "role": "executor"}
STAGES = """Object.fromEntries([...document.querySelectorAll('.waterfall .track')].map(
    (track) => [track.previousSibling.textContent, track.nextSibling.textContent]))"""
VERDICT = "document.querySelector('.verdict')?.textContent"


def lost():
    """At 1 s the executor of a request is killed, from 1.5 s to 6 s there is none, and at 7 s it gives way for 1 s."""

    def said(at_s, service, event, **fields):
        return line(at_s, service, event, request_id=ID, **fields)

    return [
        line(-1.0, "scheduler", "peer_joined", **GONE),
        said(0.0, "gateway", "received", attempt=1),
        said(0.01, "tokenizer-1", "encoded", attempt=1, encode_s=0.004, wait_s=0.001),
        said(0.01, "scheduler", "accepted", attempt=1),
        said(0.2, "scheduler", "started", attempt=1, queue_s=0.09, compile_s=0),
        line(1.0, "supervisor", "process_ended", "warning", process="executor-1", code=-9),
        line(1.5, "scheduler", "peer_left", **GONE, reason="Host unreachable"),
        said(1.5, "scheduler", "finished", attempt=1, reason="lost", queue_s=0.09, compile_s=0),
        said(1.5, "gateway", "resubmitting", attempt=2),
        said(1.5, "scheduler", "accepted", attempt=2),
        line(6.0, "supervisor", "process_ready", process="executor-1", restarts=1),
        line(6.0, "scheduler", "peer_joined", **GONE),
        said(6.2, "executor-1", "matched", attempt=2, prompt_tokens=60, cached_tokens=0, uncached_tokens=70),
        said(6.3, "scheduler", "started", attempt=2, queue_s=4.7, compile_s=0),
        said(7.0, "scheduler", "preempted", attempt=2, reason="trial"),
        said(8.0, "executor-1", "matched", attempt=2, prompt_tokens=60, cached_tokens=60, uncached_tokens=10),
        said(9.0, "scheduler", "finished", attempt=2, reason="stop", queue_s=5.7, compile_s=0),
        said(9.0, "gateway", "request", outcome="ok", total_s=9.0, ttft_s=0.3, attempts=2, tenant="", route="/v1/x"),
    ]


def frozen():
    """A tokenizer stood still for three seconds."""
    ids = {"request_id": OTHER, "attempt": 1}
    account = {"request_id": OTHER, "outcome": "ok", "total_s": 4.0, "ttft_s": 3.3, "route": "/v1/x"}
    return [
        line(20.0, "gateway", "received", **ids),
        line(23.1, "tokenizer-1", "stalled", "warning", what="loop", stalled_s=3.0, times=1),
        line(23.2, "tokenizer-1", "encoded", **ids, encode_s=0.05, wait_s=0.04),
        line(23.2, "scheduler", "accepted", **ids),
        line(23.3, "scheduler", "started", **ids, queue_s=0, compile_s=0),
        line(24.0, "gateway", "request", **account),
    ]


async def opened(page, url):
    await page.call("Page.navigate", url="about:blank")
    await page.open(url)
    await page.until("document.getElementById('state').dataset.state === 'ready'")


async def verdict(page, url, request_id):
    """What the page of a request that the address names says first."""
    await opened(page, f"{url}#request={request_id}")
    await page.until(VERDICT)
    return await page.value(VERDICT)


async def test_the_loss_of_an_executor(page, served_log):
    """The address names the request."""
    assert await verdict(page, served_log(lost()), f"{ID.upper()}-0") == (
        "9.00 s in all, most of it no executor: 4.50 s, 50.0%. executor-1 ended (exit code -9) at +1.00 s. "
        "For 4.50 s there was no executor. It gave way because requests run apart after the loss of an executor."
    )
    stages = await page.value(STAGES)
    assert stages.pop("executor-1 ended (exit code -9)") == "5.00 s"
    assert stages == {
        "on the way to the tokenizer": "6.00 ms",
        "waiting in the tokenizer": "1.00 ms",
        "encode": "3.00 ms",
        "queue": "200 ms",
        "prefill": "200 ms",
        "decode, lost": "1.20 s",
        "no executor": "4.50 s",
        "prefill and decode": "1.80 s",
        "gave way (trial)": "1.00 s",
    }
    woven = "[...document.querySelectorAll('.story tr.process')].map((row) => row.cells[2].textContent)"
    assert await page.value(woven) == ["process_ended", "peer_left", "process_ready", "peer_joined"]
    assert "tenant" not in await page.value("document.getElementById('detail').textContent")


async def test_a_tokenizer_that_stood_still(page, served_log):
    assert await verdict(page, served_log(frozen()), OTHER) == (
        "4.00 s in all, most of it on the way to the tokenizer: 3.15 s, 78.8%. "
        "tokenizer-1 stood still for 3.00 s, until +3.10 s."
    )


async def test_another_executor_that_stepped_meanwhile(page, served_log):
    """A log that begins late does not say that it joined."""
    steps = [line(3.0, "executor-2", "step", running=1, steps=9), line(5.0, "scheduler", "step", running=2, waiting=0)]
    assert "most of it queue: 4.70 s" in await verdict(page, served_log(lost() + steps), ID)
    assert "no executor" not in await page.value("document.getElementById('detail').textContent")


async def test_why_a_prompt_took_long(page, served_log):
    ids = {"request_id": ID, "attempt": 1}
    account = {
        "request_id": ID,
        "outcome": "ok",
        "total_s": 10.2,
        "ttft_s": 10.0,
        "forward_steps": 80,
        "route": "/v1/x",
    }
    lines = [
        line(0.0, "gateway", "received", **ids),
        line(0.0, "scheduler", "accepted", **ids),
        line(0.1, "executor-1", "matched", **ids, prompt_tokens=1010, cached_tokens=10),
        line(0.2, "scheduler", "started", **ids, queue_s=0, compile_s=0),
        line(5.0, "scheduler", "step", running=3, waiting=0),
        line(10.2, "scheduler", "finished", **ids, queue_s=0, compile_s=0),
        line(10.2, "gateway", "request", **account),
    ]
    said = "1,000 tokens computed, 100 a second; 80 steps in all, beside up to 2 other requests."
    assert (await verdict(page, served_log(lines), ID)).endswith(said)


async def test_an_id_is_found_in_the_whole_log_and_opened_by_enter(page, served_log):
    """As people paste it, and with Enter before the list is there."""
    await opened(page, served_log(lost() + made_log(30, seconds=200)))
    await page.value("[...document.querySelectorAll('#ranges button')][0].click()")
    await page.press("/")
    await page.fill("#filter", f" {ID.upper()}-0 ")
    await page.press("Enter")
    await page.until(f"document.querySelector('.detail code')?.textContent === '{ID}'")
    assert await page.value("document.getElementById('found').textContent") == "1 found, in the whole log"
    assert await page.value("[location.hash, document.activeElement.id]") == [f"#request={ID}", "rows"]
    await page.press("1")
    assert await page.value("location.hash") == ""


async def test_one_that_has_not_ended_is_found_by_its_id(page, served_log):
    """There is no line of it since its executor is gone."""
    await opened(page, served_log([*lost()[:7], line(4.0, "scheduler", "step", running=0, waiting=1)]))
    await page.press("/")
    await page.fill("#filter", ID)
    await page.press("Enter")
    await page.until(VERDICT)
    assert await page.value(VERDICT) == (
        "200 ms in all, most of it prefill: 100 ms, 50.0%. It has not ended. "
        "executor-1 ended (exit code -9) at +1.00 s. For 2.50 s there was no executor."
    )
    assert (await page.value(STAGES))["executor-1 ended (exit code -9)"] == "3.00 s"
    assert await page.value("location.hash") == f"#request={ID}"


async def test_charts_mark_ends_and_do_not_hold_what_nobody_said(page, served_log):
    """For ten seconds the scheduler says nothing of three requests that ran."""
    steps = [line(at, "scheduler", "step", running=3, waiting=0) for at in (0.0, 1.0, 2.0, 14.0)]
    ended = line(2.0, "supervisor", "process_ended", "warning", process="executor-1", code=-9)
    pool = line(1.0, "executor-1", "step", kv_total=100, kv_pinned=40, kv_evictable=0)
    await opened(page, served_log([*steps, pool, ended]))
    await page.until("[...document.querySelectorAll('#charts b')].every((value) => value.textContent !== '')")
    charts = "['Requests', 'KV pool'].map((title) => [...document.querySelectorAll('.chart')]"
    shown = f"{charts}.find((chart) => chart.innerText.startsWith(title)).querySelector('b').textContent)"
    await page.value("document.getElementById('charts').focus()")
    seen, marks = [], []
    for _ in range(14):
        await page.press("ArrowLeft")
        seen.append(await page.value(shown))
        marks.append(await page.value("document.querySelector('.cross').dataset.marks"))
    assert seen[:3] == [["–", "–"]] * 3
    assert seen[-2:] == [["3", "40.0%"], ["3", "–"]]
    assert [mark for mark in marks if mark] == ["executor-1 ended"]
    assert "saved" in await page.value("document.getElementById('state').textContent")
