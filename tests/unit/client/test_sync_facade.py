"""The sync clients' public methods are written from the asyncio ones."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rocketeer
import rocketeer.aio
import rocketeer.errors

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("tool", ["make_sync.py", "make_reference.py"])
def test_the_written_files_are_up_to_date(tool: str) -> None:
    if tool == "make_reference.py" and sys.version_info >= (3, 14):
        pytest.skip("Python 3.14 writes annotations differently")
    command = [sys.executable, f"tools/{tool}", "--check"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "name", ["Producer", "TransactionProducer", "PushConsumer", "LitePullConsumer", "PullConsumer"]
)
def test_sync_and_aio_take_the_same_arguments_and_say_the_same(name: str) -> None:
    sync, aio = getattr(rocketeer, name), getattr(rocketeer.aio, name)
    assert inspect.signature(sync) == inspect.signature(aio)
    inner = {"abandon", "heartbeat", "share_listener", "working", "assign_first"}
    for method, function in inspect.getmembers(aio, inspect.isfunction):
        if method.startswith("_") or method in inner:
            continue
        ours = getattr(sync, method)
        assert list(inspect.signature(ours).parameters.values()) == list(
            inspect.signature(function).parameters.values()
        ), method
        assert bool(ours.__doc__) == bool(function.__doc__), method


def test_options_hooks_strategies_and_errors_have_a_public_door() -> None:
    assert set(rocketeer.aio.__all__) - {*dir(rocketeer)} == set()
    for name in ("SendHook", "ConsumeHook", "ConsistentHash", "ProducerOptions", "NoRoute", "InvalidMessage"):
        assert getattr(rocketeer, name) is getattr(rocketeer.aio, name)
    every_error = {
        name
        for name in dir(rocketeer.errors)
        if inspect.isclass(kind := getattr(rocketeer.errors, name))
        and issubclass(kind, rocketeer.ClientError)
    }
    assert every_error <= {*dir(rocketeer)}


def test_every_public_name_has_an_entry_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference.md").read_text()
    entry = re.compile(r"^(?:### |\| `|- `|\*\*`)(\w+)", re.MULTILINE)
    assert {*dir(rocketeer)} - {*entry.findall(page)} == set()
