"""Outside calls in programs: what they bind, and that nothing else fails with them."""

import asyncio

import pytest

from sapwood import (
    CallFailed,
    CallRefused,
    ProgramError,
    call_api,
    function,
    gen,
    set_api_hosts,
    system,
    user,
)
from sapwood.api_calls.defaults import hosts_for
from tests.support.fake_backend import FakeBackend, plain
from tests.support.outside_api import answer, outside_api

FORECAST = answer(b'{"sky": "clear",  "celsius": 21}')


@pytest.fixture
def no_hosts():
    """What a test lists for all programs is forgotten behind it."""
    yield
    set_api_hosts([])


async def run(program, *, api_hosts, **named):
    """In a thread of its own, as programs wait; the outside API is served here."""
    listed = function(api_hosts=api_hosts)(program)
    backend = named.pop("backend", None) or FakeBackend()
    return await asyncio.to_thread(listed.run, backend=backend, **named)


async def test_the_value_is_the_json_and_the_text_goes_on_with_it():
    backend = FakeBackend()

    def program(s, place):
        s += "Weather: "
        s += call_api("weather", url, {"place": place})
        if s["weather"]["celsius"] > 20:
            s += " It is warm: " + gen("advice")

    async with outside_api(forecast=FORECAST) as api:
        url = api.url("/forecast")
        state = await run(program, api_hosts=[f"127.0.0.1:{api.port}"], place="Rome", backend=backend)
    assert api.requests[0].startswith(b"GET /forecast?place=Rome ")
    assert state["weather"] == {"sky": "clear", "celsius": 21}
    assert state.text() == 'Weather: {"sky":"clear","celsius":21} It is warm: 1'
    assert backend.prompts == ['Weather: {"sky":"clear","celsius":21} It is warm: ']


async def test_a_parameter_may_be_what_the_model_said():
    def program(s):
        s += "To: "
        place = gen("place")
        s += call_api("weather", url, {"place": place})

    async with outside_api(forecast=FORECAST) as api:
        url = api.url("/forecast")
        await run(program, api_hosts=[f"127.0.0.1:{api.port}"])
    assert api.requests[0].startswith(b"GET /forecast?place=1 ")


async def test_parameters_may_hold_values_anywhere():
    def program(s):
        place, count = gen("place"), gen("count", dtype=int)
        s += call_api("weather", url + place, {"places": [place, {"name": "x" + place}], "count": count}, method="POST")

    async with outside_api(forecast1=FORECAST) as api:
        url = api.url("/forecast")
        await run(program, api_hosts=[f"127.0.0.1:{api.port}"])
    assert api.requests[0].endswith(b'{"places":["1",{"name":"x1"}],"count":2}')


async def test_gen_calls_where_it_is_given_an_address():
    def program(s):
        s += gen("weather", max_tokens=50, api_url=url, params={"place": "Rome"})

    async with outside_api(forecast=FORECAST) as api:
        url = api.url("/forecast")
        state = await run(program, api_hosts=[f"127.0.0.1:{api.port}"])
    assert state["weather"]["sky"] == "clear"


async def test_an_answer_can_stand_in_any_message():
    backend = FakeBackend()

    def program(s):
        s += system("Help.")
        with user():
            s += "Weather: "
            call_api("weather", url)
        s += s.assistant(gen("advice"))

    async with outside_api(forecast=FORECAST) as api:
        url = api.url("/forecast")
        await run(program, api_hosts=[f"127.0.0.1:{api.port}"], backend=backend)
    expected = [("system", "Help."), ("user", 'Weather: {"sky":"clear","celsius":21}')]
    assert plain(backend.requests[0]) == expected


