import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rocketeer.client.discovery import discover, local_ip
from rocketeer.errors import NoNameServer


@contextmanager
def address_server(answer: bytes, paths: list[str]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_argument_comes_first_then_the_variable() -> None:
    environment = {"NAMESRV_ADDR": "env:9876"}
    assert discover("a:1;b:2", environment=environment) == ("a:1", "b:2")
    assert discover(["a:1", "b:2"], environment=environment) == ("a:1", "b:2")
    assert discover(None, environment=environment) == ("env:9876",)


def test_the_address_server_comes_last() -> None:
    paths: list[str] = []
    with address_server(b"10.0.0.1:9876;10.0.0.2:9876\n", paths) as where:
        environment = {"ROCKETMQ_NAMESRV_DOMAIN": where}
        assert discover(None, environment=environment) == ("10.0.0.1:9876", "10.0.0.2:9876")
        environment["ROCKETMQ_NAMESRV_SUBGROUP"] = "test"
        discover(None, environment=environment, unit_name="u1")
        discover(f"http://{where}/any/path", environment={})
    assert paths == ["/rocketmq/nsaddr", "/rocketmq/test-u1?nofix=1", "/any/path"]


def test_an_address_server_that_fails_is_named() -> None:
    with address_server(b" \n", []) as where:
        with pytest.raises(NoNameServer, match=f"{where}.*without an address"):
            discover(f"http://{where}/x", environment={})
        gone = where
    with pytest.raises(NoNameServer, match=f"{gone}.*did not answer"):
        discover(f"http://{gone}/x", environment={})


def test_nothing_given_says_all_three_ways() -> None:
    with pytest.raises(NoNameServer, match=r"nameserver=.*NAMESRV_ADDR.*ROCKETMQ_NAMESRV_DOMAIN"):
        discover(None, environment={})


def test_our_address_is_one() -> None:
    assert local_ip().count(".") == 3
