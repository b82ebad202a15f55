"""Run the nemesis against a group for some minutes and judge what is left."""

import argparse
import logging
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from faults.network import can_make_networks
from faults.report import load, save, table
from faults.running import CHANGE_S, LASTS_S, PAUSE_S, Plan, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--flush", choices=("ASYNC_FLUSH", "SYNC_FLUSH"), default="ASYNC_FLUSH")
    parser.add_argument("--faults", nargs="*", default=(), help="only these, in this order, again and again")
    parser.add_argument(
        "--lasts", type=float, nargs="+", default=LASTS_S, help="how many seconds a fault lasts"
    )
    parser.add_argument("--pauses", type=float, nargs="+", default=PAUSE_S, help="and until the next one")
    parser.add_argument("--steady", action="store_true", help="consumers neither come nor go")
    parser.add_argument("--slower", type=float, default=1.0, help="so many times fewer requests a second")
    parser.add_argument("--folder", type=Path, help="keep stores and logs there")
    parser.add_argument("--save", type=Path, help="keep the counts of this run in a file")
    parser.add_argument("--add", type=Path, nargs="+", help="run nothing: add up the counts in these files")
    wanted = parser.parse_args()
    if wanted.add:
        print(table(load(wanted.add)))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # processes, networks and disks go with us
    _log_to(wanted.folder)
    network = can_make_networks()
    if not network:
        print("no network namespaces here (root and `ip` are needed): links are not cut")
    plan = Plan(
        wanted.seed,
        60 * wanted.minutes,
        wanted.flush,
        network,
        wanted.faults,
        lasts_s=wanted.lasts,
        pauses_s=wanted.pauses,
        slower=wanted.slower,
        consumers_change_s=None if wanted.steady else CHANGE_S,
    )
    with ExitStack() as stack:
        folder = wanted.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        outcome = run(folder, plan)
        if wanted.folder:
            outcome.ledger.save(wanted.folder / "ledger.txt")
    for text in outcome.missing:
        print(text)
    if wanted.save:
        save(wanted.save, outcome)
    for name, strikes in sorted(outcome.faults.items()):
        print(f"{strikes.count:4} x {name}")
    print(outcome.ledger, dict(outcome.ledger.errors))
    if outcome.ledger.waiting:
        print(f"{len(outcome.ledger.waiting)} tries were timed by a clock far ahead, and wait for that time")
    for problem in outcome.problems:
        print(f"PROBLEM: {problem}")
    print(
        f"seed {wanted.seed}: {'failed' if outcome.problems else 'nothing lost'}; "
        f"{outcome.seconds / 60:.1f} minutes of faults, {outcome.cpu_s:.0f} s of processor time"
    )
    return 1 if outcome.problems else 0


def _log_to(folder: Path | None) -> None:
    """What the clients log: into a file beside the stores, or nowhere; that brokers cannot be reached is no news here."""
    clients = logging.getLogger("rocketeer")
    clients.propagate = False
    clients.addHandler(logging.NullHandler())
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        to_file = logging.FileHandler(folder / "clients.log")
        to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        clients.addHandler(to_file)
        clients.setLevel(logging.INFO)


if __name__ == "__main__":
    sys.exit(main())
