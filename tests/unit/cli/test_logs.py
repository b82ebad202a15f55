"""Where log lines go: stderr, files for services, in the form that was asked for; the level changes at run time."""

import json
import logging
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from rocketeer.cli.logs import LINES_WAITING_MAX, BoundedQueueHandler, log_file
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from support.raw_connection import RawConnection
from support.shell import Shell, read_until, stop


@pytest.fixture
def conf(shell: Shell, base_port: int) -> Path:
    path = shell.home / "broker.conf"
    path.write_text(
        f"brokerName=broker-a\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\nlistenPort={base_port}\n"
        f"storePathRootDir={shell.home / 'store'}\nmappedFileSizeCommitLog=1048576\n"
    )
    return path


def tell(port: int, code: int, body: str = "", **ext: str) -> Command:
    with RawConnection(f"127.0.0.1:{port}") as line:
        return line.ask(request(code, ext, body.encode()))


def test_a_service_writes_json_lines_to_a_file_and_its_level_can_be_changed(
    shell: Shell, base_port: int, conf: Path
) -> None:
    process = shell.start(
        "broker", "-c", conf, "--log-format", "json", "--log-dir", "logs", "--log-level", "warning"
    )
    read_until(process, "listens on")
    create = {"topic": "First", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    assert tell(base_port, RequestCode.UPDATE_AND_CREATE_TOPIC, **create).code == ResponseCode.SUCCESS
    assert tell(base_port, RequestCode.UPDATE_BROKER_CONFIG, "logLevel=info\n").code == ResponseCode.SUCCESS
    create["topic"] = "Second"
    assert tell(base_port, RequestCode.UPDATE_AND_CREATE_TOPIC, **create).code == ResponseCode.SUCCESS
    refused = tell(base_port, RequestCode.UPDATE_BROKER_CONFIG, "logLevel=loud\n")
    assert (refused.remark or "").endswith("expected debug, info, warning or error")
    code, _, err = stop(process)
    assert code == 0
    written = (shell.home / "logs" / "broker.log").read_text()
    for text in (err, written):
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        messages = [line["message"] for line in lines]
        assert not any("First" in message for message in messages), "info lines were not wanted then"
        assert any(message.startswith("topic updated") and "Second" in message for message in messages)
    assert "logLevel=info" in conf.read_text()
    link = shell.home / "logs" / "rocketmqlogs" / "broker.log"
    assert link.resolve() == (shell.home / "logs" / "broker.log").resolve()


def test_under_systemd_the_file_is_in_the_store_and_a_person_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("INVOCATION_ID", raising=False)
    assert log_file(None, tmp_path / "store" / "logs", "broker.log") is None
    monkeypatch.setenv("INVOCATION_ID", "a1")
    assert (
        log_file(None, tmp_path / "store" / "logs", "broker.log")
        == tmp_path / "store" / "logs" / "broker.log"
    )
    kept = tmp_path / "logs" / "rocketmqlogs" / "namesrv.log"
    kept.write_text("RocketMQ's own")
    log_file(tmp_path / "mine", tmp_path / "store" / "logs", "namesrv.log")
    assert kept.read_text() == "RocketMQ's own", "what stands there stays"


def test_a_half_message_that_waits_is_not_said_every_round(shell: Shell, base_port: int, conf: Path) -> None:
    with conf.open("a") as settings:
        settings.write("transactionTimeOut=0\ntransactionCheckInterval=50\n")
    process = shell.start("broker", "-c", conf)
    read_until(process, "listens on")
    send = {"a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "4", "g": "1700000000000", "h": "0",
            "i": "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01A1", "j": "0", "k": "false"}  # fmt: skip
    assert tell(base_port, RequestCode.SEND_MESSAGE_V2, "x", **send).code == ResponseCode.SUCCESS
    until_s = time.monotonic() + 2.0  # some forty rounds of checks
    while time.monotonic() < until_s:
        tell(base_port, RequestCode.GET_BROKER_RUNTIME_INFO)
    _, _, err = stop(process)
    assert err.count("half messages wait") == 1


def test_lines_that_a_slow_disk_does_not_take_are_dropped_and_counted() -> None:
    queue: SimpleQueue[Any] = SimpleQueue()
    waiting = BoundedQueueHandler(queue)

    def say(count: int) -> None:
        for number in range(count):
            waiting.handle(logging.LogRecord("x", logging.INFO, __file__, 1, "line n=%d", (number,), None))

    say(LINES_WAITING_MAX + 5)
    assert queue.qsize() == LINES_WAITING_MAX
    for _ in range(100):
        queue.get()
    say(2)
    told = [queue.get().getMessage() for _ in range(queue.qsize())]
    assert told[-3:] == [
        "log lines dropped count=5: the disk did not take them in time", "line n=0", "line n=1"
    ]  # fmt: skip
