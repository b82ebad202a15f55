"""What an advertised address may look like."""

from pathlib import Path

import pytest

from rocketeer.config import read_config
from rocketeer.errors import ConfigError


@pytest.mark.parametrize(
    "text",
    ["10.0.0.1:10911", "broker-0.brokers.default.svc:30911", "[2001:db8::1]:10911", "localhost:1", "h:65535"],
)
def test_host_and_port_are_taken(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(f"advertisedAddress={text}\n")
    assert read_config(path, environment={}).broker.advertised_address == text


@pytest.mark.parametrize("text", ["", "10.0.0.1", "10.0.0.1:", ":10911", "h:0", "h:65536", "h:x", "a:1;b:2", "2001:db8::1:1", "http://h:1"])  # fmt: skip
def test_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(f"advertisedAddress={text}\n")
    with pytest.raises(ConfigError, match="expected host:port"):
        read_config(path, environment={})
