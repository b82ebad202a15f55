"""A real broker under load, over several starts, with all its file operations recorded."""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from crash_states.difference import differences, mend
from crash_states.disk import Disk
from crash_states.load import BACK, GONE, LATE, ONCE, PLAIN, TX, Load
from crash_states.states import CHOICES, StateName, make_state
from crash_states.trace import Notes, read_trace
from rocketeer.bench.control import Control
from rocketeer.bench.processes import ServerFailed, ServerProcess
from rocketeer.config.ports import free_ports
from rocketeer.errors import RemotingError

SHIM: Final = Path(__file__).with_name("shim.c")
START_S: Final = 60.0
AFTER_POWER_FAILURE: Final = "after_power_failure"
SYNC_US: Final = 6_000
SEGMENT_BYTES: Final = 32 << 10

CONF: Final[dict[str, object]] = {
    # Small files: seconds of load fill several of each.
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": 40 * 20,
    "maxHashSlotNum": 40,
    "maxIndexNum": 120,
    "maxMessageSize": 16 << 10,
    # What happens now and then happens all the time.
    "flushIntervalConsumeQueue": 40,
    "flushConsumeQueueThoroughInterval": 80,
    "flushConsumerOffsetInterval": 60,
    "flushIntervalCommitLog": 150,
    "timerFlushIntervalMs": 50,
    "transactionTimeOut": 300,
    "transactionCheckInterval": 200,
    "messageDelayLevel": "1s 2s 10m",
    "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
    "cleanResourceInterval": 50,
    "deleteCommitLogFilesInterval": 10,
    # The machine may be busy, and its disk full.
    "diskMaxUsedSpaceRatio": 99,
    "diskSpaceCleanForciblyRatio": 100,
    "diskSpaceWarningLevelRatio": 100,
    "waitTimeMillsInSendQueue": 20_000,
    "waitTimeMillsInPullQueue": 20_000,
    "waitTimeMillsInHeartbeatQueue": 60_000,
    "waitTimeMillsInTransactionQueue": 20_000,
    "osPageCacheBusyTimeOutMills": 20_000,
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "brokerName": "broker-a",
}


@dataclass(frozen=True)
class Plan:
    """What to record; everything that is chosen is chosen by the seed."""

    seed: int
    flush: str = "SYNC_FLUSH"
    starts: int = 2
    requests: int = 80
    """Of each start."""
    fault: str | None = None
    """As the shim wants it, for the last start: "KIND PART FROM COUNT"."""
    power_fails: bool = False
    """Before the last start, instead of a stop or a kill: the broker goes on from what a power failure left."""

    def text(self) -> str:
        power = " power_fails" if self.power_fails else ""
        return f"seed={self.seed} flush={self.flush} starts={self.starts}{power} fault={self.fault or '-'}"


@dataclass
class Recording:
    """A folder with the record, and the store as the last broker left it."""

    folder: Path
    plan: Plan
    port: int
    ended_ms: int = 0
    """When the load ended."""
    refused: dict[int, int] = field(default_factory=dict)

    @property
    def trace(self) -> Path:
        return self.folder / "trace"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def conf(self) -> Path:
        return self.folder / "broker.conf"

    def save(self) -> None:
        noted = {"plan": asdict(self.plan), "port": self.port, "ended_ms": self.ended_ms}
        (self.folder / "plan.json").write_text(json.dumps(noted))

    @classmethod
    def load(cls, folder: Path) -> "Recording":
        found: dict[str, Any] = json.loads((folder / "plan.json").read_text())
        return cls(folder, Plan(**found["plan"]), found["port"], found["ended_ms"])


