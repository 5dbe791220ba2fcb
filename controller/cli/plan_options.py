"""The options of ``sweep`` and ``plan`` that decide a plan, and what they are turned into."""

from __future__ import annotations

import math
import re
import secrets
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from controller.arms import aa_arms, build_arms, parse_steps
from controller.cli.options import whole_numbers
from controller.exits import InputError
from controller.load.chat_format import FORMATS
from controller.plan import DEFAULT_MARGIN
from controller.sweep.options import DEFAULT_BLOCKS, DEFAULT_WORKLOAD, SIMULATED_BLOCKS, Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.arms import Arm


def _complete_arms_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the files that come along by their names, else whatever files the shell finds: bash shows one kind."""
    from controller.arms_file import shipped  # noqa: PLC0415 - pydantic costs too much for every call

    names = [CompletionItem(name) for name in shipped() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


PLAN_OPTIONS = (
    click.option("--steps", help="Draft steps to measure, for example 2,3. Each is an arm."),
    click.option("--no-baseline", is_flag=True, help="Leave out the arm without speculation (then no verdict)."),
    click.option("--adaptive", is_flag=True, help="Add an arm in which the server chooses the steps itself."),
    click.option(
        "--arm",
        "extra_arms",
        multiple=True,
        metavar="NAME=KEY:VALUE,…",
        help="Add an arm. KEY: --server-flag, ENVIRONMENT_VARIABLE, sglang_server_* variable or steps; an empty VALUE "
        "takes a flag or variable of the inventory away. Repeatable.",
    ),
    click.option(
        "--arms-file",
        "arms_files",
        multiple=True,
        metavar="FILE",
        shell_complete=_complete_arms_file,
        help="Add the arms of a YAML file, or of one in plans/ by its name. Repeatable.",
    ),
    click.option(
        "--aa", is_flag=True, help="Measure the noise floor: two equal arms without speculation. Later sweeps use it."
    ),
    click.option(
        "--blocks",
        type=click.IntRange(1, 1000),
        help=f"Launches per arm  [default: {DEFAULT_BLOCKS}; {SIMULATED_BLOCKS} on a simulated node]",
    ),
    click.option(
        "--max-blocks", type=click.IntRange(1, 1000), help="Add blocks while an arm is undecided, up to this many."
    ),
    click.option(
        "--budget",
        metavar="TIME",
        help="Add nothing that would end after so much work, such as 2h or 90m; alone it allows 4 times --blocks.",
    ),
    click.option(
        "--confirm-blocks",
        type=click.IntRange(1, 100),
        default=2,
        show_default=True,
        help="Fresh blocks of winner and baseline when an arm pays.",
    ),
    click.option("--no-confirm", is_flag=True, help="Do not launch the winner again."),
    click.option(
        "--margin",
        type=click.FloatRange(0.001, 0.5),
        default=DEFAULT_MARGIN,
        show_default=True,
        help="Relative difference that matters.",
    ),
    click.option(
        "--aa-noise",
        type=click.FloatRange(0, 0.5),
        help="Noise floor to use as margin when it is larger  [default: what --aa measured on this node]",
    ),
    click.option(
        "--repeats", type=click.IntRange(1, 1000), default=1, show_default=True, help="Runs inside each launch."
    ),
    click.option(
        "--workload",
        default=DEFAULT_WORKLOAD,
        show_default=True,
        help="Built-in workload, or a file with one prompt a line.",
    ),
    click.option(
        "--chat-format",
        type=click.Choice(sorted(FORMATS)),
        help="How messages become one text  [default: kimi-k2 for a Kimi K2 target, else plain]",
    ),
    click.option("--output-tokens", type=click.IntRange(2, 1_000_000), help="Length limit of an answer."),
    click.option("--prompts-per-run", type=click.IntRange(1, 100_000), help="Prompts of one run."),
    click.option(
        "--concurrency",
        default="1",
        show_default=True,
        help="Requests in flight; several levels, measured in each launch, as 1,8,32.",
    ),
    click.option("--seed", type=click.IntRange(0), help="Orders arms and prompts; chosen and recorded when not given."),
    click.option(
        "--max-running-requests",
        type=click.IntRange(1),
        help="The same in all arms: speculation alone would lower it  [default: 16, or the largest concurrency]",
    ),
    click.option(
        "--cuda-graph-max-bs",
        type=click.IntRange(1),
        help="Largest batch with a CUDA graph, the same in all arms  [default: --max-running-requests]",
    ),
)
_BUDGET = re.compile(r"(?=.)(?:(?P<h>[0-9]+(?:\.[0-9]+)?)h)?(?:(?P<m>[0-9]+)m)?(?:(?P<s>[0-9]+)s)?")


def plan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that decide the plan."""
    for option in reversed(PLAN_OPTIONS):
        function = option(function)
    return function