@pytest.mark.parametrize(
    ("path", "limits", "error"),
    [
        ("/moved", {}, CallRefused),
        ("/silent", {"timeout_s": 0.1}, CallFailed),
        ("/large", {"max_bytes": 1000}, CallFailed),
        ("/page", {}, CallFailed),
        ("/broken", {}, CallFailed),
    ],
)
async def test_a_call_that_comes_to_nothing_leaves_the_other_branches(path, limits, error):
    finished = []

    def program(s):
        s += "Plan. "
        forks = s.fork(2)
        forks[0] += call_api("outside", url, **limits)
        forks[1] += gen("inside")
        forks.join()
        finished.append(forks[1]["inside"])

    answers = {
        "moved": answer(b"", "Location: http://169.254.169.254/", status="307 Temporary Redirect"),
        "large": answer(b"[" + b"1," * 1000 + b"1]"),
        "page": answer(b"<html></html>"),
        "broken": answer(b"{}", status="503 Service Unavailable"),
    }
    async with outside_api(**answers) as api:
        url = api.url(path)
        with pytest.raises(error):
            await run(program, api_hosts=[f"127.0.0.1:{api.port}"])
    assert finished == ["1"]


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest/", "http://127.0.0.1:22/", "https://api.example.org/", "file:///etc/passwd"]
)
async def test_an_address_that_is_not_listed_is_refused_where_it_is_read(url):
    finished = []

    def program(s):
        forks = s.fork(2)
        forks[0] += call_api("outside", url)
        forks[1] += gen("inside")
        finished.append(forks[1]["inside"])
        with pytest.raises(CallRefused):
            forks[0]["outside"]

    await run(program, api_hosts=["api.example.com"])
    assert finished == ["1"]


async def test_hosts_of_all_programs(no_hosts):
    def program(s):
        s += call_api("weather", url)

    async with outside_api(forecast=FORECAST) as api:
        url = api.url("/forecast")
        set_api_hosts([f"127.0.0.1:{api.port}"])
        assert (await run(program, api_hosts=[]))["weather"]["celsius"] == 21


def test_hosts_of_a_program_are_besides_those_of_all(no_hosts):
    set_api_hosts(["a.example"])
    assert hosts_for(["b.example"]).target("https://a.example/")
    assert hosts_for(["b.example"]).target("https://b.example/")
    with pytest.raises(CallRefused):
        hosts_for([]).target("https://b.example/")


OPEN, OTHER = "127.0.0.1:1", "127.0.0.1:2"  # nobody listens there: a call that is allowed fails


def calls(refused):
    """A program that calls both of these, and adds those that were refused."""

    def program(s):
        for host in (OPEN, OTHER):
            branch = s.copy()
            branch += call_api("x", f"http://{host}/")
            with pytest.raises((CallFailed, CallRefused)) as raised:
                branch["x"]
            if raised.type is CallRefused:
                refused.append(host)

    return program


@pytest.mark.parametrize(
    ("listed", "refused"),
    [({"api_hosts": [OTHER]}, [OPEN]), ({"api_hosts": []}, [OPEN, OTHER]), ({}, [OTHER])],
    ids=["a list of its own", "an empty list", "no list"],
)
def test_a_program_that_goes_on_in_another_reaches_what_its_own_author_has_listed(listed, refused):
    within, behind = [], []

    @function(api_hosts=[OPEN])
    def outer(s):
        function(**listed)(calls(within))(s)
        calls(behind)(s)

    outer.run(backend=FakeBackend())
    assert within == refused
    assert behind == [OTHER]


def test_a_run_within_a_program_has_nothing_of_its_list():
    within = []
    inner = function(calls(within))
    function(api_hosts=[OPEN])(lambda s: inner.run(backend=FakeBackend())).run(backend=FakeBackend())
    assert within == [OPEN, OTHER]


def test_outside_of_a_program_there_is_nothing_to_bind_to():
    with pytest.raises(ProgramError):
        call_api("weather", "https://api.example.com/")


def test_a_drawing_of_a_program_calls_nothing_and_names_the_address_without_its_query():
    @function
    def program(s):
        s += call_api("weather", "https://api.example.com/forecast?key=hidden#part", {"place": "Rome"})

    (node,) = program.trace().nodes
    assert node.kind == "call"
    assert node.details == {"url": "GET https://api.example.com/forecast"}
