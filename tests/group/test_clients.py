"""Our clients go on when the leader changes: by a person's wish without a refused send, by its death within seconds."""

import threading
from pathlib import Path

from rocketeer import Message, Producer, PullConsumer, SendStatus
from rocketeer.bench.groups import GroupCluster, MemberProcess
from support.grouped import GROUP_CONF, TOPIC, group_command
from support.records import sent_body
from support.senders import read_topic, wait_for


class Sending(threading.Thread):
    """Sends one after the other until it is told to stop."""

    def __init__(self, group: GroupCluster) -> None:
        super().__init__(daemon=True)
        self._namesrv = group.namesrv
        self._stop_sending = threading.Event()
        self.acked: list[bytes] = []
        self.errors: list[Exception] = []
        self.leader_is_dead = threading.Event()
        self.last_id, self.last_body = "", b""

    def run(self) -> None:
        with Producer("PG", nameserver=self._namesrv, send_timeout_s=30, idempotent=True) as producer:
            while not self._stop_sending.is_set():
                body = b"%d" % (len(self.acked) + len(self.errors))
                try:
                    result = producer.send(Message(TOPIC, body))
                    self.acked.append(body)
                    if not self.leader_is_dead.is_set():
                        self.last_id, self.last_body = result.offset_message_id, body
                except Exception as error:
                    self.errors.append(error)

    def goes_on(self) -> None:
        before = len(self.acked)
        wait_for(lambda: len(self.acked) > before + 50 or bool(self.errors), what="sends", state=self.errors)

    def finish(self) -> None:
        self._stop_sending.set()
        self.join(60)
        assert not self.is_alive()


def test_a_switch_and_a_death_refuse_no_send_and_store_each_once(tmp_path: Path) -> None:
    with GroupCluster(tmp_path, conf=GROUP_CONF) as group:
        sending = Sending(group)
        leader = group.wait_for_leader()
        group.wait_until_in_sync()
        assert group_command(group, "status").count("in sync") == 2
        sending.start()
        sending.goes_on()
        other: MemberProcess = next(each for each in group.members if each is not leader)
        assert f"member {other.number} leads" in group_command(group, "switch", str(other.number))
        assert group.wait_for_leader(other_than=leader) is other
        sending.goes_on()
        sending.leader_is_dead.set()
        with Producer("PN", nameserver=group.namesrv, send_timeout_s=60) as naming:
            queue = naming.send(Message("Named", b"before")).queue
            naming.send_async(Message("Named", b"before"), queue=queue).result(60)
            other.kill()
            # Nobody leads now: the queue was named, so its next leader is waited for.
            waiting = naming.send_async(Message("Named", b"at its death"), queue=queue)
            waited_for = [naming.send(Message("Named", b"after it"), queue=queue), waiting.result(60)]
            assert [(result.status, result.queue) for result in waited_for] == [
                (SendStatus.SEND_OK, queue)
            ] * 2
        now = group.wait_for_leader(other_than=other)
        sending.goes_on()
        sending.finish()
        assert sending.errors == []
        stored = [sent_body(message) for queue in read_topic(now.address, TOPIC, 4) for message in queue]
        assert sorted(stored) == sorted(sending.acked)
        with PullConsumer("CG", nameserver=group.namesrv) as consumer:
            found = consumer.view_message(sending.last_id)
        assert (found.body, found.offset_message_id) == (sending.last_body, sending.last_id)
