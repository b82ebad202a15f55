"""From what Spark raises to the one line a person needs: our own error inside it, or its first sentence."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rocketeer.spark.source.losses import GO_ON

# The last line of a Python traceback, wherever Spark has packed it: `rocketeer.errors.NoRoute: topic ...`
_OURS: Final = re.compile(r"^\s*(?:Error message: )?rocketeer\.[\w.]+\.\w+: (.+)$", re.MULTILINE)
_THEIRS: Final = re.compile(r"^\s*(?:[A-Za-z_][\w.]*\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
# Where a Java stack trace begins: `: java.io.IOException: why` or `Caused by: java.io.IOException: why`
_CAUSES: Final = re.compile(r"^(?:Caused by)?: [\w.$]+: (.+)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+|; line 1 pos 0;?$")
_LINE_CHARS_MAX: Final = 1000
_SAID_BY_PY4J: Final = ("Exception while sending command.", "KeyboardInterrupt while sending command.")
_NOT_FOUND: Final = "ClassNotFoundException: rocketmq.DefaultSource"
NOT_IN_THIS_THREAD: Final = (
    "Spark does not find the format rocketmq in this thread: call rocketeer.spark.register(spark) in it"
)
RUN_AGAIN: Final = "Run it again to read what exists now"
BY_OPTION: Final = "Say --option failOnDataLoss=false to go on with what exists"


def our_error(error: BaseException) -> str | None:
    """What an error of ours said that was raised in a Python process of Spark; None if it was not one of ours."""
    ours = _OURS.findall(str(error)) if _is_sparks(error) else []
    return _short(str(ours[-1])) if ours else None


def explain(error: BaseException, over_loss: str = GO_ON) -> str | None:
    """One line for an error that came out of Spark; None for any other: that is a bug, and wants its traceback.

    `over_loss` tells a person at a command how to go on over lost messages, where the source names its option.
    """
    if not _is_sparks(error):
        return None
    ours = our_error(error)
    if ours is not None:
        return ours.replace(GO_ON, over_loss)
    text = str(error)
    if _NOT_FOUND in text:
        return NOT_IN_THIS_THREAD
    if "failed to connect back" in text:
        return "Spark's Python workers did not come up in time: the machine has too much to do; run it again"
    if text.startswith(
        "An error occurred while calling"
    ):  # py4j's words for a call of ours; Java's are below
        causes = _CAUSES.findall(text)
        return _short(causes[-1]) if causes else "Spark failed, and did not say why"
    first = _CONDITION.sub("", text.strip().split("\n")[0])
    if "PYTHON_DATA_SOURCE_ERROR" in text or "STREAM_FAILED" in text or "Traceback" in text:
        theirs = _THEIRS.findall(text)
        if theirs:
            name, message = theirs[-1]
            return _short(f"{message} ({name})")
    return _short(first or type(error).__name__)


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """The Ctrl-C (or SIGTERM) behind an error: itself, or what was on its way when this one came in between.

    py4j gives up all its connections at a Ctrl-C, so that whatever is put in order on the way out (views, caches,
    PySpark's own call sites) may fail in the JVM, and would hide why.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return error
        seen.add(id(error))
        error = error.__context__
    return None


def _is_sparks(error: BaseException) -> bool:
    return any(kind.__module__.startswith(("pyspark.", "py4j.")) for kind in type(error).__mro__)


@contextmanager
def quiet_errors() -> Iterator[None]:
    """What PySpark and py4j log of failures, with long tracebacks: here they are expected, or become one line."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger("SQLQueryContextLogger"), logging.getLogger("py4j.clientserver")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    quiet = _Quiet()
    logging.getLogger().addFilter(quiet)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(quiet)
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


class _Quiet(logging.Filter):
    """py4j says of every call that failed, and of a Ctrl-C during one, that there was one, on the root logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg not in _SAID_BY_PY4J


def _short(text: str) -> str:
    text = _STATE.sub("", " ".join(text.split())).rstrip("; ")
    return text if len(text) <= _LINE_CHARS_MAX else f"{text[:_LINE_CHARS_MAX]}..."
