"""Everything about servers holds for our own transports and for asyncio's."""

import pytest

from rocketeer.compiled import COMPILED_STREAMS
from rocketeer.remoting import streams

SERVERS = (
    "test_server",
    "test_backpressure",
    "test_client",
    "test_encrypted",
    "test_limits",
    "test_no_cycles",
)


@pytest.fixture(autouse=True)
def transports(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(request, "param", "ours") == "asyncio":
        monkeypatch.setattr(streams, "COMPILED_STREAMS", False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in SERVERS and COMPILED_STREAMS:
        metafunc.parametrize("transports", ["ours", "asyncio"], indirect=True)
