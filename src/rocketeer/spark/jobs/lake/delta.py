"""A lake as a Delta table: tasks write Parquet, one commit of delta-rs makes it count. Any reader of Delta reads it.

What is ours stands where the format has a place for it: which batch of which query is in, as transaction identifiers
(`txn`); which offsets of which queues are archived, in the information of each commit (all of them each time, so that
the newest one is enough); what of which queue is in a file, in the file's footer.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from rocketeer.errors import RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.locations import LakeDamaged, LakeLocation, NoLake
from rocketeer.spark.jobs.lake.state import DataFile, LakeState, Range, ranges_json, ranges_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

RANGES: Final = "rocketeerRanges"
PARTITIONS: Final = ["topic", "date"]
KEEP_HOURS: Final = 7 * 24
"""How long replaced files stay for those who read an older version."""
_NEEDED: Final = frozenset(
    {"topic", "brokerName", "queueId", "queueOffset", "body", "storeTimestamp", "date"}
)
_FEATURES: Final = frozenset({"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"})
"""Features of tables that others changed which a reader of plain files may pass over."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_HISTORY: Final = (1, 20, 500, None)


class LakeConflict(RocketeerError):
    """Somebody else wrote the same batch at the same time."""


class DeltaLake:
    """One lake; every call looks at the log anew."""

    kind = "delta"

    def __init__(self, place: LakeLocation) -> None:
        self.place = place

    def exists(self) -> bool:
        from deltalake import DeltaTable

        try:
            return DeltaTable.is_deltatable(self.place.delta_uri, self.place.delta_options)
        except OSError as error:
            raise NoLake(f"{self.place} cannot be reached: {_sentence(error)}") from None

    def create(self) -> None:
        from deltalake import DeltaTable

        DeltaTable.create(
            self.place.delta_uri,
            _schema(),
            mode="ignore",
            partition_by=PARTITIONS,
            name="rocketeer",
            description="RocketMQ messages, archived by `rocketeer spark archive`",
            storage_options=self.place.delta_options,
        )

    def check(self) -> None:
        """NoLake if the table is not one of ours, or has become one that plain files do not tell."""
        self._opened()

    def state(self, version: "int | datetime | None" = None) -> LakeState:
        table = self._opened(version)
        files = {file.path: file for file in _files_of(table)}
        # The history of a table that was opened at an older version is numbered wrongly: the newest one tells it.
        newest = table if version is None else self._opened()
        return LakeState(table.version(), files, self._ranges_at(newest, table.version()))

    def last_batch(self, writer: str) -> int:
        """The newest batch of that writer that is in; -1 if none is."""
        found = self._opened().transaction_version(writer)
        return -1 if found is None else found

    def append(
        self,
        files: Iterable[DataFile],
        ranges: Mapping[MessageQueue, Iterable[Range]],
        writer: str,
        batch: int,
    ) -> None:
        """Make a batch count. All its files must lie there, whole. LakeConflict if somebody made it meanwhile."""
        from deltalake.transaction import Transaction

        table = self._opened()
        self._add_columns(table)
        self._commit(table, [_add(file) for file in files], ranges, [Transaction(writer, batch)])

    def replace(
        self,
        added: Iterable[DataFile],
        removed: Iterable[DataFile],
        ranges: Mapping[MessageQueue, Iterable[Range]],
    ) -> None:
        """Replace files by others with the same rows, in one commit."""
        from deltalake.transaction import RemoveAction

        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        gone = [RemoveAction(file.path, False, now_ms, file.bytes, _partition(file)) for file in removed]
        self._commit(self._opened(), [*(_add(file, changes=False) for file in added), *gone], ranges, [])

    def vacuum(self, keep_hours: int = KEEP_HOURS) -> int:
        """Delete what nothing since has named: replaced files, and what died before its commit."""
        table = self._opened()
        found = table.vacuum(keep_hours, dry_run=False, enforce_retention_duration=False, full=True)
        return len(found)

    def adopt(
        self,
        files: Iterable[DataFile],
        ranges: Mapping[MessageQueue, Iterable[Range]],
        batches: Mapping[str, int],
    ) -> None:
        """Make the table of files that lie there already, in one commit."""
        from deltalake.transaction import CommitProperties, Transaction, create_table_with_add_actions

        create_table_with_add_actions(
            self.place.delta_uri,
            _schema(),
            [_add(file) for file in files],
            mode="error",
            partition_by=PARTITIONS,
            name="rocketeer",
            storage_options=self.place.delta_options,
            commit_properties=CommitProperties(
                custom_metadata={RANGES: json.dumps(ranges_json(ranges))},
                app_transactions=[Transaction(writer, batch) for writer, batch in sorted(batches.items())],
            ),
        )

    # --- inside --------------------------------------------------------------------------------------

    def _opened(self, version: "int | datetime | None" = None) -> "DeltaTable":
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            table = DeltaTable(self.place.delta_uri, storage_options=self.place.delta_options)
            if version is not None:
                table.load_as_version(version)
        except (DeltaError, OSError) as error:
            what = "" if version is None else f" at version {version}"
            raise NoLake(f"{self.place} cannot be read{what} as a Delta table: {_sentence(error)}") from None
        self._check(table)
        return table

    def _check(self, table: "DeltaTable") -> None:
        theirs, ours = _columns_of(table), lake_columns()
        odd = sorted(
            {name for name in ours if name in theirs and theirs[name] != ours[name]} | (_NEEDED - set(theirs))
        )
        if odd:
            raise NoLake(f"{self.place} is a Delta table of another schema: it differs in {', '.join(odd)}")
        if table.metadata().partition_columns != PARTITIONS:
            raise NoLake(f"{self.place} is a Delta table that is not partitioned by topic and date")
        strange = sorted(set(table.protocol().reader_features or ()) - _FEATURES)
        if strange:
            raise NoLake(
                f"{self.place} is a Delta table with features that are not known here: {', '.join(strange)}"
            )

    def _commit(
        self,
        table: "DeltaTable",
        actions: list[Any],
        ranges: Mapping[MessageQueue, Iterable[Range]],
        transactions: list[Any],
    ) -> None:
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import CommitProperties

        said = CommitProperties(
            custom_metadata={RANGES: json.dumps(ranges_json(ranges))}, app_transactions=transactions
        )
        try:
            table.create_write_transaction(actions, "append", _schema(), PARTITIONS, commit_properties=said)
        except CommitFailedError as error:
            raise LakeConflict(f"{self.place}: {_sentence(error)}; is another job writing?") from None

    def _add_columns(self, table: "DeltaTable") -> None:
        """Columns this version has and the table does not; its older rows have none of them."""
        new = [field for field in _schema().fields if field.name not in _columns_of(table)]
        if new:
            table.alter.add_columns(new)
            table.update_incremental()

    def _ranges_at(self, table: "DeltaTable", version: int) -> dict[MessageQueue, list[Range]]:
        """From the newest commit that says them: others may have committed since, and what is old is cleaned away."""
        for limit in _HISTORY:
            for commit in table.history(limit):
                if RANGES in commit and int(commit["version"]) <= version:
                    return ranges_of(json.loads(commit[RANGES]))
        if version and table.count():
            raise LakeDamaged(
                f"{self.place}: no commit of its log says which offsets it has (any more): it can be read as a Delta "
                "table, and archived anew into another folder"
            )
        return {}


