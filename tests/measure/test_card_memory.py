"""What a process holds on a card: by process where NVML tells, else by what the card has less of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ortbench.measure.gpus import OF_THE_CARD, OF_THE_PROCESS, Card, held_by_process, read_cards


def test_a_process_is_found_on_every_card() -> None:
    before = [Card(100, {7: 50}), Card(0, {})]
    after = [Card(400, {7: 50, 9: 200}), Card(30, {9: 30})]
    assert held_by_process(before, after, 9) == (230, OF_THE_PROCESS)


def test_without_it_the_cards_say_what_they_have_less_of() -> None:
    before = [Card(100, {7: 50}), Card(60, {})]
    after = [Card(400, {7: 300}), Card(50, {})]
    assert held_by_process(before, after, 9) == (300, OF_THE_CARD)
    assert held_by_process(before, after, 7) == (300, OF_THE_CARD), "that id was another process's before"
    assert held_by_process([Card(0, {})], [Card(5, {9: None})], 9) == (5, OF_THE_CARD)
    assert held_by_process([], [], 9) == (None, "NVML tells nothing of the device")


class _Nvml:
    """One card; what it is asked of processes besides is not there."""

    class NVMLError(Exception):
        """What NVML says."""

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(used=10)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return [SimpleNamespace(pid=1, usedGpuMemory=4), SimpleNamespace(pid=2, usedGpuMemory=None)]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[Any]:
        raise RuntimeError("the driver is older than the package")


def test_cards_are_read_as_far_as_they_tell() -> None:
    assert read_cards(_Nvml()) == [Card(10, {1: 4, 2: None})]
