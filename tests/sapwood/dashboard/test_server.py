import threading
from contextlib import closing

import httpx
import pytest

from sapwood.dashboard.assets import assets
from sapwood.dashboard.server import DashboardServer


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "saved.jsonl"
    path.write_text('{"event":"request"}\n')
    return path


@pytest.fixture
def server(log):
    """Instead of a rest, one line more is written."""

    def rest(_seconds):
        with log.open("a") as file:
            file.write('{"event":"later"}\n')

    with DashboardServer(log, 0, sleep=rest) as made:
        serving = threading.Thread(target=made.serve_forever, args=(0.01,))
        serving.start()
        yield made
        made.shutdown()
        serving.join()


def test_the_page_and_its_parts(server):
    page = httpx.get(server.url.removesuffix("/dashboard"), follow_redirects=True)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.url.path == "/dashboard"
    for name, asset in assets().items():
        reply = httpx.get(f"{server.url}/assets/{name}")
        assert (reply.content, reply.headers["content-type"]) == (asset.body, asset.content_type)
        assert "default-src 'none'" in reply.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path", ["/x", "/assets/", "/assets/x.js", "/assets/..%2f..%2fserver.py", "/assets/../server.py"]
)
def test_nothing_else(server, path):
    assert httpx.get(server.url + path).status_code == 404


def test_lines_as_they_are_written(server):
    with httpx.stream("GET", f"{server.url}/events") as reply, closing(reply.iter_lines()) as lines:
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.headers["sapwood-log"] == "saved"
        assert [next(lines) for _ in range(5)] == ['data: {"event":"request"}', "", ":", "", 'data: {"event":"later"}']


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "[", "127.0.0.1.evil.example"])
def test_pages_of_other_sites_get_nothing(server, host):
    for path in ("", "/events"):
        assert httpx.get(server.url + path, headers={"Host": host}).status_code == 421


def test_of_this_machine_by_either_name(server):
    assert httpx.get(server.url, headers={"Host": f"localhost:{server.server_port}"}).status_code == 200
    assert server.server_address[0] == "127.0.0.1"
