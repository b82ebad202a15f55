"""The table of a connection's states has no hole and no state without a way out."""

import pytest

from rocketeer.remoting.connection_state import NEXT, OPENED, ConnectionState, Event


def test_every_state_stands_in_the_table() -> None:
    assert set(NEXT) == set(ConnectionState)


@pytest.mark.parametrize("state", [each for each in ConnectionState if each is not ConnectionState.CLOSED])
def test_every_state_leads_to_the_end(state: ConnectionState) -> None:
    reached, before = {state}, set[ConnectionState]()
    while reached != before:
        before = set(reached)
        reached |= {after for each in before for after in NEXT[each].values()}
    assert ConnectionState.CLOSED in reached


@pytest.mark.parametrize("state", sorted(OPENED, key=str))
def test_whatever_an_open_connection_does_it_can_be_ended_and_lost(state: ConnectionState) -> None:
    assert NEXT[state][Event.END] is ConnectionState.CLOSING
    assert NEXT[state][Event.LOST] is ConnectionState.CLOSED


@pytest.mark.parametrize("state", [ConnectionState.OPENING, ConnectionState.OPENING_OUT_OF_TURN])
def test_a_connection_is_known_to_the_server_only_when_it_was_opened(state: ConnectionState) -> None:
    assert NEXT[state][Event.OPENED] in OPENED
    assert not OPENED & {after for event, after in NEXT[state].items() if event is not Event.OPENED}


@pytest.mark.parametrize(
    "state", [ConnectionState.CLOSING, ConnectionState.TURNED_AWAY, ConnectionState.CLOSED]
)
def test_what_has_ended_reads_never_again(state: ConnectionState) -> None:
    assert set(NEXT[state].values()) <= {state, ConnectionState.CLOSED}


def test_one_who_does_not_read_its_replies_is_served_only_when_it_has() -> None:
    ways_out = {
        event for event, after in NEXT[ConnectionState.UNREAD].items() if after is not ConnectionState.UNREAD
    }
    assert ways_out == {Event.REPLIES_TAKEN, Event.END, Event.LOST}
    assert NEXT[ConnectionState.UNREAD][Event.REPLIES_TAKEN] is ConnectionState.OUT_OF_TURN, (
        "what waited comes first"
    )
