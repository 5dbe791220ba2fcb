"""The loop: threads bring events, one loop takes them in, asks Ansible when it must, and shows what is known."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from typing import TYPE_CHECKING

from controller.watch.ask import ask
from controller.watch.events import KeyPressed, TargetAsked
from controller.watch.server import ServerPoller
from controller.watch.stream import TargetStream
from controller.watch.words import log_file

if TYPE_CHECKING:
    from pathlib import Path

    from controller.sweep.ports import PlaybookRunner
    from controller.watch.events import Access, Event
    from controller.watch.state import Watched

GPU_EVERY_S = 15.0


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between two looks at the server and at the GPUs."""

    server_s: float = 1.0
    gpus_s: float = GPU_EVERY_S


class Watcher:
    """Watches one target until it is closed.

    Args:
        watched: takes the events.
        playbooks: runs Ansible.
        directory: for Ansible's files.
        api_key: for ``/server_info``.
        pace: how often to look.
    """

    def __init__(
        self, watched: Watched, playbooks: PlaybookRunner, directory: Path, api_key: str | None, pace: Pace
    ) -> None:
        self.watched = watched
        self._playbooks = playbooks
        self._directory = directory
        self._api_key = api_key
        self._pace = pace
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._asking: threading.Thread | None = None
        self._poller: ServerPoller | None = None
        self._stream: TargetStream | None = None
        self._followed: Access | None = None

    def put(self, event: Event) -> None:
        """Hand an event to the loop, from any thread."""
        self._queue.put(event)

    def turn(self, wait_s: float) -> list[str]:
        """Take in what happens within ``wait_s`` seconds; return at once on a key, with the keys pressed."""
        if self.watched.wants_asking(time.monotonic()) and not self._is_asking():
            self._asking = threading.Thread(target=self._ask, name="watch-ask", daemon=True)
            self._asking.start()
        deadline = time.monotonic() + wait_s
        while True:
            try:
                event = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return []
            if isinstance(event, KeyPressed):
                return [event.key]
            self.watched.take(event, time.monotonic())
            if isinstance(event, TargetAsked):
                self._follow()

    def look_once(self, patience_s: float) -> None:
        """Ask everything once; what has not answered after ``patience_s`` seconds stays unknown."""
        self.watched.take(ask(self._playbooks, self._directory), time.monotonic())
        access = self.watched.access
        if access is None:
            return
        stream = TargetStream(self._of_this_launch(access), self._pace.gpus_s, self.put, mode="once")
        stream.start()
        poller = ServerPoller(access.url, self._api_key, self._pace.server_s, self.put)
        for _ in range(2):  # one look may meet a bad moment, two are an answer
            poller.look()
            if self.watched.health.get("ready") is not True:
                break
        stream.join(patience_s)
        stream.stop()
        while not self._queue.empty():
            self.watched.take(self._queue.get(), time.monotonic())

    def close(self) -> None:
        """End the threads and the connection; Ansible, if it is at work, is cancelled."""
        self._closing.set()
        if self._stream is not None:
            self._stream.stop()
        if self._poller is not None:
            self._poller.stop()
        for thread in (self._asking, self._stream, self._poller):
            if thread is not None:
                thread.join(5.0)

    def _is_asking(self) -> bool:
        return self._asking is not None and self._asking.is_alive()

    def _ask(self) -> None:
        answer = ask(self._playbooks, self._directory, cancelled=self._closing.is_set)
        if not self._closing.is_set():
            self.put(answer)

    def _follow(self) -> None:
        """Look at the server and follow the log that Ansible named; another log means another connection."""
        access = self.watched.access
        if access is None:
            return
        if self._poller is None:
            self._poller = ServerPoller(access.url, self._api_key, self._pace.server_s, self.put)
            self._poller.start()
        wanted = self._of_this_launch(access)
        if wanted == self._followed:
            return
        if self._stream is not None:
            self._stream.stop()
        self._followed = wanted
        self._stream = TargetStream(wanted, self._pace.gpus_s, self.put)
        self._stream.start()

    def _of_this_launch(self, access: Access) -> Access:
        """Return the access with the log that the launch record names, which may differ from the inventory's."""
        return dataclasses.replace(access, log_file=log_file(self.watched))
