"""Long work that goes on while pages are looked at: one at a time of a name, with progress and a way to stop."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from rocketeer.console.errors import Refused
from rocketeer.console.i18n import TranslatableText, text
from rocketeer.errors import RocketeerError


@dataclass
class Job:
    """`done` of `total` (None: not known before its end); `error` is what ended it early."""

    name: str
    title: TranslatableText
    total: int | None
    done: int = 0
    skipped: int = 0
    started_s: float = field(default_factory=time.time)
    ended_s: float | None = None
    error: str = ""
    stopped: bool = False

    @property
    def running(self) -> bool:
        return self.ended_s is None


class Jobs:
    """All of one cluster; the last ended ones stay to be looked at."""

    KEPT = 20

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def all(self) -> list[Job]:
        return sorted(self._jobs.values(), key=lambda job: -job.started_s)

    def start(
        self,
        name: str,
        title: TranslatableText,
        total: int | None,
        steps: Callable[[Job], AsyncIterator[None]],
        *,
        per_second: int,
    ) -> Job:
        """Run `steps`, each one unit, at most so many a second. Raises Refused if the job runs, or too many do."""
        known = self._jobs.get(name)
        if known is not None and known.running:
            raise Refused(
                409,
                text("{name} is under way: {done} of {total}", name=name, done=known.done, total=known.total),
            )
        while len(self._jobs) >= self.KEPT:
            ended = [job for job in self._jobs.values() if not job.running]
            if not ended:
                raise Refused(
                    409, text("{count} jobs are under way: wait for one, or stop one", count=self.KEPT)
                )
            oldest = min(ended, key=lambda job: job.started_s)
            del self._jobs[oldest.name], self._tasks[oldest.name]
        job = self._jobs[name] = Job(name, title, total)
        self._tasks[name] = asyncio.create_task(self._run(job, steps(job), per_second))
        return job

    def stop(self, name: str) -> bool:
        job = self._jobs.get(name)
        if job is None or not job.running:
            return False
        job.stopped = True
        self._tasks[name].cancel()
        return True

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, job: Job, steps: AsyncIterator[None], per_second: int) -> None:
        began_s = time.monotonic()
        try:
            async for _ in steps:
                job.done += 1
                ahead_s = job.done / per_second - (time.monotonic() - began_s)
                if ahead_s > 0:
                    await asyncio.sleep(ahead_s)
        except RocketeerError as error:
            job.error = str(error)
        finally:
            job.ended_s = time.time()
