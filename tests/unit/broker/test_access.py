"""Who gets through: every request code x every kind of account, with the requests that were recorded from Java."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from rocketeer.clock import SystemClock
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, encode, request
from rocketeer.remoting.client import RemotingClient
from rocketeer.security.rules import BROKER_RULES
from rocketeer.security.signature import SIGNATURE, Signer, sign, signed_content
from support.broker import BrokerUnderTest, broker_at
from support.raw_connection import RawConnection
from support.senders import send_header

WIRE = Path(__file__).parents[2] / "golden" / "data" / "wire"
ACCOUNTS: list[dict[str, Any]] = [
    {
        "accessKey": "allowed12",
        "secretKey": "secret123",
        "defaultTopicPerm": "PUB|SUB",
        "defaultGroupPerm": "PUB|SUB",
    },
    {"accessKey": "denied123", "secretKey": "secret123"},
    {"accessKey": "grouped12", "secretKey": "secret123", "defaultGroupPerm": "SUB"},
    {"accessKey": "admin1234", "secretKey": "secret123", "admin": True},
    {"accessKey": "white1234", "secretKey": "secret123", "whiteRemoteAddress": "127.0.0.1"},
    {"accessKey": "rotating1", "secretKey": "old-secret", "secondarySecretKey": "new-secret", "admin": True},
]
SIGNED_IN = {37, 33, 35}
"""Need only an account here: in the requests below the places hold no message, and a producer takes its leave."""
ADMIN = {
    17, 21, 25, 26, 28, 43, 45, 50, 51, 52, 53, 200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 300, 303, 305, 306,
    307, 308, 309, 314, 315, 316, 317, 321, 323, 328, 329, RequestCode.GET_BROKER_TABLE,
    RequestCode.GET_REPLICA_GROUP, RequestCode.SWITCH_LEADER,
}  # fmt: skip
ACL = "AclException"


@asynccontextmanager
async def guarded_broker(
    folder: Path, store: dict[str, Any] | None = None, **server: Any
) -> AsyncIterator[BrokerUnderTest]:
    conf = folder / "conf"
    conf.mkdir()
    path = conf / "plain_acl.yml"
    path.write_text(yaml.safe_dump({"accounts": ACCOUNTS}))
    path.chmod(0o600)
    async with broker_at(
        folder / "store", store=store, broker={"acl_enable": True}, server={"acl_conf_dir": conf, **server}
    ) as broker:
        yield broker


def recorded_requests() -> dict[int, Command]:
    """One request of every code, as Java's programs sent it."""
    found: dict[int, Command] = {}
    for path in sorted(WIRE.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            frame = json.loads(line)
            header = frame.get("header") or {}
            code = header.get("code")
            if frame.get("dir") != "request" or "broker" not in frame["conn"] or code in found:
                continue
            if code == RequestCode.HEART_BEAT and b"subscriptionDataSet" not in bytes.fromhex(
                frame["body_hex"]
            ):
                continue  # of a producer, who needs no more than an account
            fields = {name: str(text) for name, text in (header.get("extFields") or {}).items()}
            for name in ("AccessKey", SIGNATURE):
                fields.pop(name, None)
            found[code] = request(code, fields, bytes.fromhex(frame.get("body_hex", "")))
    found[RequestCode.GET_PRODUCER_SEQUENCE] = request(RequestCode.GET_PRODUCER_SEQUENCE, {"topic": "T"})
    found[RequestCode.RECALL_MESSAGE] = request(
        RequestCode.RECALL_MESSAGE, {"topic": "T", "recallHandle": "x"}
    )
    found[RequestCode.LOCK_BATCH_MQ].body = found[
        RequestCode.UNLOCK_BATCH_MQ
    ].body  # the first one recorded is garbage
    for code in (37, 33):
        found[code].ext.update({"commitLogOffset": "999999", "offset": "999999"})
    return found


def by(key: str, secret: str = "secret123") -> Signer:
    return Signer(key, secret, SystemClock().now_ms)


async def refused_by_acl(address: str, command: Command, signer: Signer | None) -> bool:
    async with RemotingClient(sign=None if signer is None else signer.signed) as client:
        answer = await client.invoke(address, command, 20)
    return ACL in (answer.remark or "")


async def test_every_code_asks_for_what_its_rule_says(tmp_path: Path) -> None:
    requests = recorded_requests()
    unrecorded = set(BROKER_RULES) - set(requests)
    for code in unrecorded:
        requests[code] = request(code, {"topic": "T", "b": "T", "group": "G", "consumerGroup": "G"})
    wrong: list[str] = []
    async with guarded_broker(tmp_path) as broker:
        for code in BROKER_RULES:
            passes = {
                "nobody": (None, False),
                "wrong secret": (by("allowed12", "wrong-one"), False),
                "unknown key": (by("stranger1"), False),
                "denied": (by("denied123"), code in SIGNED_IN),
                "allowed": (by("allowed12"), code not in ADMIN),
                "admin": (by("admin1234"), True),
                "white": (by("white1234", "wrong-one"), True),
            }
            for kind, (signer, expected) in passes.items():
                # A stranger who fails again and again is slowed down: here each is a new one.
                refused = await refused_by_acl(broker.address, requests[code], signer)
                if refused == expected:
                    wrong.append(f"{code} {kind}: {'refused' if refused else 'passed'}")
    assert wrong == [], "\n".join(wrong)


async def test_the_texts_are_rocketmqs(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as broker:
        async with RemotingClient(sign=by("denied123").signed) as client:
            send = request(RequestCode.SEND_MESSAGE_V2, {"b": "topicA"})
            answer = await client.invoke(broker.address, send)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "No default permission for topic:topicA" in (answer.remark or "")
            answer = await client.invoke(broker.address, request(17, {}))
            assert "Need admin permission for request code=17, but accessKey=denied123 is not" in (
                answer.remark or ""
            )
        for signer, text in (
            (None, "No accessKey is configured"),
            (by("nobody12"), "No acl config for nobody12"),
        ):
            async with RemotingClient(sign=None if signer is None else signer.signed) as client:
                assert text in ((await client.invoke(broker.address, send)).remark or "")


async def test_a_message_by_its_id_and_the_end_of_a_transaction_need_the_topic_they_are_about(
    tmp_path: Path,
) -> None:
    async with guarded_broker(tmp_path) as broker:
        send = {"a": "PG", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
        half = {**send, "b": "Private", "f": "4", "i": "TRAN_MSG\x01true\x02PGROUP\x01PG"}
        async with RemotingClient(sign=by("admin1234").signed) as admin:
            plain = await admin.invoke(broker.address, request(310, {**send, "b": "Private"}, b"secret"))
            prepared = await admin.invoke(broker.address, request(310, half, b"secret"))
        view = request(33, {"offset": str(int(plain.ext["msgId"][16:], 16))})
        end = request(
            37,
            {
                "producerGroup": "PG",
                "tranStateTableOffset": prepared.ext["queueOffset"],
                "commitLogOffset": str(int(prepared.ext["msgId"][16:], 16)),
                "commitOrRollback": "8",
            },
        )
        back = request(36, {"group": "allowed-group", "offset": view.ext["offset"], "delayLevel": "0"})
        for command in (view, end, back):
            assert await refused_by_acl(broker.address, command, by("denied123"))
            assert not await refused_by_acl(broker.address, command, by("allowed12"))
        # Java reads all of these as the same number.
        for name, command in (("offset", view), ("commitLogOffset", end), ("offset", back)):
            for sign in ("+", "0" * 30, "+00"):
                same = request(command.code, {**command.ext, name: sign + command.ext[name]})
                assert await refused_by_acl(broker.address, same, by("denied123")), (command.code, sign)
                if command is back:  # who may consume for a group may not have it read any topic
                    assert await refused_by_acl(broker.address, same, by("grouped12")), sign


async def test_a_recorded_request_is_not_taken_again(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as broker, RemotingClient() as eavesdropper:
        captured = request(RequestCode.GET_ALL_TOPIC_CONFIG)
        captured.ext = by("admin1234").signed({}, b"")
        assert (await eavesdropper.invoke(broker.address, captured)).code == ResponseCode.SUCCESS
        again = await eavesdropper.invoke(broker.address, captured)
        assert "came before" in (again.remark or "")


async def test_stock_clients_can_be_made_to_use_tls(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path, acl_require_nonce=True) as broker, RemotingClient() as stock:
        plain = by("admin1234").signed({}, b"")
        for name in ("Nonce", "SignedAt", SIGNATURE):
            plain.pop(name)
        plain[SIGNATURE] = sign(signed_content(plain, b""), "secret123")
        command = request(RequestCode.GET_ALL_TOPIC_CONFIG)
        command.ext = plain
        assert "aclRequireNonce" in ((await stock.invoke(broker.address, command)).remark or "")


async def test_two_secrets_are_valid_while_they_are_changed(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as broker:
        for secret, refused in (("old-secret", False), ("new-secret", False), ("third-secret", True)):
            command = request(RequestCode.GET_ALL_TOPIC_CONFIG)
            assert await refused_by_acl(broker.address, command, by("rotating1", secret)) is refused


async def test_a_change_of_the_file_is_in_force_within_seconds(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as broker:
        command = request(RequestCode.GET_ALL_TOPIC_CONFIG)
        assert not await refused_by_acl(broker.address, command, by("admin1234"))
        path = tmp_path / "conf" / "plain_acl.yml"
        path.write_text(path.read_text().replace("admin: true", "admin: false"))
        for _ in range(300):
            if await refused_by_acl(broker.address, command, by("admin1234")):
                return
            await asyncio.sleep(0.1)
        pytest.fail("the account is still an admin's")


async def test_admins_change_accounts_and_see_versions(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as broker:
        async with RemotingClient(sign=by("admin1234").signed) as admin:
            made = await admin.invoke(
                broker.address,
                request(
                    50,
                    {
                        "accessKey": "newuser12",
                        "secretKey": "12345678",
                        "admin": "true",
                        "topicPerms": "A=PUB,B=SUB",
                    },
                ),
            )
            assert made.code == ResponseCode.SUCCESS
            command = request(RequestCode.GET_ALL_TOPIC_CONFIG)
            assert not await refused_by_acl(broker.address, command, by("newuser12", "12345678"))
            version = await admin.invoke(broker.address, request(52))
            assert json.loads(version.ext["version"])["counter"] == 1
            assert str(tmp_path / "conf" / "plain_acl.yml") in version.ext["allAclFileVersion"]
            bad = await admin.invoke(broker.address, request(50, {"accessKey": "bad", "secretKey": "1"}))
            assert bad.code == ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
            gone = await admin.invoke(broker.address, request(51, {"accessKey": "newuser12"}))
            assert gone.code == ResponseCode.SUCCESS
            assert await refused_by_acl(broker.address, command, by("newuser12", "12345678"))
            missing = await admin.invoke(broker.address, request(51, {"accessKey": "nobody12"}))
            assert missing.code == ResponseCode.DELETE_ACL_CONFIG_FAILED
            assert (
                await admin.invoke(broker.address, request(53, {"globalWhiteAddrs": "127.0.0.1"}))
            ).code == 0
        assert not await refused_by_acl(broker.address, command, None), "everybody here is white now"


async def test_who_guesses_is_slowed_down_and_others_are_not(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as broker, RemotingClient() as guesser:
        answers = []
        for number in range(30):
            command = request(RequestCode.GET_ALL_TOPIC_CONFIG)
            command.ext = by("admin1234", f"guess-{number}").signed({}, b"")
            answers.append((await guesser.invoke(broker.address, command)).remark or "")
        assert "too many failures" in answers[-1]
        assert not await refused_by_acl(
            broker.address, request(RequestCode.GET_ALL_TOPIC_CONFIG), by("rotating1", "old-secret")
        )


@pytest.mark.parametrize("code", [50, 51, 52, 53])
async def test_without_access_control_its_codes_say_so(tmp_path: Path, code: int) -> None:
    async with broker_at(tmp_path) as broker:
        assert "aclEnable is false" in ((await broker.ask(code, {"accessKey": "x"})).remark or "")


async def test_a_large_request_is_looked_through_in_turns_and_those_behind_it_wait(tmp_path: Path) -> None:
    """Good or bad, its answer comes before those of what its sender sent after it."""
    async with guarded_broker(tmp_path, {"segment_bytes": 16 << 20}) as broker:
        for secret, code in (("secret123", ResponseCode.SUCCESS), ("wrong-one", ResponseCode.SYSTEM_ERROR)):
            asked = []
            for who, body in ((by("admin1234", secret), bytes(3_900_000)), (by("admin1234"), b"small")):
                command = request(RequestCode.SEND_MESSAGE_V2, send_header("TBW102", 0, ""), body)
                command.ext = who.signed(command.ext, body)
                asked.append(command)
            with RawConnection(broker.address) as line:
                replies = await asyncio.to_thread(_ask_together, line, asked)
            assert [reply.opaque for reply in replies] == [command.opaque for command in asked]
            assert [reply.code for reply in replies] == [code, ResponseCode.SUCCESS]
            if code == ResponseCode.SUCCESS:
                first, second = (int(reply.ext["queueOffset"]) for reply in replies)
                assert second == first + 1
            else:
                assert ACL in (replies[0].remark or "")


def _ask_together(line: RawConnection, commands: list[Command]) -> list[Command]:
    line.send(b"".join(map(encode, commands)))
    return [line.reply() for _ in commands]
