"""The feature of idempotent producers: known messages are answered and not stored again, tables kept over restarts.

`docs/adr/0005-idempotent-producers.md` says how and why.
"""

from typing import Final

from rocketeer.broker.feature import Dispatcher, Feature, Periodic, Replay
from rocketeer.broker.features.idempotence.resends import Idempotence
from rocketeer.broker.features.idempotence.snapshot import Snapshots
from rocketeer.model.property_names import PRODUCER_ID
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.send import GetProducerSequenceHeader
from rocketeer.record.skip import SkipFilter
from rocketeer.remoting.router import Connection, Handler

KEEP_S: Final = 5.0


def idempotence_feature(snapshots: Snapshots, *, follows: bool) -> Feature:
    """`follows`: a slave writes nothing itself, it learns from what it copies."""
    table = snapshots.table
    return Feature(
        "idempotence",
        claims=(PRODUCER_ID,),
        resends=(table.examining,),
        stored_ids=None if follows else table,
        handlers={RequestCode.GET_PRODUCER_SEQUENCE: _tell_sequence(table)},
        dispatchers=(
            Dispatcher(table.on_message, properties=(PRODUCER_ID,))
            if follows
            else Dispatcher(table.moved, pointing=True),
        ),
        replays=(
            Replay(snapshots.load, table.on_message, snapshots.loaded, SkipFilter(properties=(PRODUCER_ID,))),
        ),
        services=(Periodic("keep idempotent producers", KEEP_S, snapshots.keep),),
        closers=(snapshots.save,),
    )


def _tell_sequence(table: Idempotence) -> Handler:
    """A producer that starts again with its old id asks where it was."""

    def handle(command: Command, connection: Connection) -> Command:
        header = decode_header(GetProducerSequenceHeader, command.ext)
        key = (header.producer_id, header.topic, header.queue_id)
        ext = {
            "nextSequence": str(table.sequences.expected(key)),
            "oldestSequence": str(table.sequences.oldest_known(key)),
        }
        return reply(command, ext=ext)

    return handle
