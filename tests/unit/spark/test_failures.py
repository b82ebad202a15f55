"""What is kept from people while Spark's failures are made one line."""

import logging

import pytest

from rocketeer.spark.failures import quiet_errors


def said(message: str, pathname: str) -> logging.LogRecord:
    return logging.LogRecord("root", logging.ERROR, pathname, 1, message, (), None)


def test_what_py4j_says_is_left_out_and_nothing_of_a_users_folder_that_is_named_like_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    theirs = "/lib/py4j/java_gateway.py"
    with quiet_errors():
        root = logging.getLogger()
        root.handle(said("KeyboardInterrupt while sending command.", theirs))
        root.handle(said("Exception while sending command.", theirs))
        root.handle(said("stock is low", "/home/me/py4j-shop/stock.py"))
        root.handle(said("a new message of py4j", theirs))
    root.handle(said("Exception while sending command.", theirs))
    assert caplog.messages == ["stock is low", "a new message of py4j", "Exception while sending command."]


def test_these_are_the_messages_of_the_py4j_that_is_installed() -> None:
    import inspect

    from py4j import java_gateway

    source = inspect.getsource(java_gateway)
    assert "Exception while sending command." in source
    assert "KeyboardInterrupt while sending command." in source
