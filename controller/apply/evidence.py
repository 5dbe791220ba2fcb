"""From a sweep directory and a target to what ``apply`` deploys: the arm, its variables, what its canary must show."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.apply.base_variables import variables_without_ours
from controller.apply.canary import Expectation, ask, judge
from controller.apply.change import Change
from controller.apply.choice import Choice, choose
from controller.apply.errors import RefusedError
from controller.apply.history import date, whoever
from controller.apply.host_vars import HostVars, rendered, settings_in
from controller.apply.ports import Proof
from controller.exits import InputError
from controller.keys import read_keys
from controller.paths import display
from controller.redaction import REDACTED, redact
from controller.report.numbers import interval, plain
from controller.report.sentences import verdict_sentence
from controller.sweep.configuration import Configuration, sentence
from controller.sweep.http_load import HttpLoad
from controller.sweep.measuring import time_scale_of
from controller.sweep.prepare import frozen_workload
from controller.sweep.results import analyse, launches, read_sweep
from controller.sweep.settings import extra_vars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from controller.analysis.result import ArmAnalysis, SweepAnalysis
    from controller.apply.ports import DeploymentWatcher
    from controller.inventory import Target
    from controller.load.workload import Workload
    from controller.plan import Plan
    from controller.sweep.ports import LoadGenerator
    from controller.sweep.state import SweepState

OF_THE_SWEEP = ("sglang_server_log_file", "sglang_server_owner", "sglang_server_restart")
"""What a sweep adds to every launch for its own sake."""
OPAQUE = ("__ansible_vault", "__ansible_unsafe", REDACTED)
"""How ansible-inventory shows values that it does not hand out as they are, and a plan those that it does not keep."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A variable that changes."""

    name: str
    now: Any
    then: Any

    @property
    def sentence(self) -> str:
        """Old and new value; a variable that is taken out falls back to what the inventory says elsewhere."""
        now, then = json.dumps(redact(self.now)), json.dumps(redact(self.then))
        then = "as the rest of the inventory says" if self.then is None else then
        return f"{self.name}: {'not set' if self.now is None else now} -> {then}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sweep that was read for one target (:func:`read_evidence`), and the arm that was chosen of it."""

    directory: Path
    plan: Plan
    state: SweepState
    analysis: SweepAnalysis
    workload: Workload
    choice: Choice

    def change(self, target: Target, host_vars: HostVars, *, forced: bool) -> Change:
        """Return what is to be deployed: every variable that the launches of the arm had in common.

        Raises:
            InputError: a variable of it is set by hand for the host, or holds a secret that cannot be copied.
        """
        name = str(self.choice.arm)
        cell = next(cell for cell in self.plan.cells if cell.arm == name)
        arm = self.plan.arm(name)
        merges = bool(arm.flags or arm.environment)
        variables = variables_without_ours(target, host_vars) if merges else target.variables
        values = extra_vars(self.plan, cell, 1, variables)
        settings = {name: value for name, value in values.items() if name not in OF_THE_SWEEP}
        if any(mark in json.dumps(settings) for mark in OPAQUE):
            raise InputError(
                f"{name} adds to flags or environment variables that hold an encrypted or secret value, which apply "
                "does not copy in clear; write them into the inventory by hand."
            )
        if by_hand := host_vars.set_by_hand(settings.keys()):
            places = "; ".join(one.sentence for one in by_hand)
            raise InputError(f"set by hand for {target.host}: {places}. Take it out there, so that one place decides.")
        about = {
            "sweep_id": self.plan.sweep_id,
            "sweep_directory": str(self.directory.resolve()),
            "arm": name,
            "verdict": self.choice.verdict,
            "forced": forced,
            "simulated": self.plan.simulated,
        }
        return Change(rendered(settings, self._comment(name, forced=forced)), settings, about)

    def differences(self, change: Change, target: Target, host_vars: HostVars) -> list[Difference]:
        """Return which variables of the inventory change."""
        held = settings_in(host_vars.read(), host_vars.path)
        names = [*change.settings, *(name for name in held if name not in change.settings)]
        pairs = [(name, target.variables.get(name), change.settings.get(name)) for name in names]
        return [Difference(*pair) for pair in pairs if pair[1] != pair[2]]

    def prove(self, target: Target) -> Canary:
        """Return the canary of the chosen arm."""
        name = str(self.choice.arm)
        arms = [arm for level in self.analysis.levels for arm in level.arms if arm.arm == name]
        expectation = Expectation(
            arm=name,
            launches=launches(self.plan, self.state),
            baseline=self.analysis.baseline,
            confidence=self.analysis.confidence,
            margin=self.analysis.margin,
            # Launches name their host where several were measured.
            host="" if not self.plan.hosts or self.state.measured_hosts == [target.host] else target.host,
            outputs_must_agree=not any(arm.outputs is not None and arm.outputs.differs for arm in arms),
        )
        keys = read_keys(target)
        load = HttpLoad(self.workload, keys.api_key, keys.admin_api_key)
        known = self.state.host(target.host).configuration if self.plan.hosts else self.state.configuration
        return Canary(expectation, load, known)

    def _comment(self, name: str, *, forced: bool) -> str:
        simulated = " Every figure is a simulated one." if self.plan.simulated else ""
        lines = [f"Sweep {self.plan.sweep_id}: arm {name}, {self.choice.verdict}.{simulated}"]
        for level in self.analysis.levels:
            for arm in (arm for arm in level.arms if arm.arm == name):
                lines += _figures(arm, level.concurrency, self.analysis.margin)
        if forced:
            lines.append(f"FORCED, although: {' '.join(self.choice.objections)}")
        lines.append(f"Applied {date(time.time())} by {whoever()}. All of them: python -m controller history")
        return "\n".join(lines)


