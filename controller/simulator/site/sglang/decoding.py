"""The scheduler's loop: prefill, decode steps on a schedule, acceptance, log lines, results.

One loop serves the whole batch, as in the real scheduler: a step takes a time that depends on the batch, and nobody
gets a token in between. Every step ends at a point of a monotonic schedule; a late wake-up shortens the next wait, so
errors of sleeping do not add up.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from .adaptive import AdaptiveSteps, candidate_steps
from .collective import Collective
from .decode_statistics import DecodeStatistics
from .failures import raise_crash
from .speed import Acceptance, SpeedModel, noise

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from .log import Log
    from .node import Node


_LATE_S = 1.0
"""A schedule that is further behind than this stood still, and nothing of that is made up for."""

_FORCED_OUTPUT = 50
"""A request that is not streamed is passed on when it has a multiple of so many tokens."""


class Request:
    """One request inside the scheduler."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.rid: str = message["rid"]
        self.prompt_tokens: int = message["prompt_tokens"]
        self.cached_tokens: int = message["cached_tokens"]
        self.limit: int = message["limit"]
        self.stop_at: int = message["stop_at"]
        self.stream: bool = message["stream"]
        self.completion_tokens = 0
        self.verify_steps = 0
        self.histogram: list[int] = []
        self.factor = 1.0
        self.acceptance: Acceptance | None = None
        self.first_token_at = 0.0

    def draw(self, steps: int) -> int:
        """Return how many drafts the next decode step accepts, of so many proposed."""
        return 0 if self.acceptance is None else self.acceptance.draw(steps)

    def accept(self, steps: int = 0) -> int:
        """Do one decode step with so many draft steps and return how many tokens it made.

        The last step may make more than the request keeps. SGLang counts them as accepted all the same.
        """
        accepted = self.draw(steps)
        if self.acceptance is not None:
            self.verify_steps += 1
            self.histogram += [0] * (accepted + 1 - len(self.histogram))
            self.histogram[accepted] += 1
        self.completion_tokens = min(self.completion_tokens + accepted + 1, self.limit, self.stop_at)
        return accepted + 1

    def finish_reason(self) -> dict[str, Any] | None:
        """Return why this request has ended, None while it has not."""
        if self.completion_tokens < min(self.limit, self.stop_at):
            return None
        if self.stop_at <= self.limit:
            return {"type": "stop", "matched": 163586}
        return {"type": "length", "length": self.limit}


