"""What every `rocketeer spark JOB` shares: its common options, a quiet Spark session, errors as one line, Ctrl-C.

    @job_command(goes_on=True)
    def command(run: Run, ...) -> None:
        with run.spark("archive") as spark: ...

Spark's own output, and that of its Python workers, goes to a file, which a failure names.
"""

import functools
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.option_groups import with_options
from rocketeer.spark.failures import RUN_AGAIN, explain, interruption, our_error, quiet_errors
from rocketeer.spark.jobs.moments import parse_duration_ms
from rocketeer.spark.jobs.signals import Terminated, stopped_by_signals, take_ctrl_c
from rocketeer.spark.submit_options import submit_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERRUPTED: Final = 130
TERMINATED: Final = 143
PIPE_CLOSED: Final = 141
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
_COMPILED_LATER: Final = (
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=800000",
)
"""Twenty times what Java waits for before its thorough compiler takes something up. Most of a command's code runs for
seconds and not for minutes: compiling that costs more than it brings. What does run for long still gets there."""
_LOCAL_SETTINGS: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """The options all jobs have; `job_command` adds them to a command's own."""

    master: Annotated[
        str | None, typer.Option(help="Spark's master.  [default: $SPARK_MASTER, else local[*]]")
    ] = None
    nameserver: Annotated[
        str | None,
        typer.Option("-n", "--nameserver", envvar="NAMESRV_ADDR", help="host:9876, several with ;"),
    ] = None
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
    ] = None
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress, only results and errors.")] = (
        False
    )

    stopped_hint: list[str] = field(default_factory=list, init=False, repr=False)

    def if_stopped(self, hint: str) -> None:
        """What to say from now on behind "interrupted", instead of what `job_command` was given."""
        self.stopped_hint[:] = [hint]

    def needed_nameserver(self) -> str:
        """The name servers' address; ConfigError when nobody gave one."""
        if not self.nameserver:
            raise ConfigError("no name server given: use -n host:9876 or set NAMESRV_ADDR")
        return self.nameserver

    @contextmanager
    def spark(self, name: str) -> "Iterator[SparkSession]":
        """A session that ends with the block; Ctrl-C and SIGTERM stop its queries first.

        A program that has a session of its own lends it: it is used as it is, and goes on afterwards.
        """
        from pyspark.sql import SparkSession

        path = Path(tempfile.gettempdir()) / f"rocketeer-spark-{name}-{os.getpid()}.log"
        spark = lent = SparkSession.getActiveSession()
        keep_log = False
        with stopped_by_signals(), quiet_errors():
            try:
                if spark is None:
                    with _output_to(path):
                        spark = self._started(name)
                take_ctrl_c()
                yield spark
            except (KeyboardInterrupt, Exception) as error:
                stop = interruption(error)
                if stop is not None:
                    with _output_to(path):
                        stop_work(spark)
                    raise stop from None
                if not isinstance(error, RocketeerError | OSError) and our_error(error) is None:
                    keep_log = path.exists()
                if keep_log:
                    say(f"Spark's log is in {path}")
                raise
            finally:
                if lent is None and spark is not None:
                    # PySpark's threads complain of connections that the JVM closes.
                    with suppress(Exception), _output_to(path):
                        spark.stop()
                if not keep_log:
                    path.unlink(missing_ok=True)
        if lent is None:
            from rocketeer.spark.class_data.making import make_later

            make_later(Path(os.environ["JAVA_HOME"]), self._settings())

    def _settings(self) -> dict[str, str]:
        settings = {**_SETTINGS, **key_values("--conf", self.conf)}
        master = self.master or os.environ.get("SPARK_MASTER") or "local[*]"
        return _LOCAL_SETTINGS | settings if master.startswith("local") else settings

    def _started(self, name: str) -> "SparkSession":
        from rocketeer.spark.sessions import session

        with submit_options(*_COMPILED_LATER):
            spark = session(f"rocketeer {name}", master=self.master, config=self._settings())
        spark.sparkContext.setLogLevel("WARN")
        # Otherwise a task that is cancelled goes on to its end: a slow replay would send the rest.
        spark.sparkContext.setLocalProperty("spark.job.interruptOnCancel", "true")
        return spark


SourceOptionTexts: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the source; may be repeated.")
]
SinkOptionTexts: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the sink; may be repeated.")
]


def say(text: str) -> None:
    """A line for the person at the terminal; results go to stdout, this does not."""
    print(f"rocketeer: {text}", file=sys.stderr, flush=True)


def key_values(option: str, given: list[str] | None) -> dict[str, str]:
    """`KEY=VALUE` texts as a dict."""
    found: dict[str, str] = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{option} {text!r}: write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def batch_interval(forever: bool, interval: str | None, default: str) -> str | None:
    """What `--forever` and `--interval` say together: None to end with what is there."""
    if interval is not None and not forever:
        raise ConfigError(f"--interval {interval!r} is for --forever")
    if not forever:
        return None
    return default if interval is None else f"{parse_duration_ms('--interval', interval)} milliseconds"


def job_command(
    *, goes_on: bool = False, over_loss: str = RUN_AGAIN
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function whose first parameter is `run: Run`; Run's options come after its own.

    `goes_on`: stopped in the middle, the same command does the rest. `over_loss`: what a person can do when messages
    to be read are gone.
    """
    hint = "; the same command goes on where it stopped" if goes_on else ""
    return functools.partial(_as_command, hint=hint, over_loss=over_loss)


def _as_command(function: Callable[..., None], hint: str, over_loss: str) -> Callable[..., None]:
    @functools.wraps(function)
    def guarded(run: Run, **given: Any) -> None:
        _with_clear_errors(
            lambda: function(run, **given),
            lambda: run.stopped_hint[0] if run.stopped_hint else hint,
            over_loss,
        )

    command = with_options(guarded)
    parameters = inspect.signature(command).parameters.values()
    shared = {part.name for part in fields(Run)}
    ordered = sorted(parameters, key=lambda parameter: parameter.name in shared)
    command.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    return command


def _with_clear_errors(work: Callable[[], None], hint: Callable[[], str], over_loss: str) -> None:
    try:
        work()
    except KeyboardInterrupt as stop:
        word, code = (
            ("terminated", TERMINATED) if isinstance(stop, Terminated) else ("interrupted", INTERRUPTED)
        )
        say(word + hint())
        raise typer.Exit(code) from None
    except BrokenPipeError:  # `rocketeer spark query ... | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(PIPE_CLOSED) from None
    except (RocketeerError, OSError):
        raise  # the program says these in one line
    except Exception as error:
        text = explain(error, over_loss)
        if text is None:
            raise
        say(text)
        raise typer.Exit(1) from None


def stop_work(spark: "SparkSession | None") -> None:
    """Cancel all Spark jobs and streams of this session."""
    if spark is None:
        return
    with suppress(Exception):  # the JVM may be gone: then nothing runs any more
        for query in spark.streams.active:
            query.stop()
        spark.sparkContext.cancelAllJobs()


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Processes started meanwhile write to the file: the JVM, and through it all Python workers."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    target = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        for number, _ in kept:
            os.dup2(target, number)
        yield
    finally:
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)
        os.close(target)
