"""One table per topic: what the lake has archived, and what only the brokers have, without overlap.

`TopicTables` makes temporary views of topics as SQL names them. What is read is decided when a statement is prepared,
so a statement sees one state of a topic however often it names it.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketeer.errors import ConfigError, NoRoute, RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.folder import Lake, chosen_files, read_files
from rocketeer.spark.jobs.lake.state import LakeState, Range
from rocketeer.spark.jobs.query import json_bodies
from rocketeer.spark.jobs.query.ranges import gaps, newest, reads
from rocketeer.spark.jobs.query.sql_text import quoted
from rocketeer.spark.jobs.query.statements import NoSuchTable, analyze, stand_in, used_columns
from rocketeer.spark.jobs.query.terms import ALL, TableTerms
from rocketeer.spark.jobs.range_options import range_options
from rocketeer.spark.jobs.topics import all_topics
from rocketeer.spark.source.columns import COLUMNS, schema_text, with_all_columns
from rocketeer.spark.source.options import FORMAT, SourceOptions, parse_options
from rocketeer.spark.source.reading import open_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CHEAPEST: Final = "queueOffset"


class LakeAhead(RocketeerError):
    """The lake has messages of a queue that its broker never had."""


@dataclass
class QueryTable:
    """A topic as a statement sees it: from which files and offsets. Made once per statement."""

    topic: str
    files: tuple[str, ...]
    ranges: dict[MessageQueue, list[Range]]


class TopicTables:
    """Topics as tables of a session. Nothing is looked up but what is asked for."""

    def __init__(self, spark: "SparkSession", terms: TableTerms) -> None:
        self._spark = spark
        self._terms = terms
        self._live = terms.live
        if self._live is None and terms.lake is None:
            raise ConfigError("nothing to read: give a name server (host:9876), a lake, or both")
        self._schemas: dict[str, StructType | None] = {}
        self._views: list[str] = []

    # --- names -----------------------------------------------------------------------------------

    def names(self) -> dict[str, str]:
        """Every topic, and where it is: lake, topic or both."""
        lake = self._lake_topics()
        live = set() if self._live is None else all_topics(self._live)
        where = {(True, True): "lake and topic", (True, False): "lake", (False, True): "topic"}
        return {name: where[name in lake, name in live] for name in sorted(lake | live)}

    def resolve(self, name: str) -> str:
        """The topic a table's name means: itself, or the only one that differs by case; NoSuchTable otherwise."""
        if name in self._lake_topics() or self._has_route(name):
            return name
        known = list(self.names())
        same = [topic for topic in known if topic.lower() == name.lower()]
        if len(same) == 1:
            return same[0]
        if same:
            raise NoSuchTable(
                f"{name!r} could be {' or '.join(map(repr, same))}: write it as the topic is called"
            )
        near = [topic for topic in known if name.lower() in topic.lower() or topic.lower() in name.lower()]
        hint = f"; there are {', '.join(near[:5])}" if near else ""
        raise NoSuchTable(f"there is no topic or table {name!r}{hint}")

    def _has_route(self, topic: str) -> bool:
        if self._live is None:
            return False
        with closing(open_view(self._options(topic))) as view:
            try:
                return bool(view.queues())
            except NoRoute:
                return False

    def _lake_topics(self) -> set[str]:
        state = self._state
        return set() if state is None else state.topics

    @property
    def _state(self) -> LakeState | None:
        terms = self._terms
        return None if terms.lake is None else Lake.open(terms.lake).state(terms.lake_version)

    def _options(self, topic: str) -> SourceOptions:
        assert self._live is not None
        return parse_options({**self._live, "subscribe": topic}, streaming=False)

    # --- statements ------------------------------------------------------------------------------

    def prepare(self, sql: str) -> dict[str, set[str]]:
        """Make views of the topics a statement names, with the columns it needs; topic -> columns.

        NoSuchTable for a name that is nothing; what Spark has against the statement is raised as it is.
        """
        views: dict[str, str] = {}

        def provide(name: str) -> None:
            topic = self.resolve(name)
            clash = next(
                (other for other in views if other.lower() == topic.lower() and other != topic), None
            )
            if clash is not None and self._spark.conf.get("spark.sql.caseSensitive") != "true":
                raise ConfigError(
                    f"{topic!r} and {clash!r} differ by case only: set spark.sql.caseSensitive=true to use both"
                )
            views[topic] = name
            self._show(name, self.opened(topic, stand_in(self._spark, topic)))

        try:
            used = used_columns(analyze(self._spark, sql, provide))
            for topic, name in views.items():
                self._show(name, self.frame(topic, used.get(topic)))
        except BaseException:
            self.forget(views.values())
            raise
        self._views = list(views.values())
        return {topic: used.get(topic, set(COLUMNS)) for topic in views}

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Drop the views of a statement, so that the next one sees what has come since."""
        for name in self._views if names is None else list(names):
            self._spark.catalog.dropTempView(name)

    def _show(self, name: str, frame: "DataFrame") -> None:
        frame.createOrReplaceTempView(quoted(name))

    # --- frames ----------------------------------------------------------------------------------

    def frame(self, topic: str, columns: Iterable[str] | None = None) -> "DataFrame":
        """The topic's table. With `columns` only those are read; the others are there and NULL."""
        return self.opened(topic, self._messages(self._table(topic), columns))

    def joined(self, topics: Iterable[str], columns: Iterable[str] | None = None) -> "DataFrame":
        """Several topics under each other, the brokers read once for all; bodies stay as they are."""
        tables = [self._table(topic) for topic in topics]
        files = tuple(path for table in tables for path in table.files)
        ranges = {queue: found for table in tables for queue, found in table.ranges.items()}
        return self._messages(QueryTable(ALL, files, ranges), columns)

    def count_misfits(self, topic: str) -> tuple[int, int]:
        """How many messages a topic's table has, and how many of them are no JSON (of its schema)."""
        from pyspark.sql import functions as f

        row = self.frame(topic, ["body"]).agg(f.count("*"), f.count_if(~f.col(json_bodies.IS_JSON))).head()
        assert row is not None, "an aggregate without groups has a row"
        return int(row[0]), int(row[1])

    def opens(self, topic: str) -> bool:
        """Whether the topic's bodies are opened."""
        return self._given(topic) is not None

    def _given(self, topic: str) -> "tuple[str | None] | None":
        for name in (topic, ALL):
            if name in self._terms.json:
                return (self._terms.json[name],)
        return None

    def opened(self, topic: str, frame: "DataFrame") -> "DataFrame":
        """The frame with the columns of its bodies, if they are opened."""
        schema = self.json_schema(topic)
        return frame if schema is None else json_bodies.open_bodies(frame, schema)

    def json_schema(self, topic: str) -> "StructType | None":
        """Schema of the topic's bodies, given or found out; None if they are not opened."""
        if topic not in self._schemas:
            given = self._given(topic)
            if given is None:
                self._schemas[topic] = None
            elif given[0] is not None:
                self._schemas[topic] = json_bodies.parse_schema(topic, given[0])
            else:
                self._schemas[topic] = json_bodies.infer_schema(self._spark, topic, self._sample(topic))
        return self._schemas[topic]

    def _sample(self, topic: str) -> list[bytes]:
        table = self._table(topic)
        if any(table.ranges.values()):
            table = QueryTable(topic, (), newest(table.ranges, json_bodies.SAMPLE_ROWS))
        rows = self._messages(table, ["body"]).select("body").limit(json_bodies.SAMPLE_ROWS).collect()
        return [bytes(row.body) for row in rows]

    def _table(self, topic: str) -> QueryTable:
        terms = self._terms
        state = self._state
        files = (
            ()
            if state is None
            else tuple(file.path for file in chosen_files(state, [topic], terms.since, terms.until))
        )
        if self._live is None:
            return QueryTable(topic, files, {})
        archived = {} if state is None else {q: r for q, r in state.archived().items() if q.topic == topic}
        if files and not archived:
            raise ConfigError(
                f"the lake has messages of {topic!r} but not which of its offsets they are all of (`archive` did not "
                "make it): read the lake alone or the topic alone"
            )
        try:
            ranges = self._live_ranges(topic, archived)
        except NoRoute:
            if not archived:
                raise
            ranges = {}  # deleted since it was archived
        return QueryTable(topic, files, ranges)

    def _live_ranges(
        self, topic: str, archived: Mapping[MessageQueue, tuple[Range, ...]]
    ) -> dict[MessageQueue, list[Range]]:
        terms = self._terms
        with closing(open_view(self._options(topic))) as view:
            queues = sorted(view.queues())
            lows, highs = view.lows(queues), view.highs(queues)
            for queue in queues:
                done = archived.get(queue, ())
                if done and done[-1].end > highs[queue]:
                    raise LakeAhead(
                        f"the lake has queue {queue.queue_id} of {topic!r} on {queue.broker_name!r} up to offset "
                        f"{done[-1].end}, but it ends at {highs[queue]}: the topic was made anew, or is another one; "
                        "read the lake alone or the topic alone"
                    )
                if terms.since is not None:
                    found = view.first_at(queue, int(terms.since.timestamp() * 1000))
                    lows[queue] = highs[queue] if found is None else max(found, lows[queue])
                if terms.until is not None:
                    found = view.first_at(queue, int(terms.until.timestamp() * 1000))
                    highs[queue] = highs[queue] if found is None else found
            return {queue: gaps(archived.get(queue, ()), lows[queue], highs[queue]) for queue in queues}

    def _messages(self, table: QueryTable, columns: Iterable[str] | None) -> "DataFrame":
        from pyspark.sql import functions as f

        wanted = set(COLUMNS) if columns is None else set(columns) or {_CHEAPEST}
        bounds = [bound for bound in (self._terms.since, self._terms.until) if bound is not None]
        read = [name for name in COLUMNS if name in wanted or (name == "storeTimestamp" and bounds)]
        parts = [self._read(assigned, read) for assigned in reads(table.ranges)]
        if table.files or not parts:
            parts.insert(0, self._read_lake(table.files).select(*read))
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionByName(part)
        if self._terms.since is not None:
            frame = frame.where(f.col("storeTimestamp") >= f.lit(self._terms.since))
        if self._terms.until is not None:
            frame = frame.where(f.col("storeTimestamp") < f.lit(self._terms.until))
        return with_all_columns(frame, read)

    def _read(self, assigned: Mapping[MessageQueue, Range], columns: list[str]) -> "DataFrame":
        assert self._live is not None
        return (
            self._spark.read.format(FORMAT)
            .options(**{**self._live, **range_options(assigned)})
            .schema(schema_text(columns))
            .load()
        )

    def _read_lake(self, paths: tuple[str, ...]) -> "DataFrame":
        from rocketeer.spark.source.columns import SCHEMA

        if self._terms.lake is None:
            return self._spark.createDataFrame([], SCHEMA)
        lake = Lake.open(self._terms.lake)
        state = lake.state(self._terms.lake_version)
        return read_files(self._spark, lake, [state.files[path] for path in paths])
