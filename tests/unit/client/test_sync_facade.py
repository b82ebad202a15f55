"""The sync clients' public methods are written from the asyncio ones."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import rocketeer
import rocketeer.aio

ROOT = Path(__file__).resolve().parents[3]


def test_the_written_files_are_up_to_date() -> None:
    ran = subprocess.run(
        [sys.executable, "tools/make_sync.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "name", ["Producer", "TransactionProducer", "PushConsumer", "LitePullConsumer", "PullConsumer"]
)
def test_sync_and_aio_take_the_same_arguments_and_say_the_same(name: str) -> None:
    sync, aio = getattr(rocketeer, name), getattr(rocketeer.aio, name)
    assert inspect.signature(sync) == inspect.signature(aio)
    inner = {"abandon", "heartbeat", "store", "working", "assign_first"}
    for method, function in inspect.getmembers(aio, inspect.isfunction):
        if method.startswith("_") or method in inner:
            continue
        ours = getattr(sync, method)
        assert list(inspect.signature(ours).parameters.values()) == list(
            inspect.signature(function).parameters.values()
        ), method
        assert bool(ours.__doc__) == bool(function.__doc__), method