def _sentence(error: Exception) -> str:
    """Delta-rs draws a tree of causes, in colours."""
    plain = _COLOURS.sub("", str(error)).replace("\u21b3", "")
    return ": ".join(line.strip() for line in plain.splitlines() if line.strip())


def _schema() -> Any:
    from deltalake import Schema
    from pyspark.sql.types import DateType, StructField, StructType

    from rocketeer.spark.source.columns import SCHEMA

    return Schema.from_json(StructType([*SCHEMA.fields, StructField("date", DateType())]).json())


def lake_columns() -> dict[str, str]:
    """Names and Spark types of the columns."""
    from rocketeer.spark.source.columns import COLUMNS

    return {**{name: kind.simpleString() for name, kind in COLUMNS.items()}, "date": "date"}


def _columns_of(table: "DeltaTable") -> dict[str, str]:
    from pyspark.sql.types import StructType

    found = StructType.fromJson(json.loads(table.schema().to_json()))
    return {part.name: part.dataType.simpleString() for part in found.fields}


def _partition(file: DataFile) -> dict[str, str | None]:
    return {"topic": file.topic, "date": file.date}


def _add(file: DataFile, *, changes: bool = True) -> Any:
    from deltalake.transaction import AddAction

    low, high = (
        datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for ms in (file.store_ms_min, file.store_ms_max)
    )
    stats = {
        "numRecords": file.rows,
        "minValues": {"storeTimestamp": low},
        "maxValues": {"storeTimestamp": high},
        "nullCount": {"storeTimestamp": 0},
    }
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    return AddAction(file.path, file.bytes, _partition(file), now_ms, changes, json.dumps(stats))


def _files_of(table: "DeltaTable") -> Iterable[DataFile]:
    import pyarrow as pa

    for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        low, high = row.get("min.storeTimestamp"), row.get("max.storeTimestamp")
        yield DataFile(
            unquote(row["path"]),  # the log's form; what is given to delta-rs it quotes itself
            int(row.get("num_records") or 0),
            int(row["size_bytes"]),
            # A file that others wrote without statistics may hold any time.
            -(1 << 62) if low is None else int(low.timestamp() * 1000),
            1 << 62 if high is None else int(high.timestamp() * 1000),
        )
