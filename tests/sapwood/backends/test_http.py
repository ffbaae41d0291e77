import httpx
import msgspec
import pytest

from sapwood.backends.answers import ANYTHING
from sapwood.backends.http import Http
from sapwood.errors import BackendError, ConnectionFailed, Overloaded, ProgramError, ServerError, TimedOut


class Server:
    """Answers with what it is given, one after the other, and remembers what it was sent."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.pauses = []

    async def sleep(self, seconds):
        self.pauses.append(seconds)

    def __call__(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def http(self, **options):
        return Http("http://server/", transport=httpx.MockTransport(self), sleep=self.sleep, **options)


def refusal(status, message="no", headers=None, **fields):
    body = {"error": {"message": message, "type": "x", "param": None, "code": None} | fields}
    return httpx.Response(status, json=body, headers={"x-request-id": "r1"} | (headers or {}))


OK = httpx.Response(200, json={"a": 1})


async def test_a_body_and_a_key_go_out_and_json_comes_back():
    server = Server(OK)
    assert await server.http(api_key="k").post("/generate", {"b": 2}, ANYTHING) == {"a": 1}
    (request,) = server.requests
    assert str(request.url) == "http://server/generate"
    assert msgspec.json.decode(request.content) == {"b": 2}
    assert request.headers["authorization"] == "Bearer k"


async def test_what_is_refused_is_not_tried_again_and_says_where():
    server = Server(refusal(400, "bad stop", param="stop", code="invalid_value"))
    with pytest.raises(ServerError, match="bad stop") as raised:
        await server.http().post("/generate", {}, ANYTHING)
    error = raised.value
    assert (error.status, error.code, error.param, error.request_id) == (400, "invalid_value", "stop", "r1")


async def test_an_overloaded_server_is_asked_again_when_it_says():
    server = Server(refusal(429, headers={"retry-after": "3"}), OK)
    assert await server.http().get("/x", ANYTHING) == {"a": 1}
    (pause,) = server.pauses
    assert 3.0 <= pause <= 3.5


async def test_who_is_to_come_back_in_an_hour_decides_that_itself():
    with pytest.raises(Overloaded):
        await Server(refusal(429, headers={"retry-after": "3600"})).http().get("/x", ANYTHING)


async def test_what_may_have_been_served_is_not_asked_again():
    with pytest.raises(ConnectionFailed):
        await Server(httpx.ReadError("in the middle")).http().get("/x", ANYTHING)


async def test_without_a_word_the_pauses_grow():
    server = Server(refusal(503), httpx.ConnectError("refused"), refusal(502), OK)
    assert await server.http().get("/x", ANYTHING) == {"a": 1}
    first, second, third = server.pauses
    assert 0.25 <= first <= 0.5 <= second <= 1.0 <= third <= 2.0


async def test_after_the_last_try_it_is_an_error():
    server = Server(refusal(503, headers={"retry-after": "1"}), refusal(503, headers={"retry-after": "1"}))
    with pytest.raises(Overloaded) as raised:
        await server.http(max_retries=1).get("/x", ANYTHING)
    assert raised.value.retry_after_s == 1.0
    assert len(server.requests) == 2


@pytest.mark.parametrize("code", ["rate_limit_exceeded", "deadline_unreachable", None])
async def test_why_it_is_not_now_is_told(code):
    with pytest.raises(Overloaded) as raised:
        await Server(refusal(429, code=code)).http(max_retries=0).get("/x", ANYTHING)
    assert raised.value.code == code


async def test_once_is_once():
    server = Server(refusal(503, "the executor is gone"))
    with pytest.raises(Overloaded, match="the executor is gone"):
        await server.http().get_once("/health", ANYTHING)
    assert not server.pauses


async def test_what_takes_too_long_is_not_asked_again():
    server = Server(httpx.ReadTimeout("slow"))
    with pytest.raises(TimedOut):
        await server.http().get("/x", ANYTHING)


async def test_nobody_there():
    server = Server(*[httpx.ConnectError("refused")] * 3)
    with pytest.raises(ConnectionFailed, match="refused"):
        await server.http(max_retries=2).get("/x", ANYTHING)


@pytest.mark.parametrize("text", ["<html>", ""])
async def test_an_error_in_no_known_form(text):
    with pytest.raises(ServerError) as raised:
        await Server(httpx.Response(404, text=text)).http().get("/x", ANYTHING)
    assert raised.value.status == 404
    assert str(raised.value) == (text or "Not Found")


async def test_an_answer_that_is_no_json():
    with pytest.raises(BackendError, match="no JSON"):
        await Server(httpx.Response(200, text="<html>")).http().get("/x", ANYTHING)


def events(*lines):
    return httpx.Response(200, text="".join(f"{line}\n\n" for line in lines), headers={"x-request-id": "r1"})


async def gathered(server):
    return [event async for event in server.http().events("/generate", {}, ANYTHING)]


async def test_a_password_in_the_url_is_not_said():
    http = Http("http://user:s3cret@server/", transport=httpx.MockTransport(Server(httpx.ReadError("gone"))))
    with pytest.raises(ConnectionFailed) as raised:
        await http.get("/x", ANYTHING)
    assert "s3cret" not in str(raised.value)
    assert "http://server" in str(raised.value)


async def test_a_stream_to_its_end():
    assert await gathered(Server(events('data: {"a": 1}', ": ping", "data: 2", "data: [DONE]", "data: 3"))) == [
        {"a": 1},
        2,
    ]


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85"])
async def test_only_a_line_feed_ends_a_line_of_a_stream(end):
    answer = httpx.Response(200, content=f'data: "a{end}b"\r\n\r\ndata: [DONE]\n\n'.encode())
    assert await gathered(Server(answer)) == [f"a{end}b"]


async def test_a_stream_that_breaks_off():
    with pytest.raises(ConnectionFailed, match="broke off"):
        await gathered(Server(events('data: {"a": 1}')))


async def test_an_error_within_a_stream():
    with pytest.raises(ServerError, match="lost") as raised:
        await gathered(Server(events("data: 1", 'data: {"error": {"message": "lost", "code": "gone"}}')))
    assert (raised.value.code, raised.value.request_id) == ("gone", "r1")


async def test_a_stream_that_is_refused_is_tried_again_too():
    server = Server(refusal(429), events("data: 1", "data: [DONE]"))
    assert await gathered(server) == [1]


async def test_after_its_end_connections_are_made_anew():
    server = Server(OK, OK)
    http = server.http()
    await http.get("/x", ANYTHING)
    await http.aclose()
    assert await http.get("/x", ANYTHING) == {"a": 1}


@pytest.mark.parametrize(
    ("url", "options"),
    [("http://[::1", {}), ("http://server", {"api_key": "ключ"}), ("http://server", {"max_retries": -1})],
)
def test_what_no_request_can_be_made_with(url, options):
    with pytest.raises(ProgramError):
        Http(url, **options)


@pytest.mark.parametrize("value", ["\ud800", object()])
async def test_what_does_not_go_into_json(value):
    with pytest.raises(ProgramError, match="JSON"):
        await Server().http().post("/generate", {"text": value}, ANYTHING)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"error": []}', '{"error": {"param": 5}}', "\xff"])
async def test_refusals_of_any_form(text):
    with pytest.raises(ServerError) as raised:
        await Server(httpx.Response(400, text=text)).http().get("/x", ANYTHING)
    assert raised.value.status == 400