@dataclass(slots=True)
class Canary:
    """Asks a server that was just launched and compares it with the sweep (a ``controller.apply.ports.Prover``)."""

    expectation: Expectation
    load: LoadGenerator
    configuration: Configuration = field(repr=False)
    """What the launches of the sweep had in common."""

    def __call__(self, health: Mapping[str, Any], watcher: DeploymentWatcher) -> Proof:
        """Measure and judge."""
        scale = time_scale_of(health.get("server") or {})
        records = ask(self.load, str(health["url"]), scale, on_part=watcher.step, on_tokens=watcher.tokens)
        launch = dict(health.get("launch") or {})
        differences = self.configuration.launch_differences(self.expectation.arm, launch)
        notes = [f"it was launched otherwise than in the sweep: {sentence(differences)}"] if differences else []
        return Proof(judge(records, self.expectation), notes)


def read_evidence(directory: Path, target: Target, asked: str | None, *, force: bool) -> Evidence:
    """Read a sweep and choose the arm to deploy on a target.

    Raises:
        InputError: there is no sweep, it measured another machine, its prompts are not those it froze, or it has no
            such arm.
        RefusedError: the evidence does not support the arm, and ``force`` is not given.
        JournalError: its journal is damaged.
    """
    plan, state = read_sweep(directory)
    if plan.aa:
        raise InputError(f"{display(directory)} is an A/A sweep: it measured the noise of the node, no arm to deploy.")
    if target.host not in (plan.hosts or (plan.limit,)) or target.simulated != plan.simulated:
        raise InputError(
            f"the sweep in {display(directory)} measured {plan.limit}{' (simulated)' if plan.simulated else ''}, not "
            f"{target.title}: what one machine showed is not applied to another. Give its inventory with --inventory."
        )
    names = [arm.name for arm in plan.arms]
    if asked is not None and asked not in names:
        raise InputError(f"--arm {asked}: the sweep in {display(directory)} has {', '.join(names)}.")
    if not state.has_results:
        raise InputError(f"the sweep in {display(directory)} has measured nothing yet.")
    workload = frozen_workload(plan, directory)
    analysis = analyse(plan, state)
    choice = choose(analysis, asked)
    objections = (*_unfinished(directory, plan, state), *choice.objections)
    choice = Choice(choice.arm, choice.verdict, objections, choice.no_change)
    if choice.arm is None and force and not choice.no_change:
        raise InputError(f"--force needs --arm here: the sweep names no arm to deploy ({', '.join(names)}).")
    if objections and not force:
        again = "--arm NAME --force" if choice.arm is None else "--force"
        way_out = f" To serve without speculation: --arm {analysis.baseline}." if analysis.baseline else ""
        raise RefusedError(
            f"not deployed, nothing was changed: {' '.join(objections)}{way_out} To deploy it all the same: {again}."
        )
    if choice.arm is not None and not any(cell.arm == choice.arm for cell in plan.cells):
        raise InputError(f"--arm {choice.arm}: the sweep in {display(directory)} has no launch of it.")
    return Evidence(directory, plan, state, analysis, workload, choice)


def _unfinished(directory: Path, plan: Plan, state: SweepState) -> Iterator[str]:
    left = sum(not state.cell(cell.cell_id).state.has_result for cell in plan.cells)
    if left:
        yield (
            f"The sweep is not finished: {left} of {len(plan.cells)} launches are missing; go on with "
            f"python -m controller sweep --resume {display(directory)}."
        )


def _figures(arm: ArmAnalysis, concurrency: int, margin: float) -> Iterator[str]:
    """Yield what the sweep says of an arm at one concurrency, for the comment."""
    if arm.verdict is not None:
        yield f"Concurrency {concurrency}: {verdict_sentence(arm, margin)}"
    cycle = interval(arm.cycle_s, 1, 1000) if arm.cycle_s else "-"
    length = interval(arm.acceptance_length) if arm.acceptance_length else "-"
    rate = interval(arm.tokens_per_s, 1) if arm.tokens_per_s else plain(None)
    yield f"Concurrency {concurrency}: {rate} tok/s, L {length}, C {cycle} ms."
