"""`rocketeer spark replay`: messages of a lake, or of a topic's range, sent again into a topic.

What is sent is fixed when a replay begins (`state`); chunk by chunk it is read, made into new messages
(`rows`) and written effectively once under the replay's id. Killed and started again with its id, it goes
on in the chunk where it died, and brokers do not store again what they have of it.
"""

import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.folder import Lake, chosen_files, read_files
from rocketeer.spark.jobs.lake.footers import all_parts
from rocketeer.spark.jobs.lake.notes import META
from rocketeer.spark.jobs.lake.state import Range
from rocketeer.spark.jobs.moments import HELP, is_ago, parse_span
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.range_options import range_options
from rocketeer.spark.jobs.replay.state import Ranges, ReplayState, default_folder, open_replay
from rocketeer.spark.jobs.replay.terms import ReplayTerms
from rocketeer.spark.jobs.running import Run, job_command, say
from rocketeer.spark.jobs.texts import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ReplayTerms", "Replayed", "command", "replay"]


@dataclass(frozen=True)
class Replayed:
    """What a replay did, over all its runs."""

    replay_id: str
    sent: int
    sent_now: int
    chunks: int


def replay(
    spark: "SparkSession",
    terms: ReplayTerms,
    *,
    progress: JobProgress | None = None,
    begun: Callable[[], None] = lambda: None,
) -> Replayed:
    """Send the messages again; returns when brokers have them all. `begun` is called when it can go on after a death.

    `replay(spark, ReplayTerms(nameserver="127.0.0.1:9876", lake="/data/lake", to="Orders", tags="paid"))`
    """
    terms.check()
    lake = None if terms.lake is None else Lake.open(terms.lake)
    folder = Path(terms.state_folder) if terms.state_folder is not None else None
    if folder is None:
        folder = (
            lake.place.path / META / "replays"
            if lake is not None and lake.place.is_local
            else default_folder()
        )
    replay_id = terms.replay_id or uuid.uuid4().hex[:12]
    shown = progress or JobProgress("replay", quiet=True)
    with open_replay(folder, replay_id) as file:
        file.check(terms.asked())
        if file.state is None:
            _check(spark, terms)
            ranges = _topic_ranges(terms) if lake is None else _lake_ranges(lake, terms)
            file.save(ReplayState(terms.asked(), ranges, terms.chunk_rows, terms.since, terms.until))
        state = file.state
        assert state is not None
        begun()
        terms = replace(terms, since=state.since, until=state.until)
        before = state.sent
        count = 0
        for count, ranges in enumerate(state.chunks(), 1):
            if count <= state.chunks_done:
                continue
            left = state.rows - sum(r.begin - state.ranges[q].begin for q, r in ranges.items())
            shown.show(state.sent - before, batch=count - 1, lag=left)
            frame = (
                _topic_rows(spark, terms, ranges) if lake is None else _lake_rows(spark, lake, terms, ranges)
            )
            sent = _send(spark, frame, terms, f"replay-{replay_id}-{count - 1}")
            state = state.after(sent)
            file.save(state)
        shown.show(state.sent - before, batch=count - 1 if count else None, lag=0, last=True)
        return Replayed(replay_id, state.sent, state.sent - before, count)


def _check(spark: "SparkSession", terms: ReplayTerms) -> None:
    """Before its id means this replay: whether the condition can be understood, and the target is there."""
    from rocketeer.spark.protection import Protection, with_environment
    from rocketeer.spark.sink.client import SinkClient
    from rocketeer.spark.source.columns import SCHEMA

    _picked(spark.createDataFrame([], SCHEMA), terms)
    client = SinkClient.of(terms.nameserver, with_environment(Protection()))
    if terms.to is not None:
        client.thread.call(client.queues(terms.to))


# --- which messages -------------------------------------------------------------------------------


def _lake_ranges(lake: Lake, terms: ReplayTerms) -> Ranges:
    state = lake.state()
    known = state.topics
    unknown = sorted(set(terms.topics) - known)
    if unknown:
        raise ConfigError(
            f"the lake has no topic {unknown[0]!r}; it has {', '.join(sorted(known)) or 'none'}"
        )
    ranges: Ranges = {}
    files = chosen_files(state, terms.topics or None, terms.since, terms.until)
    parts = all_parts(lake.place, files)
    for file in files:
        for part in parts[file.path]:
            queue = MessageQueue(file.topic, part.broker, part.queue)
            before = ranges.get(queue, Range(part.begin, part.end))
            ranges[queue] = Range(min(before.begin, part.begin), max(before.end, part.end))
    return dict(sorted(ranges.items()))


def _topic_ranges(terms: ReplayTerms) -> Ranges:
    """As of now: what is replayed into the topic it came from is not replayed again."""
    from rocketeer.spark.source.bounds import ending_places, starting_places
    from rocketeer.spark.source.options import parse_options
    from rocketeer.spark.source.reading import open_view

    given = _source(terms)
    if terms.since is not None:
        given["startingTimestamp"] = str(int(terms.since.timestamp() * 1000))
        given["startingOffsetsByTimestampStrategy"] = "latest"
    if terms.until is not None:
        given["endingTimestamp"] = str(int(terms.until.timestamp() * 1000))
    options = parse_options(given, streaming=False)
    with closing(open_view(options)) as view:
        queues = view.queues()
        begins = starting_places(options, view, queues, default="earliest")
        ends = ending_places(options, view, queues)
    return {q: Range(begins[q], ends[q]) for q in sorted(queues) if begins[q] < ends[q]}


