"""A test that stands still ends, with the stacks of all threads, whatever it does about it.

pytest-timeout raises an exception in the test, once. An event loop may take it for one of a callback's and log it, and a
loop that ends because of it waits for its threads: then nothing happens any more. A minute later the whole process
ends; who shares tests between processes (`make test`) counts it as a failure of this test and goes on with another one.
"""

import faulthandler
import os
from collections.abc import Generator

import pytest

MARGIN_S = float(os.environ.get("TEST_MARGIN_S", "60"))
_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_stderr] = os.dup(2)  # while a test runs, what it writes there is caught


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    marked = item.get_closest_marker("timeout")
    limit_s = float(marked.args[0] if marked and marked.args else item.config.getini("timeout"))
    faulthandler.dump_traceback_later(limit_s + MARGIN_S, exit=True, file=item.config.stash[_stderr])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
