"""Many states of one recording, each recovered and checked."""

import random
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from crash_states.check import Broken, Checker, Recovered
from crash_states.disk import Disk
from crash_states.ledger import History
from crash_states.opening import opened, settings_of
from crash_states.recording import Recording
from crash_states.served import served
from crash_states.states import CHOICES, FILE_SYSTEMS, Choice, Damage, StateName, make_state
from crash_states.trace import Kind, Op, read_trace


@dataclass
class Outcome:
    """What became of one state."""

    name: StateName
    broken: list[Broken]
    checked: Counter[str] = field(default_factory=Counter)
    damage: Damage | None = None


class Explorer:
    """Plays a record once, from its beginning to its end, and makes states on the way."""

    def __init__(self, recording: Recording, work: Path) -> None:
        self._recording = recording
        self._work = work
        self._number = 0
        self._ops: Sequence[Op] = read_trace(recording.trace)
        self._history = History(self._ops)
        self._settings = settings_of(recording.conf, work)
        self._promised = recording.plan.flush == "SYNC_FLUSH"

    @property
    def _folder(self) -> Path:
        return self._work / str(self._number)

    @property
    def moments(self) -> int:
        return len(self._ops)

    def names(self, count: int, seed: int) -> list[StateName]:
        """States to look at, by the seed; half of the moments are right behind an answer, where promises are youngest."""
        dice = random.Random(f"states {seed}")
        answers = [moment for moment, op in enumerate(self._ops, start=1) if op.kind is Kind.ANSWERED]
        choices: list[Choice] = list(CHOICES)
        found = []
        for _ in range(count):
            moment = dice.choice(answers) if dice.random() < 0.5 else dice.randint(1, len(self._ops))
            found.append(
                StateName(moment, dice.choice(FILE_SYSTEMS), dice.choice(choices), dice.getrandbits(32))
            )
        return sorted(found)

    async def explore(self, names: Sequence[StateName]) -> AsyncIterator[Outcome]:
        """The names in the order of their moments."""
        disk = Disk(states=self._recording.folder)
        for name in names:
            while disk.index < name.moment:
                disk.play(self._ops[disk.index])
            yield await self._check(disk, name)

    async def _check(self, disk: Disk, name: StateName) -> Outcome:
        state = make_state(disk, name)
        # Each in a folder of its own: a thread of the broker before may still be busy with a table.
        shutil.rmtree(self._folder, ignore_errors=True)
        self._number += 1
        state.write(self._folder)
        ledger = self._history.at(disk.index, _log_floor(disk))
        try:
            async with self._started(name) as broker:
                checker = Checker(
                    broker, ledger, promised=self._promised, seed=name.seed, damage=state.damage
                )
                broken = await checker.run()
                return Outcome(name, broken, checker.checked, state.damage)
        except Exception as error:  # a broker that does not start has lost everything, whatever the reason
            why = f"{type(error).__name__}: {error}"
            return Outcome(name, [Broken("does not start", "all", why)], damage=state.damage)

    def _started(self, name: StateName) -> AbstractAsyncContextManager[Recovered]:
        """In this process, or one in so many by the real program."""
        if by_program(name):
            return served(self._folder, self._work / "program", self._recording.plan)
        settings = replace(self._settings, store=replace(self._settings.store, store_path=self._folder))
        return opened(settings, now_ms=self._recording.ended_ms + 1_000)


PROGRAM_SHARE = 200


def by_program(name: StateName) -> bool:
    return name.seed % PROGRAM_SHARE == 0


def _log_floor(disk: Disk) -> int:
    """Where the log began when the power failed: retention had deleted what is below."""
    bases = [int(name.rpartition("/")[2]) for name in disk.names if name.startswith("commitlog/")]
    return min(bases, default=0)
