"""What every test may rely on: `async def test_...` runs on a fresh event loop, and a busy machine is no failure.

How several processes share the tests: support/scheduling.py. How long each may take: support/hard_limit.py.
"""

import asyncio
import inspect
import logging
import os
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rocketeer.bench.processes import ServerProcess
from support import forked_servers

# How long an example takes says nothing about it on a machine that does other things as well. Where a change is
# judged (.ci/run) the examples are the same every time; everywhere else they are new ones, which find more.
settings.register_profile(
    "rocketeer",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("rocketeer")

pytest_plugins = ["support.hard_limit"]

ServerProcess.launch = staticmethod(forked_servers.launch)


def pytest_configure(config: pytest.Config) -> None:
    """SIGTERM ends a run as Ctrl-C does: fixtures stop the servers they started, which would outlive it otherwise."""
    config.addinivalue_line("markers", "passes_over: a feature fails at a message, on purpose")
    tester = os.getpid()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() == tester:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)  # a forked child of a test: it ends as it always did
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)


@pytest.fixture(autouse=True)
def _nothing_is_passed_over(request: pytest.FixtureRequest) -> Iterator[None]:
    """A broker goes on when a feature fails at a message. A test does not: it is a bug."""
    failures: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: failures.append(  # type: ignore[method-assign]
        f"{record.getMessage()}\n{record.exc_info and record.exc_info[1]!r}"
    )
    handler.addFilter(lambda record: record.msg.startswith("message passed over"))
    watched = logging.getLogger("rocketeer.store.dispatch")
    watched.addHandler(handler)
    yield
    watched.removeHandler(handler)
    if request.node.get_closest_marker("passes_over") is None:
        assert not failures, failures


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    if config.option.dist != "loadfile":
        return None
    from support.scheduling import FilesTogether

    return FilesTogether(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of several processes; they must all have the same order
        from support.scheduling import in_order

        items[:] = in_order(items)
