"""Copies of what is known of rows, on the disks of two workers each: so a lost part is not made again from its chunk.

Dask makes a lost part again by all steps that led to it, and the scheduler keeps these, with all that was sent for
them.  A part that is read from a copy depends on its samples and on the copy only: the steps before are forgotten, and
if one of the two workers is lost, the part is made from the copy of the other.  If both are, the fit begins again.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from .tasks import Packed, divide


class LostCopiesError(ConnectionError):
    """The workers that had copies of some rows are gone, all of them."""


class Copy(NamedTuple):
    """What is known of the rows of one part at one moment."""

    name: str  # of the folder of all copies of a fit
    part: int
    moment: int
    workers: list[str]  # the addresses of those that keep it

    def locate(self, worker: Any, moment: int | None = None) -> Path:
        """Return where a worker keeps the copy, or that of another moment."""
        moment = self.moment if moment is None else moment
        return Path(worker.local_directory, self.name, f"{self.part}-{moment}.pickle")


class Stored(NamedTuple):
    """Which worker has stored a copy, or what the problem was."""

    worker: str
    problem: str | None = None


class Copies:
    """The copies of one fit."""

    def __init__(self) -> None:
        self.name = f"ddlearn-{uuid4().hex}"
        self.n_made = 0

    def plan_next(self, holders: Sequence[str], workers: Sequence[str]) -> list[Copy]:
        """Return copies of all parts at the next moment, given which worker has each part.

        The second one is on another machine, if there is one; those of a worker's parts are spread over the others.
        """
        self.n_made += 1
        others = {
            holder: [worker for worker in workers if _find_host(worker) != _find_host(holder)]
            or [worker for worker in workers if worker != holder]
            for holder in set(holders)
        }
        return [
            Copy(self.name, part, self.n_made, [holder, others[holder][part % len(others[holder])]])
            for part, holder in enumerate(holders)
        ]


def _find_host(address: str) -> str:
    return address.rpartition(":")[0]


def store(rows: Packed, copy: Packed) -> Packed:
    """Store a copy on the disk of this worker."""
    from distributed import get_worker

    worker = get_worker()
    path = copy.value.locate(worker)
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pickle.dumps(rows.value, protocol=5))
        # From the last moment the part is made again, if it is lost now; the one before is of no use.
        with suppress(FileNotFoundError):
            copy.value.locate(worker, copy.value.moment - 2).unlink()
    except OSError as error:
        return Packed(Stored(worker.address, f"{error} on {worker.address}"))
    return Packed(Stored(worker.address))


def recover(put: Packed, settled: Packed, copy: Packed) -> Packed:
    """Return a settled part with what is known of its rows, from a copy here or on another worker."""
    from distributed import get_client, get_worker

    found = _read(copy.value, get_worker())
    if found is None:
        client = get_client()
        workers = [worker for worker in copy.value.workers if worker in client.nthreads()]
        answers = client.run(_read, copy.value, workers=workers, on_error="ignore") if workers else {}
        found = next((answer for answer in answers.values() if answer is not None), None)
    if found is None:
        raise LostCopiesError(f"The workers with copies of part {copy.value.part} are gone: {copy.value.workers}.")
    return Packed(divide(settled, put.value(settled.value, pickle.loads(found))))


def _read(copy: Copy, dask_worker: Any) -> bytes | None:
    with suppress(FileNotFoundError):
        return copy.locate(dask_worker).read_bytes()
    return None


def remove_copies(name: Packed) -> None:
    """Remove all copies of a fit from the disk of this worker."""
    from distributed import get_worker

    shutil.rmtree(os.path.join(get_worker().local_directory, name.value), ignore_errors=True)