class DecodeLoop:
    """Serves requests that arrive on a pipe until the other end is closed.

    Args:
        fields: resolved ``ServerArgs``.
        node: the simulated machine.
        launch: number of this launch, see ``Node.next_launch``.
        info: what ``Startup.run`` returned.
        connection: pipe to the launcher.
        log: log of rank 0.
    """

    def __init__(
        self, fields: dict[str, Any], node: Node, *, launch: int, info: dict[str, Any], connection: Connection, log: Log
    ) -> None:
        self._node = node
        self._connection = connection
        self._log = log
        self._launch = launch
        self._faults = node.faults
        self._model = SpeedModel.from_dict(node.speed)
        self._steps: int | None = None
        self._most_steps = 0
        self._adaptive: AdaptiveSteps | None = None
        if fields["speculative_adaptive"]:
            self._adaptive = AdaptiveSteps(fields, log)
            self._steps = self._adaptive.steps
            self._most_steps = candidate_steps(fields["speculative_adaptive_config"])[-1]
        elif fields["speculative_algorithm"] is not None and fields["speculative_num_steps"] > 0:
            self._steps = self._most_steps = fields["speculative_num_steps"]
        graphs = fields["cuda_graph_config"]
        self._eager_prefill = graphs["prefill"]["backend"] == "disabled"
        self._max_running: int = info["max_running_requests"]
        self._launch_factor = noise(node.random("launch", launch), self._model.launch_sd)
        if launch == self._faults.lucky_launch:
            self._launch_factor *= self._faults.lucky_factor
        self._runs = 0
        self._served = 0
        self._run_factor = 1.0
        self._next_run()
        self._waiting: list[Request] = []
        self._running: list[Request] = []
        self._prefilling: list[Request] = []
        # Finished, but in the step that was begun before that was known (overlap scheduling).
        self._overtaken: list[Request] = []
        self._overlap = not fields["disable_overlap_schedule"]
        self._collective = Collective(os.getppid())
        self._deadline = 0.0
        self._busy = False
        self._shut_down = False
        self._prefills = 0
        self._statistics = DecodeStatistics(
            log,
            pool_tokens=info["max_total_num_tokens"],
            interval=fields["decode_log_interval"],
            steps=self._steps,
            prefill_graph=not self._eager_prefill,
            largest_graph=0 if graphs["decode"]["backend"] == "disabled" else max(graphs["decode"]["bs"]),
        )

    def run(self) -> None:
        """Serve until the launcher is gone or asks for the end.

        Raises:
            EOFError: the launcher is gone.
        """
        while not self._shut_down:
            timeout = max(self._deadline - time.monotonic(), 0.0) if self._busy else None
            if self._connection.poll(timeout):
                self._receive(self._connection.recv())
                if not self._busy:
                    self._deadline = time.monotonic()
                    self._begin_step()
            elif self._busy:
                self._collective.wait()
                self._deadline = max(self._deadline, time.monotonic() - _LATE_S)
                self._end_step()
                self._begin_step()

    def _receive(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "generate":
            self._enqueue(message)
        elif kind == "abort":
            for queue in (self._waiting, self._running, self._prefilling):
                queue[:] = [request for request in queue if request.rid != message["rid"]]
        elif kind == "flush":
            self._next_run()
            self._overtaken = []
            self._statistics.reset()
            self._log("Cache flushed successfully!")
            self._connection.send({"kind": "flushed"})
        else:
            self._shut_down = True

    def _next_run(self) -> None:
        # Benchmarks flush the cache between their runs, so this is where conditions may differ from run to run.
        self._runs += 1
        self._run_factor = noise(self._node.random("run", self._launch, self._runs), self._model.run_sd)

    def _enqueue(self, message: dict[str, Any]) -> None:
        phase = "warmup" if message["warmup"] else "serving"
        if self._faults.crash_phase == phase:
            raise_crash(phase)
        if self._faults.hang_phase == phase:
            return
        request = Request(message)
        request.factor = noise(self._node.random("request", self._launch, self._served), self._model.request_sd)
        if not message["warmup"] and not message["probe"]:
            request.factor *= 1.0 + self._faults.drift * self._served
            if self._served < self._faults.slow_first_count:
                request.factor *= self._faults.slow_first_factor
            self._served += 1
        if self._steps is not None:
            request.acceptance = self._acceptance(message)
        self._waiting.append(request)

    def _acceptance(self, message: dict[str, Any]) -> Acceptance:
        # Greedy decoding gives the same text and the same drafts on every launch, hence the same acceptance.
        steps = self._most_steps
        draws = self._node.random("acceptance", steps, message["seed"], *message["draws"])
        difficulty = self._node.random("prompt", message["seed"]).gauss(1.0, self._model.prompt_sd)
        return Acceptance(self._model, steps, draws, 0.0 if self._faults.dead_draft else max(difficulty, 0.0))

    def _begin_step(self) -> None:
        """Choose what runs next and when it ends: waiting prompts first, then a decode step of all that run."""
        room = self._max_running - len(self._running)
        if self._waiting and room > 0:
            self._prefilling, self._waiting = self._waiting[:room], self._waiting[room:]
            self._overtaken = []
            new = sum(request.prompt_tokens - request.cached_tokens for request in self._prefilling)
            self._statistics.prefill(self._prefilling, len(self._running), len(self._waiting))
            seconds = self._model.prefill_seconds(new) * self._eager_factor()
            batch = self._prefilling
        elif self._running or self._overtaken:
            batch = self._running + self._overtaken
            if self._adaptive is not None:
                self._adaptive.begin(len(batch))
                self._follow(self._adaptive)
            seconds = self._model.step_seconds(self._steps, len(batch))
        else:
            self._busy = False
            return
        seconds *= self._launch_factor * self._run_factor * sum(r.factor for r in batch) / len(batch)
        self._busy = True
        self._deadline += seconds * self._node.time_scale

    def _eager_factor(self) -> float:
        """Return what a prefill without a graph takes more or less than usual."""
        if not self._eager_prefill:
            return 1.0
        self._prefills += 1
        spread = self._model.eager_prefill_sd
        launch = noise(self._node.random("eager prefill", self._launch), spread)
        return launch * noise(self._node.random("eager prefill", self._launch, self._prefills), spread)

    def _follow(self, adaptive: AdaptiveSteps) -> None:
        self._steps = self._statistics.steps = adaptive.steps

    def _end_step(self) -> None:
        heartbeat = False
        if self._prefilling:
            batch, self._prefilling = self._prefilling, []
            for request in batch:
                request.completion_tokens = 1
                request.first_token_at = self._deadline
            self._running += batch
        else:
            batch = self._running
            heartbeat = self._decode_all(batch)
        updates = []
        for request in batch:
            reason = request.finish_reason()
            if reason is not None or request.stream or request.completion_tokens % _FORCED_OUTPUT == 0:
                updates.append(self._update(request, reason))
        finished = [request for request in self._running if request.finish_reason() is not None]
        self._overtaken = finished if self._overlap else []
        self._running = [request for request in self._running if request.finish_reason() is None]
        if updates or heartbeat:
            self._connection.send({"kind": "batch", "updates": updates, "statistics": self._statistics.snapshot()})

    def _decode_all(self, batch: list[Request]) -> bool:
        """Do a decode step of the batch and say whether it is a sign of life for health checks that wait."""
        steps = self._steps or 0
        made = [request.accept(steps) for request in batch]
        made += [request.draw(steps) + 1 for request in self._overtaken]
        if not made:
            return False  # whoever it was begun for has left meanwhile
        self._statistics.tokens(made)
        if self._adaptive is not None:
            self._adaptive.verified([tokens - 1 for tokens in made])
            self._follow(self._adaptive)
        return self._statistics.step(batch + self._overtaken, len(self._waiting), self._deadline)

    def _update(self, request: Request, reason: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "rid": request.rid,
            "completion_tokens": request.completion_tokens,
            "finish_reason": reason,
            "verify_steps": request.verify_steps,
            "histogram": request.histogram,
            "decode_seconds": self._deadline - request.first_token_at,
        }
