"""The one switch for compiled modules.

They are built together where a C compiler was at hand at installation; without one, or with `ROCKETEER_PLAIN=1` in
the environment, none of them runs. Whoever uses one asks `COMPILED`: a module that is missing although the others are
there is an error (the checkout wants `make setup`), not a reason to run slowly. What stands in for each:

| compiled | without it | held together by, under `tests/` |
|---|---|---|
| `bench/_steps` | `steps_plain` | `unit/bench/test_steps` |
| `client/aio/_shared_send` | `shared_send_plain` | `unit/client/test_shared_send` |
| `client/core/_batch_items` | `batch_items_plain` | `property/test_client_twins` |
| `client/core/_in_flight` | `in_flight_plain` | `property/test_client_twins` |
| `client/core/_received_split` | `received_split_plain` | `property/test_client_twins` |
| `engine/` | the general way of a send | `unit/broker/test_send_runs`, `test_send_turns`, `test_send_ids` |
| `filter/_scan` | `scan_plain` | `property/test_sql` |
| `protocol/_frames` | `frames_plain` | `property/test_twins` |
| `record/_columns` | `columns_plain` | `unit/record/test_columns` |
| `record/_entries` | `entries_plain` | `property/test_entries` |
| `record/_indexed_properties` | `indexed_properties_plain` | `property/test_twins` |
| `record/_skip` | `skip_plain` | `unit/record/test_skip` |
| `record/_walk` | `walk_plain` | `unit/record/test_walk` |
| `remoting/_poller`, `_stream` | asyncio's transports, as on other kernels | `unit/remoting/conftest` |
| `security/_signing` | `signature` (hmac) | `unit/broker/test_signed_runs` |
| `spark/sink/_row_packer` | `requests`, row by row | `unit/spark/test_sink_plain_rows` |
| `store/_copied_run`, `_key_columns` | `log_bytes_plain`, one by one | `unit/store/test_log_bytes_dispatcher` |
| `store/_id_table` | `id_table_plain` | `property/test_twins` |
| `store/_index_loops` | `index_loops_plain` | `property/test_twins` |
| `store/_kernel` | `kernel_plain` | `property/test_twins` |
| `store/_page_prefault` | nothing: pages come when they are written | `unit/store/test_page_prefault` |
| `store/_queue_entries` | `queue_entries_plain` | `property/test_twins` |

A twin has the same names and gives the same answers: the test named beside it compares the two.
"""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final


def _is_built() -> bool:
    folder = Path(__file__).parent / "record"
    return any((folder / f"_walk{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


COMPILED: Final = os.environ.get("ROCKETEER_PLAIN", "") in ("", "0") and _is_built()
COMPILED_STREAMS: Final = COMPILED and sys.platform == "linux"
"""Whether connections use compiled streams, which wait for sockets by epoll."""
