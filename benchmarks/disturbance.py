"""How much of the machine others used during a measurement: a busy machine makes ratios meaningless."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

KERNEL_TIMES = Path("/proc/stat")  # Linux only; elsewhere nothing is known and nothing is said
DISTURBING_CORES = 0.2


@dataclass
class Disturbance:
    """Cores that other processes, and other guests of the host, used on average; None where that is not known."""

    cores: float | None = None


@contextmanager
def watch_others() -> Iterator[Disturbance]:
    """Fill in, at the end of the block, what was used besides this process's finished children."""
    disturbance = Disturbance()
    start, busy, own = perf_counter(), _read_busy_seconds(), _read_children_seconds()
    yield disturbance
    if busy is not None:
        others = (_read_busy_seconds() or 0) - busy - (_read_children_seconds() - own)
        disturbance.cores = max(others, 0) / (perf_counter() - start)


def is_disturbed(cores: float | None) -> bool:
    """Whether others used so much that a time cannot be trusted."""
    return cores is not None and cores > DISTURBING_CORES


def _read_busy_seconds() -> float | None:
    if not KERNEL_TIMES.exists():
        return None
    # user nice system idle iowait irq softirq steal, in ticks; guests are counted in user already
    user, nice, system, _, _, *interrupts = (int(ticks) for ticks in KERNEL_TIMES.read_text().split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _read_children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system
