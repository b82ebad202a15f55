"""From options to places: where a read begins and ends, with the precedence of Spark's own sources.

A timestamp for all queues comes before timestamps per queue, these before offsets.
"""

import logging
from collections.abc import Collection, Iterable

from rocketeer.errors import ConfigError, NoBroker
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source.offsets import EARLIEST, LATEST, QueueOffsets
from rocketeer.spark.source.options import SourceOptions, StartPosition, Times
from rocketeer.spark.source.view import SourceView

log = logging.getLogger(__name__)


def starting_places(
    options: SourceOptions, view: SourceView, queues: Iterable[MessageQueue], *, default: str
) -> QueueOffsets:
    """Where each queue begins; `default` (earliest or latest) is for queues no option speaks of."""
    queues = sorted(queues)
    if options.starting_timestamp is not None:
        times = dict.fromkeys(queues, options.starting_timestamp)
        return _by_times("startingTimestamp", options, view, queues, times, default)
    if options.starting_offsets_by_timestamp is not None:
        times = options.starting_offsets_by_timestamp
        return _by_times("startingOffsetsByTimestamp", options, view, queues, times, default)
    where = options.starting_offsets or default
    places = _by_offsets("startingOffsets", view, queues, where, default)
    return _not_beyond(options, view, places, where) if isinstance(where, dict) else places


def check_matched(options: SourceOptions, queues: Collection[MessageQueue]) -> None:
    """A stream may wait for the first topic that fits its pattern; a batch without one reads nothing."""
    if not queues and options.subscribe_pattern is not None:
        raise ConfigError(f"option 'subscribePattern' is {options.subscribe_pattern!r}, which no topic fits")


def check_order(options: SourceOptions, begin: QueueOffsets, end: QueueOffsets) -> None:
    """Nothing is read of a queue whose end lies before its begin, which nobody asks for on purpose."""
    for queue in sorted(begin):
        if begin[queue] > end[queue]:
            what = (
                f"queue {queue.queue_id} of topic {queue.topic!r} on {queue.broker_name!r} would be read from "
                f"{begin[queue]} to {end[queue]}: the end asked for lies before the start"
            )
            if options.fail_on_data_loss:
                raise ConfigError(what)
            log.warning("%s", what)


def check_final(view: SourceView, queue: MessageQueue, what: str) -> None:
    """A slave alone may lack what its master will bring back: that is waited for, like a broker that is away."""
    if not view.has_master(queue):
        why = f"has no master at the moment, and says as a slave: {what}"
        raise NoBroker(queue.topic, queue.broker_name, why)


def _not_beyond(
    options: SourceOptions, view: SourceView, places: QueueOffsets, named: QueueOffsets
) -> QueueOffsets:
    """An offset somebody wrote down may be of another topic, or one that was made anew: it is behind the end."""
    given = [queue for queue, offset in named.items() if offset >= 0]
    for queue, high in view.highs(given).items():
        if places[queue] <= high:
            continue
        what = (
            f"option 'startingOffsets' begins queue {queue.queue_id} of topic {queue.topic!r} on "
            f"{queue.broker_name!r} at {places[queue]}, and it ends at {high}"
        )
        check_final(view, queue, what)
        if options.fail_on_data_loss:
            raise ConfigError(f"{what}; set the option failOnDataLoss to false to begin at its end")
        log.warning("%s: begins there", what)
        places = {**places, queue: high}
    return places


def ending_places(options: SourceOptions, view: SourceView, queues: Iterable[MessageQueue]) -> QueueOffsets:
    """Where each queue ends, not included. A time nothing was stored after means: all there is."""
    queues = sorted(queues)
    if options.ending_timestamp is not None:
        times = dict.fromkeys(queues, options.ending_timestamp)
    elif options.ending_offsets_by_timestamp is not None:
        times = options.ending_offsets_by_timestamp
        _check_known("endingOffsetsByTimestamp", times, queues)
    else:
        return _by_offsets("endingOffsets", view, queues, options.ending_offsets, "latest")
    highs = view.highs(queues)
    for queue in queues:
        if queue in times:
            found = view.first_at(queue, times[queue])
            highs[queue] = highs[queue] if found is None else found
    return highs


def _by_times(
    option: str,
    options: SourceOptions,
    view: SourceView,
    queues: list[MessageQueue],
    times: Times,
    default: str,
) -> QueueOffsets:
    _check_known(option, times, queues)
    places = _by_offsets(option, view, [queue for queue in queues if queue not in times], default, default)
    latest: list[MessageQueue] = []
    for queue in queues:
        if queue in times:
            found = view.first_at(queue, times[queue])
            if found is not None:
                places[queue] = found
            elif options.timestamp_strategy == "latest":
                latest.append(queue)
            else:
                raise ConfigError(
                    f"option {option!r}: queue {queue.queue_id} of {queue.topic!r} on {queue.broker_name!r} has "
                    f"no message stored at {times[queue]} ms or later; give an earlier time, or set "
                    "startingOffsetsByTimestampStrategy to latest"
                )
    return {**places, **view.highs(latest)}


def _by_offsets(
    option: str, view: SourceView, queues: list[MessageQueue], where: StartPosition, default: str
) -> QueueOffsets:
    if isinstance(where, dict):
        _check_known(option, where, queues)
        named = where
    else:
        named = {}
        default = where
    marks = {queue: named.get(queue, EARLIEST if default == "earliest" else LATEST) for queue in queues}
    lows = view.lows([queue for queue, mark in marks.items() if mark == EARLIEST])
    highs = view.highs([queue for queue, mark in marks.items() if mark == LATEST])
    return {queue: lows.get(queue, highs.get(queue, mark)) for queue, mark in marks.items()}


def _check_known(option: str, named: Collection[MessageQueue], queues: Iterable[MessageQueue]) -> None:
    unknown = sorted(set(named) - set(queues))
    if unknown:
        queue = unknown[0]
        raise ConfigError(
            f"option {option!r} names queue {queue.queue_id} of topic {queue.topic!r} on {queue.broker_name!r}, "
            "which is not among those to read"
        )