def _source(terms: ReplayTerms) -> dict[str, str]:
    return {"nameserver": terms.source_nameserver or terms.nameserver, "subscribe": ",".join(terms.topics)}


def _lake_rows(spark: "SparkSession", lake: Lake, terms: ReplayTerms, ranges: Ranges) -> "DataFrame":
    from rocketeer.spark.jobs.replay.rows import in_ranges

    possible = chosen_files(lake.state(), {queue.topic for queue in ranges}, terms.since, terms.until)
    parts = all_parts(lake.place, possible)
    files = []
    for file in possible:
        here = [(MessageQueue(file.topic, p.broker, p.queue), p) for p in parts[file.path]]
        if any(q in ranges and p.begin < ranges[q].end and ranges[q].begin < p.end for q, p in here):
            files.append(file)
    return in_ranges(spark, read_files(spark, lake, files), ranges)


def _topic_rows(spark: "SparkSession", terms: ReplayTerms, ranges: Ranges) -> "DataFrame":
    options = {"nameserver": _source(terms)["nameserver"], **range_options(ranges)}
    return spark.read.format("rocketmq").options(**options).load()


def _picked(frame: "DataFrame", terms: ReplayTerms) -> "DataFrame":
    from rocketeer.spark.jobs.replay.rows import chosen

    return chosen(
        frame, since=terms.since, until=terms.until, keys=terms.keys, tags=terms.tags, where=terms.where
    )


# --- sending --------------------------------------------------------------------------------------


def _send(spark: "SparkSession", frame: "DataFrame", terms: ReplayTerms, write_id: str) -> int:
    """One chunk; how many messages."""
    from rocketeer.spark.jobs.replay import rows
    from rocketeer.spark.jobs.sent_again import send_counted

    messages = rows.to_messages(_picked(frame, terms), ordered=terms.ordered)
    options = {"nameserver": terms.nameserver, "delivery": terms.delivery}
    if terms.to is not None:
        options["topic"] = terms.to
    if terms.rate is not None:
        tasks = rows.tasks_at(terms.rate, spark.sparkContext.defaultParallelism)
        messages = messages.coalesce(tasks)
        options |= rows.rate_options(terms.rate, tasks)
    return send_counted(messages, options, write_id)


@job_command(goes_on=True, over_loss="Begin anew, with another --id, to send what exists now")
def command(
    run: Run,
    to: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Where to.  [default: each to its own topic]")
    ] = None,
    lake: Annotated[str | None, typer.Option(help="Replay from this lake.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option("-t", "--topic", help="From this topic, or only this one of the lake.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="ADDR", help="Name server of the topics to read, if it is another.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Stored then or later. {HELP}")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Stored before.")] = None,
    key: Annotated[
        list[str] | None, typer.Option("-k", "--key", help="With this key; may be repeated.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="With this tag: paid, or 'paid || sent'.")] = None,
    where: Annotated[
        str | None, typer.Option(help="A condition on the columns: \"properties['region'] = 'eu'\"")
    ] = None,
    rate: Annotated[int | None, typer.Option(min=1, help="At most so many messages/s.")] = None,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Messages of one queue go to one queue, in order.")
    ] = False,
    at_least_once: Annotated[
        bool, typer.Option("--at-least-once", help="For brokers other than Rocketeer's; may send some twice.")
    ] = False,
    id: Annotated[
        str | None, typer.Option(help="The replay's name: with it, an interrupted one goes on.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Where progress is noted.  [default: in the lake, or ~/.local/state]")
    ] = None,
) -> None:
    """Send messages of a lake or a topic again; an interrupted replay goes on without duplicates."""
    replay_id = id or uuid.uuid4().hex[:12]
    begin, end = parse_span(since, until, datetime.now(UTC))
    terms = ReplayTerms(
        nameserver=run.needed_nameserver(),
        lake=lake,
        topics=topic or (),
        source_nameserver=source,
        to=to,
        since=begin,
        until=end,
        since_ago=since.strip() if since is not None and is_ago(since) else None,
        until_ago=until.strip() if until is not None and is_ago(until) else None,
        keys=key or (),
        tags=tag,
        where=where,
        rate=rate,
        ordered=ordered,
        delivery="at-least-once" if at_least_once else "effectively-once",
        replay_id=replay_id,
        state_folder=state,
    )
    terms.check()

    def begun() -> None:
        if id is None:
            say(f"replay {replay_id}: if it is interrupted, go on with --id {replay_id}")
            run.if_stopped(f"; the same command with --id {replay_id} goes on where it stopped")

    if id is None:
        run.if_stopped("")
    with run.spark("replay") as spark:
        done = replay(spark, terms, progress=JobProgress("replay", quiet=run.quiet), begun=begun)
    earlier = f" ({done.sent - done.sent_now:,} of them before)" if done.sent != done.sent_now else ""
    say(f"replay {replay_id} is complete: {counted(done.sent, 'message')} sent{earlier}")