def read_options(arguments: dict[str, Any]) -> Options:
    """Return what the options ask for.

    Raises:
        InputError: they make no sense alone or together.
    """
    seed, budget = arguments["seed"], arguments["budget"]
    for name in ("margin", "aa_noise"):
        if math.isnan(arguments[name] or 0.0):  # which is in every range, as click looks at it
            raise InputError(f"--{name.replace('_', '-')} is not a number; give a relative difference such as 0.02.")
    return Options(
        arms=_arms(arguments),
        blocks=arguments["blocks"] or (DEFAULT_BLOCKS if arguments["aa"] else None),
        repeats=arguments["repeats"],
        seed=secrets.randbelow(2**31) if seed is None else seed,
        workload=arguments["workload"],
        output_tokens=arguments["output_tokens"],
        prompts_per_run=arguments["prompts_per_run"],
        concurrency=whole_numbers("--concurrency", arguments["concurrency"]),
        max_running_requests=arguments["max_running_requests"],
        cuda_graph_max_bs=arguments["cuda_graph_max_bs"],
        max_blocks=arguments["max_blocks"],
        budget_s=None if budget is None else seconds("--budget", budget),
        confirm_blocks=0 if arguments["no_confirm"] else arguments["confirm_blocks"],
        margin=arguments["margin"],
        aa_noise=arguments["aa_noise"],
        aa=arguments["aa"],
        chat_format=arguments["chat_format"],
    )


def _arms(arguments: dict[str, Any]) -> tuple[Arm, ...]:
    steps = () if arguments["steps"] is None else parse_steps(arguments["steps"])
    asked = bool(steps or arguments["adaptive"] or arguments["extra_arms"] or arguments["arms_files"])
    if arguments["aa"]:
        if asked or arguments["no_baseline"] or arguments["max_blocks"] or arguments["budget"]:
            raise InputError(
                "--aa measures two equal arms without speculation and nothing else; leave out --steps, --adaptive, "
                "--arm, --arms-file, --no-baseline, --max-blocks and --budget."
            )
        return aa_arms()
    if not asked:
        raise InputError(
            "nothing to compare: give --steps (for example --steps 2,3), --adaptive, --arm or --arms-file."
        )
    return build_arms(
        steps,
        with_baseline=not arguments["no_baseline"],
        adaptive=arguments["adaptive"],
        extra=arguments["extra_arms"],
        from_files=_arms_of_files(arguments["arms_files"]),
    )


def _arms_of_files(names: tuple[str, ...]) -> list[Arm]:
    """Read the files; pydantic costs too much to import it for a sweep without one."""
    if not names:
        return []
    from controller.arms_file import read_arms  # noqa: PLC0415

    return read_arms(names)


def seconds(option: str, text: str) -> float:
    """Parse ``2h``, ``90m``, ``1h30m`` or ``45s`` into seconds.

    Raises:
        InputError: it is something else, or nothing.
    """
    found = _BUDGET.fullmatch(text.strip())
    parts = found.groupdict(default="0") if found else {}
    value = float(parts.get("h", 0)) * 3600 + float(parts.get("m", 0)) * 60 + float(parts.get("s", 0))
    if value <= 0:
        raise InputError(f"{option}: {text!r} is not a time; write it as 2h, 90m or 1h30m.")
    return value
