"""The page in a browser: what it shows is what the log says, and nothing in a log does more than to be shown."""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.chromium import find_chromium
from tests.support.log_maker import START_S, hostile_lines, made_log, write
from tests.support.served_gateway import serving
from tests.support.tiny_card import TINY_CARD

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
]

SECONDS = 90
LINES = made_log(400, seconds=SECONDS)
REQUESTS = [line for line in LINES if line["event"] == "request"]
STEPS = [line for line in LINES if line["event"] == "step" and line["service"] == "executor-1"]
IS_READ = "document.getElementById('state').dataset.state === 'ready' && document.getElementById('state').dataset.lines"


async def opened(page, url, lines):
    await page.open(url)
    await page.until(f"{IS_READ} === '{lines}'")
    await choose(page, "ranges", "All")


async def choose(page, place, text):
    found = f"[...document.querySelectorAll('#{place} button')].find((button) => button.textContent === '{text}')"
    await page.value(f"{found}.click()")


async def figure(page, name):
    return float(await page.value(f"document.querySelector('[data-figure={name}]').dataset.value"))


async def text(page, selector):
    return await page.value(f"document.querySelector({json.dumps(selector)}).textContent")


async def cells(page, place):
    rows = f"[...document.querySelectorAll('#{place} tbody tr')]"
    return await page.value(f"{rows}.map((row) => [...row.cells].map((cell) => cell.textContent))")


def total(name, lines=REQUESTS):
    return sum(line[name] or 0 for line in lines)


def percentile(name, share):
    values = sorted(line[name] for line in REQUESTS)
    return values[math.ceil(share * len(values)) - 1]


async def test_figures_are_the_logs(page, served_log):
    await opened(page, served_log(LINES), len(LINES))
    await page.until(f"document.querySelector('[data-figure=requests]').dataset.value === '{len(REQUESTS)}'")
    errors = [line for line in REQUESTS if line["outcome"] != "ok"]
    computed, inherited = total("masks_computed", STEPS), total("masks_inherited", STEPS)
    assert await figure(page, "errors") == len(errors)
    failed = sum(line["outcome"] == "failed" for line in errors)
    assert (await text(page, "[data-figure=errors] .more")).startswith(f"{failed} by the server")
    assert await figure(page, "ttft_p50") == percentile("ttft_s", 0.5)
    assert await figure(page, "tpot_p50") == percentile("tpot_s", 0.5)
    assert await figure(page, "hit_rate") == pytest.approx(total("cached_tokens") / total("prompt_tokens"))
    assert await figure(page, "forced_share") == pytest.approx(total("forced_tokens") / total("completion_tokens"))
    assert await figure(page, "masks_share") == pytest.approx(inherited / (inherited + computed))
    assert await figure(page, "kv_pinned_share") == pytest.approx(STEPS[-1]["kv_pinned"] / STEPS[-1]["kv_total"])
    assert f"{total('prompt_tokens') / 1000:.0f}k tokens" in await text(page, "[data-figure=hit_rate]")
    assert f"p99 {percentile('ttft_s', 0.99) * 1000:.0f} ms" in await text(page, "[data-figure=ttft_p50]")


async def test_a_chart_names_the_values_at_its_cross_hair(page, served_log):
    """The tenth second from the left: all counted in it, and nothing else."""
    await opened(page, served_log(LINES), len(LINES))
    await page.until("document.querySelector('#charts b').textContent !== ''")
    await page.value("document.getElementById('charts').focus()")
    for _ in range(SECONDS + 30):
        await page.press("ArrowLeft")
    for _ in range(10):
        await page.press("ArrowRight")
    first_s = math.floor(START_S)
    ended = [line for line in REQUESTS if first_s + 10 <= seconds(line) < first_s + 11]
    assert len(ended) > 1
    rate = 100 * total("cached_tokens", ended) / total("prompt_tokens", ended)
    charts = "[...document.querySelectorAll('.chart')]"
    assert (
        await page.value(
            f"{charts}.find((chart) => chart.innerText.startsWith('Prefix')).querySelector('b').textContent"
        )
        == f"{rate:.1f}%"
    )


