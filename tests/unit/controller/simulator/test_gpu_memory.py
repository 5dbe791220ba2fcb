import os
import subprocess
import sys
from pathlib import Path

from controller.simulator.site.sglang.gpu_memory import GpuMemory, lock_owner, used_by_others

HOLDER = """
import sys
from pathlib import Path
from controller.simulator.site.sglang.gpu_memory import GpuMemory
memory = GpuMemory(Path(sys.argv[1]), 0, 1000)
memory.hold(300)
print("holding", flush=True)
sys.stdin.read()
"""


def test_memory_of_another_process_counts_until_it_dies(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holding\n"
        (file,) = (tmp_path / "gpu0").glob("*.alloc")
        assert lock_owner(str(file)) == holder.pid
        assert used_by_others(tmp_path / "gpu0") == 300
        holder.kill()
        holder.wait(10)
    assert used_by_others(tmp_path / "gpu0") == 0
    assert not file.exists()


def test_own_memory_and_leaks(tmp_path: Path) -> None:
    memory = GpuMemory(tmp_path, 0, 1000)
    memory.hold(400)
    with (tmp_path / "gpu0" / "old.leak").open("wb") as leak:
        leak.truncate(100 << 20)
    assert memory.free_mib() == 500
    memory.hold(-5)
    assert memory.held_mib == 0
    os.close(memory._descriptor)


def test_nobody_locks_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert lock_owner(str(tmp_path / "none")) is None
    assert used_by_others(tmp_path / "none") == 0
