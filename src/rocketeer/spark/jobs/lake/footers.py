"""What of which queue is in a lake's files: from their footers, or from the rows of files that others wrote."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from rocketeer.spark.jobs.lake.locations import LakeDamaged, LakeLocation
from rocketeer.spark.jobs.lake.state import DataFile, QueuePart

_AT_A_TIME: Final = 16


def all_parts(place: LakeLocation, files: Iterable[DataFile]) -> dict[str, list[QueuePart]]:
    """Queue parts of all files, by the files' paths."""
    chosen = list(files)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = pool.map(lambda file: parts_in(place, file), chosen)
        return {file.path: parts for file, parts in zip(chosen, found, strict=True)}


def parts_in(place: LakeLocation, file: DataFile) -> list[QueuePart]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rocketeer.spark.jobs.lake.writer import joined, parts_of, queue_parts

    try:
        with place.read(file.path) as opened, pq.ParquetFile(opened) as source:
            said = parts_of(source.metadata)
            if said is not None:
                return said
            found: dict[tuple[str, int], QueuePart] = {}
            columns = ["brokerName", "queueId", "queueOffset", "body"]
            for batch in source.iter_batches(batch_size=16_384, columns=columns):
                for part in queue_parts(batch) if len(batch) else ():
                    where = (part.broker, part.queue)
                    found[where] = joined(found[where], part) if where in found else part
            return [found[where] for where in sorted(found)]
    except FileNotFoundError:
        raise LakeDamaged(f"{place}: {file.path} is missing") from None
    except pa.ArrowException as error:
        raise LakeDamaged(f"{place}: {file.path} is no Parquet file: {error}") from None
