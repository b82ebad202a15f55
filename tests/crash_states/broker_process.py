"""The real program, `rocketeer broker`, with the waits that nobody can configure made short.

A recording lasts seconds; what happens once a minute, and every few seconds, has to happen in it.
"""

import sys

from rocketeer.broker.features.idempotence import feature as idempotence
from rocketeer.broker.features.transaction import feature as transaction
from rocketeer.cli.main import app
from rocketeer.store import retention

idempotence.KEEP_S = 0.3  # type: ignore[misc]
transaction.NOTE_S = 0.1  # type: ignore[misc]
retention.FIRST_ROUND_MS = 0

if __name__ == "__main__":
    app(["broker", *sys.argv[1:]])
