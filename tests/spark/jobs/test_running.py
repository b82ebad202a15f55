"""What all jobs share, without a session: options, progress, errors in one line."""

import io
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError
from typer.core import TyperGroup
from typer.main import get_command

from rocketeer.errors import ConfigError
from rocketeer.spark.failures import explain, interruption
from rocketeer.spark.jobs.cli import app
from rocketeer.spark.jobs.progress import JobProgress, progress_line
from rocketeer.spark.jobs.running import Run, batch_interval, key_values
from rocketeer.spark.jobs.signals import Terminated, stopped_by_signals, take_ctrl_c
from rocketeer.spark.source.offsets import lag_of


def rocketeer(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "rocketeer.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=False)


def test_a_job_without_a_name_server_says_what_to_do() -> None:
    done = rocketeer("spark", "archive", "/nowhere", "-t", "Orders")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "rocketeer: no name server given: use -n host:9876 or set NAMESRV_ADDR\n"


def test_every_job_has_the_common_options() -> None:
    done = rocketeer("spark", "replay", "--help", COLUMNS="200", TERM="dumb")
    assert done.returncode == 0
    for option in ("--master", "--nameserver", "--conf", "--quiet", "--lake", "--rate"):
        assert option in done.stdout


def test_a_line_of_progress_has_rows_rate_and_lag() -> None:
    line = progress_line("archive", rows=120_000, seconds=2.0, batch=3, lag=1_200)
    assert line == "archive  batch 3  120,000 rows  60,000 rows/s  lag 1,200  2 s"


def test_lag_counts_queues_that_were_not_read_yet() -> None:
    latest = {"A": {"b": {"0": 10, "1": 5}}, "B": {"b": {"0": 3}}}
    assert lag_of(latest, {"A": {"b": {"0": 4, "1": 9}}}) == 6 + 0 + 3
    assert lag_of(None, None) is None


def test_in_a_file_progress_is_lines_and_quiet_means_none() -> None:
    out = io.StringIO()
    progress = JobProgress("replay", out=out)
    progress.show(1)  # too soon after the start
    progress.show(2, last=True)
    assert out.getvalue().startswith("replay  2 rows  ")
    assert out.getvalue().count("\n") == 1
    silent = io.StringIO()
    JobProgress("replay", quiet=True, out=silent).show(2, last=True)
    assert silent.getvalue() == ""


def test_our_error_is_found_in_what_spark_wraps_around_it() -> None:
    wrapped = PySparkRuntimeError(
        "[STREAM_FAILED] Query terminated: [PYTHON_DATA_SOURCE_ERROR] Traceback (most recent call last):\n"
        '  File "brokers.py", line 1, in x\n'
        "rocketeer.errors.NoRoute: no route to topic 'Orders'\n\nJVM stacktrace:\n\tat org.apache.spark"
    )
    assert explain(wrapped) == "no route to topic 'Orders'"
    assert explain(PySparkRuntimeError("[NO_SUCH_THING] There is none.\nmore")) == "There is none."
    assert explain(ValueError("a bug")) is None


def test_of_an_error_of_java_the_cause_is_said() -> None:
    text = (
        "An error occurred while calling o14.save.\n: org.apache.spark.SparkException: Job aborted.\n\tat org.x.Y\n"
        "Caused by: java.lang.RuntimeException: file:/lake/x.parquet is not a Parquet file.\n\tat org.x.Z\n"
    )
    assert explain(PySparkRuntimeError(text)) == "file:/lake/x.parquet is not a Parquet file."


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Terminated])
def test_ctrl_c_is_not_hidden_by_what_fails_on_the_way_out(kind: type[KeyboardInterrupt]) -> None:
    def tidied() -> None:
        try:
            try:
                raise kind
            finally:
                raise ConnectionError("Answer from Java side is empty")
        except ConnectionError:
            raise PySparkRuntimeError("[X] An error occurred while calling o27.setCallSite") from None

    with pytest.raises(PySparkRuntimeError) as failed:
        tidied()
    assert type(interruption(failed.value)) is kind
    assert interruption(ValueError("nobody stopped it")) is None


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_a_signal_that_another_thread_gets_ends_what_the_main_one_waits_for(
    number: signal.Signals, kind: type[KeyboardInterrupt]
) -> None:
    assert threading.current_thread() is threading.main_thread()
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGURG)]
    asked, answered = socket.socketpair()
    late = threading.Timer(30, answered.sendall, (b"the job's end",))

    def get_signal() -> None:
        time.sleep(0.3)  # the main thread waits by then, which nothing tells
        signal.pthread_kill(threading.get_ident(), number)

    late.start()
    try:
        with stopped_by_signals():
            take_ctrl_c()
            threading.Thread(target=get_signal).start()
            with pytest.raises(kind):
                asked.recv(1)
    finally:
        late.cancel()
    asked.setblocking(False)
    with pytest.raises(BlockingIOError):  # the end had not come
        asked.recv(1)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGURG)] == handlers


def test_settings_are_key_and_value() -> None:
    assert key_values("--conf", ["a.b=c=d", " x = y "]) == {"a.b": "c=d", "x": "y"}
    with pytest.raises(ConfigError, match="--conf 'oops': write KEY=VALUE"):
        key_values("--conf", ["oops"])
    with pytest.raises(ConfigError, match="no name server"):
        Run().needed_nameserver()


def test_the_documentation_names_every_option_of_every_job() -> None:
    parts = (Path(__file__).parents[3] / "docs" / "jobs.md").read_text().split("\n## ")
    sections = {part.split("\n", 1)[0]: part for part in parts[1:]}
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    assert set(group.commands) == set(sections)
    for name, command in group.commands.items():
        text = parts[0] + sections[name]
        for option in (part for part in command.params if part.param_type_name == "option"):
            names = [*option.opts, *option.secondary_opts]
            assert any(re.search(rf"(?<![\w-]){re.escape(one)}\b", text) for one in names), f"{name}: {names}"


def test_an_interval_is_for_jobs_that_go_on() -> None:
    assert batch_interval(False, None, "10 seconds") is None
    assert batch_interval(True, None, "10 seconds") == "10 seconds"
    assert batch_interval(True, "1m", "10 seconds") == "60000 milliseconds"
    with pytest.raises(ConfigError, match="'1m' is for --forever"):
        batch_interval(False, "1m", "10 seconds")