async def test_processes_and_errors(page, served_log):
    await opened(page, served_log(LINES), len(LINES))
    await page.until("document.querySelector('#errors tbody tr')")
    kinds = Counter(line["error"] for line in REQUESTS if line["error"])
    assert {name: int(count) for name, count, _ in await cells(page, "errors")} == kinds
    processes = {name: (state, restarts) for name, state, _, restarts, _ in await cells(page, "processes")}
    assert processes["tokenizer-2"] == ("ready", "1")
    assert processes["executor-1"] == ("ready", "0")
    assert [row[:2] for row in await cells(page, "troubles")] == [["process_ended", "1"]]


async def test_which_stage_made_a_request_slow(page, served_log):
    """By keyboard alone: the requests, the one that was in the queue for longest, its waterfall."""
    await opened(page, served_log(LINES), len(LINES))
    await page.press("2")
    await choose(page, "orders", "Queued")
    await page.until("document.querySelector('#rows code')?.textContent === 'planted'")
    await page.press("j")
    await page.until("document.querySelector('.verdict')")
    assert (await text(page, ".verdict")).startswith("4.45 s in all, most of it queue: 4.00 s, 8")
    assert "tokenizer-2 ended (exit code -9) at +" in await text(page, ".verdict")
    stages = "[...document.querySelectorAll('.waterfall > span')].map((span) => span.textContent).filter(Boolean)"
    away = "tokenizer-2 ended (exit code -9)"
    assert (await page.value(stages))[::2] == ["receive", "encode", "queue", "prefill", "decode", away]
    events = "[...document.querySelectorAll('.story tbody tr')].map((row) => row.cells[2].textContent)"
    assert await page.value(events) == [
        *("process_ended", "received", "encoded", "accepted", "process_ready", "started", "finished", "request")
    ]


async def test_the_list_is_what_is_looked_for_and_stays_where_it_was_scrolled_to(page, served_log):
    ids = "[...document.querySelectorAll('#rows tbody code')].map((code) => code.textContent)"
    await opened(page, served_log(LINES), len(LINES))
    await page.press("2")
    await page.until(f"{ids}.length === 200")
    await page.value("document.getElementById('rows').scrollTop = 700")
    await choose(page, "orders", "Queued")
    await page.until(f"{ids}[0] === 'planted' && {ids}.length === 200")
    assert await page.value("document.getElementById('rows').scrollTop") == 700
    await page.fill("#filter", "planted")
    await page.until(f"{ids}.join() === 'planted'")
    await page.fill("#filter", "nothing has this in it")
    await page.until("document.getElementById('rows').textContent === 'No requests in this range.'")
    await page.fill("#filter", "")
    await page.until(f"{ids}.length === 200")


async def test_the_tree(page, served_log):
    tree = next(line for line in LINES if line["event"] == "tree")
    await opened(page, served_log(LINES), len(LINES))
    await page.press("3")
    await page.until("document.getElementById('shape').textContent")
    tokens = sum(node[2] for node in tree["nodes"])
    assert (await text(page, "#shape")).startswith(f"{len(tree['nodes'])} nodes · {tokens:,} tokens")
    await page.value("document.getElementById('nodes').focus()")
    await page.press("ArrowRight")
    await page.until("document.getElementById('node').textContent.startsWith('400 tokens · from 0 to 400')")
    await page.press("ArrowRight")
    await page.until("document.getElementById('node').textContent.includes('from 400 to')")


async def test_a_file_that_is_opened_in_the_page(page, served_log, tmp_path):
    await opened(page, served_log(LINES[:5]), 5)
    saved = write(tmp_path / "chosen.log", LINES[:100])
    with saved.open("a") as file:
        file.write('Sapwood is ready at\n{"event": "request", no JSON\n')
    root = (await page.call("DOM.getDocument"))["root"]["nodeId"]
    node = (await page.call("DOM.querySelector", nodeId=root, selector="#file"))["nodeId"]
    await page.call("DOM.setFileInputFiles", nodeId=node, files=[str(saved)])
    await page.until("document.getElementById('state').textContent.startsWith('chosen.log · 101 lines · 1 not read')")
    saved.write_text("# A text\n")
    await page.call("DOM.setFileInputFiles", nodeId=node, files=[str(saved)])
    await page.until("document.getElementById('state').textContent.startsWith('no log lines of Sapwood in chosen.log')")