def compile_shim(folder: Path) -> Path:
    """The shim as a library; the error says what is missing."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ServerFailed("the recorder needs a C compiler: cc or gcc")
    library = folder / "shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"], check=True, timeout=60
    )
    return library


def record(folder: Path, plan: Plan) -> Recording:
    """Run the plan in `folder`, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    library = compile_shim(folder)
    dice = random.Random(f"recording {plan.seed}")
    _, port = free_ports()
    recording = Recording(folder, plan, port)
    recording.store.mkdir()
    write_conf(recording.conf, recording.store, port, plan)
    load = Load(f"127.0.0.1:{port}", Notes(recording.trace), plan.seed, plan.requests)
    for number in range(plan.starts):
        last = number == plan.starts - 1
        if number:
            if last and plan.power_fails:
                _power_failure(recording, load.notes, dice)
            _age_segments(recording.store, dice)
        faulty = last and plan.fault is not None
        killed = faulty or dice.random() < 0.5
        try:
            process = _start(recording, library, fault=plan.fault if last else None)
        except ServerFailed:
            if not faulty:
                raise
            _check_record(recording, killed=True)  # it will not start on a disk that fails, which is fine
            break
        try:
            asyncio.run(_run(load, create=number == 0))
            if killed:
                time.sleep(dice.random() * 0.3)
                process.kill()
            else:
                process.stop(timeout_s=START_S)
        finally:
            process.kill()
        _check_record(recording, killed=killed)
        _add(recording.refused, load.refused)
        load = Load(
            load.address, load.notes, plan.seed, plan.requests, load.next_number, load.sequences, load.acked
        )
    load.notes.close()
    recording.ended_ms = time.time_ns() // 1_000_000
    recording.save()
    return recording


async def _run(load: Load, *, create: bool) -> None:
    if create:
        for topic in (PLAIN, LATE, TX, ONCE, GONE, BACK):
            await load.create_topic(topic)
    await load.run()


def _start(recording: Recording, library: Path, *, fault: str | None) -> ServerProcess:
    env = {
        "LD_PRELOAD": str(library),
        "CRASH_ROOT": str(recording.store),
        "CRASH_TRACE": str(recording.trace),
        "CRASH_SYNC_US": str(SYNC_US),
    }
    if fault is not None:
        env["CRASH_FAULT"] = fault
    return start_program(recording.conf, recording.port, log=recording.folder / "broker.out", env=env)


def start_program(conf: Path, port: int, *, log: Path, env: dict[str, str]) -> ServerProcess:
    """The broker as a process, which answers when this returns. Raises ServerFailed."""
    command = [sys.executable, "-m", "crash_states.broker_process", "-c", str(conf)]
    process = ServerProcess(command, log=log, env={**env, "PYTHONPATH": str(Path(__file__).parents[1])})
    try:
        process.wait_until(lambda: _answers(port), timeout_s=START_S, what="the broker")
    except BaseException:
        process.kill()
        raise
    return process


def _answers(port: int) -> bool:
    try:
        with Control(f"127.0.0.1:{port}") as control:
            control.topics()
        return True
    except RemotingError:
        return False


def write_conf(path: Path, store: Path, port: int, plan: Plan) -> None:
    conf = {**CONF, "storePathRootDir": store, "listenPort": port, "flushDiskType": plan.flush}
    if plan.seed % 5 == 4:
        conf |= {"enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"}
    path.write_text("".join(f"{name}={value}\n" for name, value in conf.items()))


def _age_segments(store: Path, dice: random.Random) -> None:
    """Let the time of the oldest log files be over, so that the next start deletes them under load."""
    segments = sorted((store / "commitlog").iterdir())
    for path in segments[: dice.randint(0, max(0, len(segments) - 3))]:
        long_ago_s = time.time() - 100 * 3600
        os.utime(path, (long_ago_s, long_ago_s))


def _power_failure(recording: Recording, notes: Notes, dice: random.Random) -> None:
    """Let the store be one of the states that a power failure now could leave."""
    disk = play(recording.trace)
    choice = dice.choice([each for each in CHOICES if each != "flipped"])
    make_state(disk, StateName(disk.index, "journal", choice, dice.getrandbits(32))).write(recording.store)
    shutil.copytree(recording.store, recording.folder / AFTER_POWER_FAILURE)
    notes.power_failed(AFTER_POWER_FAILURE)


def play(trace: Path) -> Disk:
    """The disk at the end of the record."""
    disk = Disk(states=trace.parent)
    for op in read_trace(trace):
        disk.play(op)
    return disk


def _check_record(recording: Recording, *, killed: bool) -> None:
    """Played to the model, the record gives the folder that is there; what a kill cut off is added."""
    found = differences(play(recording.trace), recording.store)
    if found and not killed:
        raise AssertionError(f"the record is not complete: {found[:5]}")
    mend(recording.trace, found)


def _add(counts: dict[int, int], more: dict[int, int]) -> None:
    for code, number in more.items():
        counts[code] = counts.get(code, 0) + number
