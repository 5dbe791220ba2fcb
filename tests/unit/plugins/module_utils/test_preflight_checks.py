"""The preflight's pure checks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_argument_checks as arguments
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_driver_checks as driver
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_package_checks as packages
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_system_checks as system
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_check import (
    as_rows,
    failed,
    failures,
    passed,
    sentence,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_command_line import parse_command_line
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_flags import (
    eagle3_target_since,
    known_flags,
    parse_help,
    problem_with,
    translation,
)

Verdict = tuple[bool | None, str]
GOLDEN = (
    "/root/ml-env/bin/python3 -m sglang.launch_server --model-path /m --trust-remote-code --tp-size 8 --port 8000"
    " --speculative-algorithm EAGLE3 --speculative-draft-model-path /d --speculative-eagle-topk 1"
    " --speculative-num-draft-tokens 4 --speculative-num-steps 3"
)
ERROR, WARNING = (False, "error"), (False, "warning")


def verdict(check: Any) -> Verdict:
    return check.ok, check.severity


def command(extra: str = "", base: str = GOLDEN) -> Any:
    return parse_command_line(f"{base} {extra}".split())


def test_command_line() -> None:
    line = command("--tp 4 --port=9 --lora-paths a b")
    assert (line.python, line.tensor_parallel_size, line.number("--port")) == ("/root/ml-env/bin/python3", 4, 9)
    assert line.text("--lora-paths") == "a b"
    assert line.number("--model-path") is None
    assert parse_command_line([]).tensor_parallel_size == 1
    assert line.local_ranks == 4
    assert parse_command_line(["python", "-m", "x", "--tp-size", "16", "--nnodes", "2"]).local_ranks == 8


def test_rows() -> None:
    rows = as_rows([failed("a", "it is", "do"), failed("b", "it is", "do"), passed("c", "fine")], "h", ["a"])
    assert [row["name"] for row in failures(rows, "error")] == ["b"]
    assert [row["name"] for row in failures(rows, "warning")] == ["a"]
    assert sentence(rows[1]) == "b (h): it is: do."


@pytest.mark.parametrize(
    ("version", "old", "new"),
    [("0.5.13", True, False), ("0.5.14", True, True), ("0.5.19", True, True), ("0.5.20", False, True)],
)
def test_the_renamed_flag(version: str, old: bool, new: bool) -> None:
    flags = known_flags(version)
    assert flags is not None
    assert ("--cuda-graph-max-bs" in flags, "--cuda-graph-max-bs-decode" in flags) == (old, new)


def test_versions_that_are_known_and_not() -> None:
    assert known_flags("0.5.15+cu130") == known_flags("0.5.15")
    assert known_flags("0.5.15.post7") == known_flags("0.5.15.post1")
    assert known_flags("0.6.0") is None
    assert known_flags("main") is None
    assert eagle3_target_since("KimiK25ForConditionalGeneration") == "0.5.10"
    assert eagle3_target_since("Nothing") is None


def test_flag_problems() -> None:
    flags = frozenset({"--tp-size", "--cuda-graph-max-bs-decode", "--cuda-graph-max-bs-prefill"})
    assert problem_with("--tp", flags) == ""
    assert "ambiguous" in problem_with("--cuda-graph-max-bs", flags)
    assert problem_with("--bogus", flags) == "--bogus is not known"
    assert translation("--cuda-graph-max-bs", flags) == "--cuda-graph-max-bs-decode"
    assert translation("--cuda-graph-max-bs-decode", frozenset({"--cuda-graph-max-bs"})) == "--cuda-graph-max-bs"
    text = "usage: x [--no]\n\noptions:\n  -h, --help  show\n  --a A, --bb A   text --not\n      more --not\n"
    assert parse_help(text) == {"--help", "--a", "--bb"}


def test_check_flags() -> None:
    flags = known_flags("0.5.22")
    assert verdict(arguments.check_flags(command(), "0.5.22", flags, "data")) == (True, "error")
    assert arguments.check_flags(command(), None, None, "").ok is None
    renamed = arguments.check_flags(command("--cuda-graph-max-bs 8"), "0.5.22", flags, "data")
    assert verdict(renamed) == ERROR
    assert renamed.remedy == "set sglang_server_cuda_graph_max_bs_flag: --cuda-graph-max-bs-decode"
    other = arguments.check_flags(command("--bogus"), "0.5.22", flags, "data")
    assert "sglang_server_extra_flags" in other.remedy


@pytest.mark.parametrize(
    ("old", "new", "extra", "version", "expected"),
    [
        ("", "", "", "0.5.15", (True, "error")),
        ("--speculative-algorithm EAGLE3", "", "", None, (None, "error")),
        ("--speculative-draft-model-path /d", "", "", None, ERROR),
        ("--speculative-eagle-topk 1", "", "", None, ERROR),
        ("--speculative-num-steps 3", "", "", None, ERROR),
        ("--speculative-num-steps 3", "--speculative-num-steps 0", "", None, ERROR),
        ("--speculative-num-draft-tokens 4", "--speculative-num-draft-tokens 8", "", None, WARNING),
        ("topk 1 --speculative-num-draft-tokens 4", "topk 2", "", None, ERROR),
        ("topk 1 --speculative-num-draft-tokens 4", "topk 2 --speculative-num-draft-tokens 12", "", None, ERROR),
        (
            "topk 1 --speculative-num-draft-tokens 4",
            "topk 2 --speculative-num-draft-tokens 8",
            "",
            None,
            (True, "error"),
        ),
        ("topk 1", "topk 2", "--speculative-adaptive", None, ERROR),
        ("", "", "--speculative-adaptive", "0.5.15", ERROR),
        ("", "", "--speculative-adaptive", "0.5.19", (True, "error")),
        ("", "", "--pp-size 2", None, ERROR),
        ("", "", "--weight-cache-mode x", "0.5.17", ERROR),
        ("", "", "--weight-cache-mode x", "0.5.16", (True, "error")),
    ],
)
def test_speculation(old: str, new: str, extra: str, version: str | None, expected: Verdict) -> None:
    line = command(extra, GOLDEN.replace(old, new) if old else GOLDEN)
    assert verdict(arguments.check_speculation(line, version, {})) == expected


def test_the_removed_switch() -> None:
    environment = {"SGLANG_ENABLE_SPEC_V2": "1"}
    assert verdict(arguments.check_speculation(command(), "0.5.14", environment)) == WARNING
    assert arguments.check_speculation(command(), "0.5.13", environment).ok is True


def found(torch: str = "2.11.0", cuda: str | None = "13.0", **versions: str) -> packages.Packages:
    names = {name.replace("_", "-"): version for name, version in versions.items()}
    requires = [
        "torch==2.11.0",
        "sglang-kernel==0.4.5",
        "flashinfer_python[cu13]==0.6.14",
        'x==1; extra == "y"',
        "z>=1",
    ]
    return packages.Packages("0.5.16", {"torch": torch, **names}, requires, cuda)


def test_packages() -> None:
    assert verdict(packages.check_sglang(packages.Packages(error="broken."), "p")) == ERROR
    assert verdict(packages.check_sglang(packages.Packages(), "p")) == ERROR
    assert packages.check_sglang(found(), "p").ok
    assert packages.check_pins(packages.Packages("0.5.15")).ok is None
    good = found("2.11.0+cu130", sglang_kernel="0.4.5", flashinfer_python="0.6.14")
    assert packages.check_pins(good).ok
    assert "torch is 2.9.1" in packages.check_pins(found("2.9.1")).detail
    both = found(sglang_kernel="0.4.5", flashinfer_python="0.6.14", sgl_kernel="0.3.21")
    assert "both installed" in packages.check_pins(both).detail


@pytest.mark.parametrize(
    ("cuda", "driver_version", "capability", "nccl", "expected"),
    [
        (None, "580.1", None, "", None),
        ("13.0", "570.1", None, "", False),
        ("12.8", "520.1", None, "", False),
        ("12.6", "580.1", (12, 0), "", False),
        ("12.8", "560.1", (12, 0), "", False),
        ("12.8", "580.1", (12, 0), "2.25.1", False),
        ("12.8", "580.1", (12, 0), "2.27.1", True),
        ("12.6", None, (9, 0), "", True),
    ],
)
def test_cuda(cuda: str | None, driver_version: str | None, capability: Any, nccl: str, expected: bool | None) -> None:
    extra = {"nvidia-nccl-cu12": nccl} if nccl else {}
    assert packages.check_cuda(found(cuda=cuda, **extra), driver_version, capability).ok is expected


def gpu(**values: str) -> dict[str, str]:
    return {"index": "0", "mig": "[N/A]", "driver": "580.95.05", "ecc": "0", **values}


def test_driver() -> None:
    facts = driver.DriverFacts
    assert driver.check_driver(facts()).ok is None
    assert driver.check_driver(facts(gpus=[gpu()])).detail == "driver 580.95.05"
    assert driver.check_driver(facts("580.1", "580.1")).ok
    assert verdict(driver.check_driver(facts("580.1", "580.2"))) == ERROR
    assert driver.check_driver(facts(smi_error="mismatch")).runbook == driver.SMI_RUNBOOK
    assert driver.check_gpu_count(facts(), 1).ok is None
    assert driver.check_gpu_count(facts(gpus=[gpu()]), 2).ok is False
    assert driver.check_gpu_count(facts(gpus=[gpu()]), 1).ok
    assert driver.check_mig(facts()).ok is None
    assert driver.check_mig(facts(gpus=[gpu()])).ok
    assert driver.check_mig(facts(gpus=[gpu(mig="Enabled")])).ok is False
    assert driver.check_ecc(facts(gpus=[gpu(ecc="[N/A]")])).ok is None
    assert driver.check_ecc(facts(gpus=[gpu()])).ok
    assert verdict(driver.check_ecc(facts(gpus=[gpu(ecc="3")]))) == WARNING


def account(**values: int) -> dict[str, int]:
    return {"index": 0, "ours_mib": 0, "foreign_mib": 0, "system_mib": 0, "unaccounted_mib": 0, **values}


def test_gpu_memory() -> None:
    def check(fail: bool = True, **values: int) -> Any:
        return driver.check_gpu_memory([account(**values)], ["vllm (pid 1)"], idle_mib=512, fail_on_foreign=fail)

    assert check().detail == "1 GPUs are free"
    assert "held by this server" in check(ours_mib=9000).detail
    assert verdict(check(foreign_mib=9000)) == ERROR
    assert verdict(check(fail=False, foreign_mib=9000)) == WARNING
    assert verdict(check(unaccounted_mib=9000)) == WARNING


def test_xid() -> None:
    assert driver.check_xid(None).ok is None
    assert driver.check_xid("all quiet").ok
    line = "[1.0] NVRM: Xid (PCI:0000:01:00): {}, pid=1\n"
    lost = driver.check_xid(line.format(13) * 2 + line.format(79))
    assert lost.detail.startswith("Xid 79")
    assert "power cycled" in lost.remedy
    assert "power" not in driver.check_xid(line.format(13)).remedy


def test_peer_path() -> None:
    facts = driver.PcieFacts
    assert driver.check_peer_path(facts(), 8).ok is None
    assert driver.check_peer_path(facts({"0000:01:00.0": "identity"}, []), 8).ok
    bad = facts({"0000:01:00.0": "DMA-FQ"}, ["0000:00:01.0"], hmm=True)
    check = driver.check_peer_path(bad, 8)
    assert verdict(check) == WARNING
    assert "IOMMU" in check.detail
    assert "ACS" in check.detail
    assert "HMM" in check.detail
    assert driver.check_peer_path(facts({"a": "DMA"}), 8).ok is False
    assert driver.check_peer_path(bad, 1).ok


def test_devices() -> None:
    nodes = {"/dev/nvidiactl": (195, ""), "/dev/nvidia-uvm": (511, ""), "/dev/nvidia0": (195, "")}
    majors = {"nvidia": 195, "nvidia-uvm": 511}
    assert system.check_devices(system.DeviceFacts(), 1).ok is None
    assert system.check_devices(system.DeviceFacts(majors, nodes), 1).ok
    assert "wants 2" in system.check_devices(system.DeviceFacts(majors, nodes), 2).detail
    other = system.check_devices(system.DeviceFacts({**majors, "nvidia-uvm": 238}, nodes), 1)
    assert "major number 511, the driver's is 238" in other.detail
    assert "modprobe" in system.check_devices(system.DeviceFacts({"nvidia": 195}, nodes), 1).remedy
    assert "missing" in system.check_devices(system.DeviceFacts(majors), 0).detail
    denied = {**nodes, "/dev/nvidia-uvm": (511, "Operation not permitted")}
    assert "cannot be opened" in system.check_devices(system.DeviceFacts(majors, denied), 1).detail


def test_memory_files_and_limits() -> None:
    assert system.check_shared_memory(None, 0, 8, {}).ok is None
    environment = {"NCCL_BUFFSIZE": "16777216", "NCCL_MAX_NCHANNELS": "16"}
    assert verdict(system.check_shared_memory(1 << 26, 1 << 26, 8, environment)) == WARNING
    assert system.check_shared_memory(1 << 34, 1 << 32, 8, environment).ok
    assert system.check_shared_memory(1 << 20, 1 << 20, 1, {}).ok
    assert verdict(system.check_stale_segments(["nccl-a"], 5, server_lives=False)) == WARNING
    assert system.check_stale_segments(["nccl-a"], 5, server_lives=True).ok
    assert system.check_limits(1024, 1, unit=True).ok
    assert verdict(system.check_limits(1024, 1, unit=False)) == WARNING
    assert system.check_limits(-1, -1, unit=False).ok
    assert system.check_limits(1 << 20, 1 << 30, unit=False).ok


def place(writable: bool | None = True, free: int = 1 << 40, filesystem: str = "ext4") -> system.Place:
    return system.Place("/x", "/", writable, free, filesystem)


def test_places_and_port() -> None:
    assert system.check_disk([place()], 10).ok
    assert system.check_disk([place(writable=False)], 10).ok is False
    assert system.check_disk([place(free=1)], 10).ok is False
    assert system.check_caches([place()]).ok
    assert verdict(system.check_caches([place(writable=False)])) == ERROR
    assert verdict(system.check_caches([place(filesystem="nfs4")])) == WARNING
    assert system.check_caches([place(writable=None)]).ok is None
    assert system.check_port(system.PortFacts(listening=False), 1).ok
    assert system.check_port(system.PortFacts(True, ["p (pid 1)"], ours=True), 1).ok
    assert verdict(system.check_port(system.PortFacts(True, ["p (pid 1)"], sglang=True), 1)) == WARNING
    assert verdict(system.check_port(system.PortFacts(listening=True), 1)) == ERROR


def test_an_open_server_is_worth_a_warning() -> None:
    check = system.check_exposure("0.0.0.0", keyed=False)  # noqa: S104 - compared, not bound
    assert verdict(check) == WARNING
    assert check.detail == "the server will listen on 0.0.0.0 and take requests without a key"
    assert verdict(system.check_exposure("::", keyed=False)) == WARNING
    assert system.check_exposure("::", keyed=True).ok
    assert system.check_exposure("127.0.0.1", keyed=False).ok
