"""Long polling for nodes: a node that asks for work is answered when there is some, not every three seconds.

A SuperNode that finds no message sleeps for 3 s, which no option of Flower changes, and every update begins with that
sleep. The SuperLink answers at once that there is none. Here such a question is held, and put to the SuperLink again
whenever a server app has pushed messages, until there is one, or for ``HOLD`` seconds. The node sees a SuperLink that
takes its time.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PULL = "/v1/fleet/pull-messages"
"""Where nodes ask for work. In a version of Flower that asks elsewhere nothing is held, and all works as without."""

PUSH = ("/v1/runtime/push-messages", "/v1/runtime/push-object")
"""Where server apps leave messages and their contents."""

HOLD = 5.0
"""Seconds that a question is held at most: nodes wait 30 s for an answer, and a SuperLink that stops waits for it."""

SETTLE, ASKED_PER_SECOND = 0.05, 50.0
"""Seconds between a push and the next question, at least, and how often all held questions together are put again."""

LARGEST = 65_536
"""Bytes of a question that is held; a longer one is passed on as it comes."""


class LongPoll:
    """ASGI middleware that holds a node's question for messages until there is one.

    Only a question that the SuperLink has answered with success and an empty body (an empty protobuf message: no
    messages) is held, so whoever lacks a valid signature is refused at once. A node that hangs up while it is held is
    not asked for again: no message is handed to a connection that is closed.

    Parameters
    ----------
    app
        What answers: the SuperLink.
    hold
        Seconds that a question is held at most.

    Examples
    --------
    >>> async def superlink(scope, receive, send): ...
    >>> LongPoll(superlink, hold=2.0).held
    0
    """

    def __init__(self, app: App, hold: float = HOLD) -> None:
        if not 0 <= hold < 30:
            raise ValueError(f"hold must be from 0 to below 30 s, after which nodes give up, got {hold}; leave it out.")
        self.app, self.hold, self.held = app, hold, 0
        self._pushed = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; hold it where it is a question without an answer."""
        path = scope.get("path") if scope["type"] == "http" else None
        if path == PULL and _short(scope):
            await self._pull(scope, receive, send)
            return
        await self.app(scope, receive, send)
        if path in PUSH:
            self._pushed.set()
            self._pushed = asyncio.Event()

    async def _pull(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read(receive)
        if body is None:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + self.hold
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            while True:
                pushed = self._pushed  # taken before the question, so that a push during it is not missed
                answer = await self._ask(scope, body)
                if not _nothing(answer) or not await self._wait(pushed, gone, end - loop.time()):
                    break
            if not (gone.done() and _nothing(answer)):
                for event in answer:
                    await send(event)
        finally:
            gone.cancel()

    async def _wait(self, pushed: asyncio.Event, gone: "asyncio.Future[None]", seconds: float) -> bool:
        """Wait for a push, and return whether to ask again."""
        news = asyncio.ensure_future(pushed.wait())
        either: set[asyncio.Future[Any]] = {news, gone}
        self.held += 1
        try:
            await asyncio.wait(either, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
            if not news.done() or gone.done():
                return False
            pause = max(SETTLE, self.held / ASKED_PER_SECOND)
            await asyncio.wait({gone}, timeout=pause)
            return not gone.done()
        finally:
            self.held -= 1
            news.cancel()

    async def _ask(self, scope: Scope, body: bytes) -> list[Event]:
        """Put the question to the SuperLink, and return its answer."""
        answer: list[Event] = []
        question: list[Event] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Event:
            if question:
                return question.pop()
            return await asyncio.Future()  # nothing more comes; who listens for a hang-up is cancelled at the end

        async def send(event: Event) -> None:
            answer.append(event)

        await self.app({**scope, "state": dict(scope.get("state") or {})}, receive, send)
        return answer


def _short(scope: Scope) -> bool:
    """Return whether a request says that it is short."""
    length = dict(scope.get("headers") or ()).get(b"content-length", b"")
    return length.isdigit() and int(length) <= LARGEST


async def _read(receive: Receive) -> bytes | None:
    """Return the body of a request, None where its sender hung up before it was complete."""
    body = b""
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        body += event.get("body", b"")
        if not event.get("more_body", False):
            return body


async def _disconnected(receive: Receive) -> None:
    """Return when the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _nothing(answer: list[Event]) -> bool:
    """Return whether an answer is a success without content: no messages."""
    status = next((event["status"] for event in answer if event["type"] == "http.response.start"), None)
    return status == 200 and not any(event.get("body") for event in answer)
