"""What goes over the wires of a Dask cluster, and what its processes compute meanwhile: measured, not guessed.

Scheduler, workers and client are processes of their own.  Each writes down every message that it sends, with the time,
its size on the wire, and the processor time used up to then; so every byte is counted once, by its sender.  All clocks
are the same one, as long as all processes are on one machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import process_time, time
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
# Messages that processes exchange whether there is work or not: some per second, not per iteration.
IDLE_TALK = {"heartbeat_worker", "heartbeat-client", "keep-alive"}
PATIENCE = 60  # seconds


class Message(NamedTuple):
    """A message as its sender saw it."""

    time: float
    cpu_seconds: float  # of the process until then
    sender: str  # the addresses of the two ends of the connection
    receiver: str
    n_bytes: int
    n_finished: int  # tasks that a worker says are done
    is_idle_talk: bool


class Span(NamedTuple):
    """What happened between two moments."""

    n_bytes: dict[str, int]  # "client to scheduler", and so on
    cpu_seconds: dict[str, float]  # of the client, the scheduler, and all workers together
    n_tasks: int


_messages: list[Message] = []


def start_counting() -> None:
    """Count, in this process, from now on."""
    from distributed.comm.tcp import TCP

    write = TCP.write

    async def write_and_note(comm: Any, message: Any, *arguments: Any, **named: Any) -> int:
        n_bytes = await write(comm, message, *arguments, **named)
        _messages.append(
            Message(time(), process_time(), comm.local_address, comm.peer_address, n_bytes, *_classify(message))
        )
        return n_bytes

    TCP.write = write_and_note


def _classify(message: Any) -> tuple[int, bool]:
    entries = message if isinstance(message, list | tuple) else [message]
    entries = [entry for entry in entries if isinstance(entry, dict)]
    n_finished = sum(entry.get("op") == "task-finished" for entry in entries)
    # The answer to a heartbeat tells when to send the next.
    is_idle = [entry.get("op") in IDLE_TALK or "heartbeat-interval" in entry for entry in entries]
    return n_finished, bool(is_idle) and all(is_idle)


def read_messages() -> list[Message]:
    """Return what this process has sent since it counts."""
    return _messages


class Traffic:
    """All messages of a cluster.

    Parameters
    ----------
    messages : dict of list of Message
        For each process what it sent: ``("client", "")``, ``("scheduler", address)``, ``("worker", address)``.
    """

    def __init__(self, messages: dict[tuple[str, str], Sequence[Message]]):
        self.messages = messages
        self.role_of = {address: role for role, address in messages}
        self.role_of |= {message.sender: role for (role, _), sent in messages.items() for message in sent}

    @classmethod
    def of(cls, client: Any) -> Traffic:
        """Collect the messages from everywhere."""
        messages = {("client", ""): list(read_messages())}
        messages["scheduler", client.scheduler.address] = client.run_on_scheduler(read_messages)
        messages |= {("worker", address): sent for address, sent in client.run(read_messages).items()}
        return cls(messages)

    def look_at(self, start: float, end: float) -> Span:
        """Return what happened from one moment to another."""
        n_bytes: dict[str, int] = {}
        cpu_seconds: dict[str, float] = {}
        n_tasks = 0
        for (role, _), sent in self.messages.items():
            clock, cpu = [message.time for message in sent], [message.cpu_seconds for message in sent]
            used = float(np.diff(np.interp([start, end], clock, cpu))[0])
            cpu_seconds[role] = cpu_seconds.get(role, 0.0) + used
            for message in sent:
                if start <= message.time < end and not message.is_idle_talk:
                    way = f"{role} to {self.role_of.get(message.receiver, 'unknown')}"
                    n_bytes[way] = n_bytes.get(way, 0) + message.n_bytes
                    n_tasks += message.n_finished
        return Span(n_bytes, cpu_seconds, n_tasks)


@contextmanager
def start_cluster(n_workers: int) -> Iterator[Any]:
    """Start a scheduler and workers with one thread each, as processes; yield a client."""
    from distributed import Client

    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        file = os.path.join(folder, "scheduler.json")

        def run(module: str, *options: str) -> None:
            command = [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", file, *options]
            process = subprocess.Popen(
                command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            processes.callback(process.wait)
            processes.callback(process.kill)

        run("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        for _ in range(n_workers):
            run("dask_worker", "--nworkers", "1", "--nthreads", "1", "--no-nanny", "--memory-limit", "0")
        with Client(scheduler_file=file, timeout=PATIENCE) as client:
            client.wait_for_workers(n_workers, timeout=PATIENCE)
            yield client
