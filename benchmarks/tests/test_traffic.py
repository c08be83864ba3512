"""Bytes between the processes of a cluster."""

from __future__ import annotations

import pytest
from benchmarks.traffic import Message, Traffic


def test_bytes_are_counted_by_their_sender_and_heartbeats_are_not():
    def say(moment, cpu, sender, receiver, n_bytes, n_finished=0, is_idle_talk=False):
        return Message(moment, cpu, sender, receiver, n_bytes, n_finished, is_idle_talk)

    traffic = Traffic(
        {
            ("client", ""): [say(0, 0, "port 1", "scheduler", 7), say(2, 1, "port 1", "scheduler", 100)],
            ("scheduler", "scheduler"): [say(3, 0.5, "scheduler", "port 1", 10), say(3, 0.5, "scheduler", "one", 20)],
            ("worker", "one"): [
                say(1, 1, "port 2", "scheduler", 40, n_finished=3),
                say(1.5, 2, "port 2", "scheduler", 10**6, is_idle_talk=True),
                say(5, 9, "port 2", "scheduler", 10**6),  # too late
            ],
            ("worker", "two"): [say(2, 4, "port 3", "one", 80), say(4, 8, "port 3", "port 2", 80)],
        }
    )
    found = traffic.look_at(1, 5)
    assert found.n_bytes == {
        "client to scheduler": 100,
        "scheduler to client": 10,
        "scheduler to worker": 20,
        "worker to scheduler": 40,
        "worker to worker": 160,
    }
    assert found.n_tasks == 3
    assert found.cpu_seconds["client"] == pytest.approx(0.5)  # half of its time was before
    assert found.cpu_seconds["worker"] == pytest.approx(8 + 4)
