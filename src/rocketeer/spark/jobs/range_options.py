"""Known ranges of queues as options of the source: what a job has decided to read, it reads exactly."""

import json
from collections.abc import Mapping

from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.state import Range
from rocketeer.spark.source.offsets import to_json


def range_options(ranges: Mapping[MessageQueue, Range]) -> dict[str, str]:
    """The choice of messages; name server or store, and how to read, come beside it."""
    queues: dict[str, dict[str, list[int]]] = {}
    for queue in ranges:
        queues.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(queue.queue_id)
    return {
        "assign": json.dumps(queues),
        "startingOffsets": json.dumps(to_json({queue: one.begin for queue, one in ranges.items()})),
        "endingOffsets": json.dumps(to_json({queue: one.end for queue, one in ranges.items()})),
    }