async def test_hostile_lines_are_only_shown(page, served_log):
    await opened(page, served_log(hostile_lines()), len(hostile_lines()))
    await page.until("document.querySelector('#errors tbody tr')")
    for key in ("1", "2", "j", "3"):
        await page.press(key)
        await page.until("new Promise((drawn) => requestAnimationFrame(() => setTimeout(() => drawn(true))))")
    assert await page.value("document.title") == "Sapwood"
    assert await page.value("document.querySelectorAll('img[src=x], body script').length") == 0
    assert {row[0][:10] for row in await cells(page, "errors")} == {"__proto__", "<img src=x"}


async def test_what_cannot_be_drawn_is_not_the_last_that_is(page, served_log):
    await page.open(served_log([]))
    await page.value("""import("/dashboard/assets/painter.js").then(({ Painter }) => {
        window.drawn = 0;
        window.painter = new Painter(function* () {
            if (!window.drawn++) throw new Error("a fault");
        });
        window.painter.ask();
    })""")
    await page.until("window.drawn === 1")
    await page.value("window.painter.ask()")
    await page.until("window.drawn === 2")
    assert ["a fault" in error for error in page.errors] == [True]
    page.errors.clear()


async def test_at_a_gateway_the_browser_asks_for_the_admin_key(page, tmp_path):
    """Once, until it is right; what the page fetches, and its worker, then carries it."""
    logs: Path = tmp_path / "logs"
    logs.mkdir()
    write(logs / "gateway-1.jsonl", LINES[:50])
    async with serving(tmp_path, TINY_CARD, logs=str(logs), api_keys=("a: sk-a",), admin_key="sk-root") as served:
        await page.give("sk-wrong", "sk-a", "sk-root")
        await page.open(f"{served.url}/dashboard")
        await page.until(f"{IS_READ} === '50'")
        assert await page.value("[sessionStorage.length, localStorage.length]") == [0, 0]
        await page.call("Fetch.disable")
        await page.call("Page.navigate", url="about:blank")
        page.errors.clear()  # the refusals


async def test_a_log_that_there_is_not(page, tmp_path):
    async with serving(tmp_path, TINY_CARD) as served:
        await page.open(f"{served.url}/dashboard")
        await page.until("document.getElementById('refused').open")
        assert await text(page, "#why") == "no log is kept here: see logging.directory."
        await page.value("window.isOld = true; document.querySelector('#refused .main').click()")
        await page.until("!window.isOld && document.getElementById('refused')?.open")
        await page.call("Page.navigate", url="about:blank")
        page.errors.clear()  # the refusals


@pytest.mark.soak
async def test_smooth_with_100_000_lines_and_2_000_nodes(page, served_log):
    """Whatever it reads, draws or is asked for, no piece of the page's own work takes long: what reads is elsewhere."""
    lines = made_log(19_500, seconds=1200, nodes=2000)
    assert len(lines) > 99_000
    await page.open(served_log(lines))
    await page.value(WATCH_TASKS)
    await page.until(f"{IS_READ} === '{len(lines)}'")
    await choose(page, "ranges", "All")
    for key in ("2", "j", "j", "3", "ArrowRight", "t", "2", "1"):
        await page.press(key)
        await page.value("new Promise((done) => setTimeout(done, 1500))")
        assert max(await page.value("tasks.splice(0)"), default=0) < LONGEST_TASK_MS


LONGEST_TASK_MS = 300  # two cores that draw by software, and have other work: most take less than 50
WATCH_TASKS = """
var tasks = [];
new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration)))
    .observe({ type: "longtask", buffered: true });
"""


def seconds(line):
    return datetime.fromisoformat(line["timestamp"]).timestamp()
