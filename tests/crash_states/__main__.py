"""make crash-states: record brokers under load, make states of power failures, check that every promise was kept.

python -m crash_states --seed 1 --states 2000
python -m crash_states --replay FOLDER STATE      one state again, with the broker's log
"""

import argparse
import asyncio
import logging
import os
import random
import shutil
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from crash_states.exploring import Explorer, Outcome
from crash_states.recording import AFTER_POWER_FAILURE, Plan, Recording, record
from crash_states.report import Report
from crash_states.states import StateName

STATES_PER_RECORDING = 250
KEPT = Path("build/crash-states")
EXAMPLES = 2


def plan_of(seed: int) -> Plan:
    """Of eight recordings two have a failing disk, and two are with ASYNC_FLUSH, which promises less."""
    dice = random.Random(f"plan {seed}")
    starts = 1 + seed % 3
    plan = Plan(seed, starts=starts, power_fails=starts > 1 and dice.random() < 0.5)
    match seed % 8:
        case 3 | 6:
            return replace(plan, flush="ASYNC_FLUSH")
        case 5:
            part = dice.choice(
                ("commitlog/", "commitlog/", "consumequeue", "index", "checkpoint", "config", "timer", "*")
            )
            return replace(plan, fault=f"sync {part} {dice.randrange(25)} 1")
        case 7:
            part = dice.choice(("commitlog/", "consumequeue", "config", "*"))
            return replace(plan, fault=f"space {part} {dice.randrange(80)} {dice.choice((1, 5, 40))}")
        case _:
            return plan


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash_states", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first recording; the next have the next seeds"
    )
    parser.add_argument("--states", type=int, default=2_000)
    parser.add_argument("--work", type=Path, default=_scratch(), help="scratch folder, best in memory")
    parser.add_argument("--save", type=Path, help="note the counts in this file")
    parser.add_argument(
        "--add", nargs="+", type=Path, help="print the table of runs that were saved, and leave"
    )
    parser.add_argument(
        "--replay", nargs=2, metavar=("FOLDER", "STATE"), help="one state of a kept recording"
    )
    options = parser.parse_args()
    if options.replay:
        return asyncio.run(_replay(Path(options.replay[0]), StateName.parse(options.replay[1]), options.work))
    if options.add:
        report = Report()
        for path in options.add:
            report.add_saved(path)
        print(report.table())
        return 1 if report.broken else 0
    logging.disable(logging.CRITICAL)  # thousands of recoveries, each with its warnings
    return asyncio.run(_explore(options.seed, options.states, options.work, options.save))


def _scratch() -> Path:
    memory = Path("/dev/shm")
    return (
        memory if memory.is_dir() else Path(os.environ.get("TMPDIR", "/tmp"))
    ) / f"crash-states-{os.getpid()}"


async def _explore(seed: int, states: int, work: Path, save: Path | None) -> int:
    report = Report()
    shown: Counter[tuple[str, str]] = Counter()
    try:
        while report.states < states:
            recording = await asyncio.to_thread(record, work / "recording", plan_of(seed))
            explorer = Explorer(recording, work / "state")
            began_s, before = time.monotonic(), report.states
            broken = []
            async for outcome in explorer.explore(
                explorer.names(min(STATES_PER_RECORDING, states - report.states), seed)
            ):
                report.add(outcome, recording.plan)
                if outcome.broken:
                    broken.append(outcome)
            count = report.states - before
            rate = count / (time.monotonic() - began_s)
            print(
                f"{recording.plan.text()} operations={explorer.moments} states={count} broken={len(broken)} "
                f"{rate:.0f}/s, {report.states} of {states} done", flush=True,
            )  # fmt: skip
            if save is not None:
                report.save(save)
            if broken:
                _show(_keep(recording), broken, shown)
            seed += 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print()
    print(report.table())
    return 1 if report.broken else 0


def _keep(recording: Recording) -> Path:
    """The recording, where the replays find it."""
    kept = KEPT / f"{recording.plan.seed}-{recording.plan.flush}"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for path in (recording.trace, recording.conf, recording.folder / "plan.json"):
        shutil.copy(path, kept)
    if recording.plan.power_fails:
        shutil.copytree(recording.folder / AFTER_POWER_FAILURE, kept / AFTER_POWER_FAILURE)
    return kept


def _show(kept: Path, broken: list[Outcome], shown: Counter[tuple[str, str]]) -> None:
    for outcome in broken:
        news = [each for each in outcome.broken if shown[each[:2]] < EXAMPLES]
        for each in {each[:2] for each in news}:
            shown[each] += 1
        if news:
            print(f"  {outcome.name} {outcome.damage or ''}")
            for each in news[:6]:
                print(f"    {each}")
            print(
                f"    replay: PYTHONPATH=tests {sys.executable} -m crash_states --replay {kept} {outcome.name}"
            )


async def _replay(folder: Path, name: StateName, work: Path) -> int:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    explorer = Explorer(Recording.load(folder), work / "state")
    try:
        async for outcome in explorer.explore([name]):
            for each in outcome.broken:
                print(each)
            print(f"{outcome.name}: {len(outcome.broken)} promises broken, {outcome.checked.total()} checked")
            return 1 if outcome.broken else 0
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
