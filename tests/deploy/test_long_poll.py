"""Long polling: who asks for work is answered when there is some, and no message goes to a closed connection."""

import asyncio
from typing import Any

import pytest

from feddr.deploy import gate, long_poll
from feddr.deploy.long_poll import PULL, PUSH, LongPoll


class SuperLink:
    """Gives a message away once, as Flower's does, and counts the questions."""

    def __init__(self, status: int = 200) -> None:
        self.status, self.asked = status, 0
        self.inbox: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = await receive()
        if scope["path"] in PUSH:
            self.inbox.append(request["body"])
            body = b"pushed"
        else:
            self.asked += 1
            body = self.inbox.pop() if self.inbox else b""
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": body})


class Connection:
    """A request: what it sends, whether it hangs up, and what it is answered."""

    def __init__(self, path: str, body: bytes = b"node", length: int | None = None) -> None:
        size = str(len(body) if length is None else length).encode()
        self.scope = {"type": "http", "path": path, "headers": [(b"content-length", size)]}
        self.answer: list[Any] = []
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.events.put_nowait({"type": "http.request", "body": body, "more_body": False})

    def hang_up(self) -> None:
        self.events.put_nowait({"type": "http.disconnect"})

    async def run(self, app: LongPoll) -> None:
        async def send(event: Any) -> None:
            self.answer.append(event)

        await app(self.scope, self.events.get, send)

    @property
    def body(self) -> bytes:
        return b"".join(event.get("body", b"") for event in self.answer)


async def held(app: LongPoll, number: int = 1) -> None:
    """Return when so many questions are held."""
    while app.held < number:
        await asyncio.sleep(0.001)


def test_a_question_is_answered_by_the_message_that_comes() -> None:
    async def scene() -> None:
        superlink = SuperLink()
        app, node = LongPoll(superlink, hold=20.0), Connection(PULL)
        waiting = asyncio.create_task(node.run(app))
        await held(app)
        assert node.answer == []
        await Connection(PUSH[0], b"train").run(app)
        await asyncio.wait_for(waiting, 5.0)  # a quarter of the hold: it was the push that ended it
        assert (node.body, superlink.inbox, app.held) == (b"train", [], 0)

    asyncio.run(scene())


def test_one_message_answers_one_of_two_questions() -> None:
    async def scene() -> None:
        app, nodes = LongPoll(SuperLink(), hold=0.5), [Connection(PULL), Connection(PULL)]
        waiting = [asyncio.create_task(node.run(app)) for node in nodes]
        await held(app, 2)
        await Connection(PUSH[1], b"train").run(app)
        await asyncio.gather(*waiting)
        assert sorted(node.body for node in nodes) == [b"", b"train"]

    asyncio.run(scene())


def test_a_push_during_the_question_is_not_missed() -> None:
    class Late(SuperLink):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            first = scope["path"] == PULL and self.asked == 0
            await super().__call__(scope, receive, send)
            if first:
                await Connection(PUSH[0], b"train").run(app)

    app, node = LongPoll(Late(), hold=20.0), Connection(PULL)
    asyncio.run(asyncio.wait_for(node.run(app), 5.0))
    assert node.body == b"train"


def test_without_a_message_the_answer_is_the_superlinks_own() -> None:
    superlink, node = SuperLink(), Connection(PULL)
    asyncio.run(node.run(LongPoll(superlink, hold=0.05)))
    assert ([event["type"] for event in node.answer], node.body) == (["http.response.start", "http.response.body"], b"")


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_refusal_is_not_held(status: int) -> None:
    superlink, node = SuperLink(status), Connection(PULL)
    asyncio.run(asyncio.wait_for(node.run(LongPoll(superlink, hold=20.0)), 5.0))
    assert (node.answer[0]["status"], superlink.asked) == (status, 1)


def test_a_message_that_is_there_is_answered_at_once() -> None:
    superlink, node = SuperLink(), Connection(PULL)
    superlink.inbox.append(b"train")
    asyncio.run(asyncio.wait_for(node.run(LongPoll(superlink, hold=20.0)), 5.0))
    assert (node.body, superlink.asked) == (b"train", 1)


def test_a_node_that_has_hung_up_is_given_nothing() -> None:
    """The SuperLink counts a message as delivered once it has answered with it."""

    async def scene() -> None:
        superlink = SuperLink()
        app, node = LongPoll(superlink, hold=20.0), Connection(PULL)
        waiting = asyncio.create_task(node.run(app))
        await held(app)
        node.hang_up()
        await Connection(PUSH[0], b"train").run(app)
        await asyncio.wait_for(waiting, 5.0)
        assert (node.answer, superlink.asked, superlink.inbox) == ([], 1, [b"train"])

    asyncio.run(scene())


@pytest.mark.parametrize("connection", [Connection("/v1/fleet/push-messages"), Connection(PULL, length=10**6)])
def test_other_requests_and_long_ones_are_passed_on(connection: Connection) -> None:
    superlink = SuperLink()
    asyncio.run(asyncio.wait_for(connection.run(LongPoll(superlink, hold=20.0)), 5.0))
    assert (superlink.asked, connection.answer[0]["status"]) == (1, 200)


def test_a_hold_beyond_a_nodes_patience_is_refused() -> None:
    with pytest.raises(ValueError, match=r"below 30 s.*got 30"):
        LongPoll(SuperLink(), hold=30.0)


def test_flower_has_these_paths_and_says_nothing_with_no_bytes() -> None:
    from flwr.proto.fleet_pb2 import PullMessagesResponse
    from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
    from flwr.superlink import extensions, main

    assert {("POST", path) for path in (PULL, *PUSH)} <= PROTOBUF_REQUEST_TYPES.keys()
    assert PullMessagesResponse().SerializeToString() == b""
    before = extensions.get_middleware
    try:
        gate.install(gate.networks(gate.LOOPBACK))
        classes: list[Any] = [one.cls for one in main._get_middleware()]
        assert classes[:2] == [gate.Gate, long_poll.LongPoll]
    finally:
        extensions.get_middleware = before
