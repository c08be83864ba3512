"""Parts on the workers of a Dask cluster: who runs the maps and the sums of ``parts.py`` there.

A part is a future.  A step is a task on it, which Dask runs where the part is; sums come together in a tree of tasks,
in the order of ``parts.py``.  What all parts need is a task too, whose value lies in the task itself: should a worker
be lost, the scheduler knows everything that made its parts, from the chunks of the array on, and has it made again on
another worker, bit for bit.  What was sent before is not sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from .parts import OtherPart, Part, Parts, Result, add_in_tree, fold

if TYPE_CHECKING:
    from distributed import Client, Future

# What was sent last is kept at hand: settings, dictionary, classifiers, and a few more.
_N_REMEMBERED = 16
_PLAIN = (int, float, bool, str, type(None))  # as small as a reference to what was sent


def is_on_dask(X: Any) -> bool:
    """Whether something is a Dask array; to ask does not import Dask."""
    return type(X).__module__.startswith("dask.array")


def require_client() -> Client:
    """Return the current client, or say how to get one."""
    try:
        from distributed import get_client
    except ImportError as error:
        raise ImportError('To fit a Dask array needs dask.distributed: pip install "ddlearn[dask]".') from error
    try:
        return get_client()
    except ValueError as error:
        raise ValueError(
            "X is a Dask array, but there is no Dask client that could fit it: make one first, as by "
            "`from dask.distributed import Client; client = Client()` for the cores of this machine."
        ) from error


class LostClusterError(ConnectionError):
    """The cluster went away in the middle of a fit."""


@contextmanager
def _explain_loss(client: Client) -> Iterator[None]:
    from asyncio import CancelledError as AsyncCancelledError
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise LostClusterError(
            f"Workers of the Dask cluster died again and again while they worked on the same rows: {error} As a rule "
            "they run out of memory: use smaller chunks, or workers with more memory. A Checkpoint keeps what was done."
        ) from error
    except (AsyncCancelledError, CancelledError, CommClosedError, TimeoutError) as error:
        raise LostClusterError(
            "The Dask scheduler went away, or cancelled the fit. The model is as it was before; if the fit had a "
            "Checkpoint, it goes on from there with resume=True on another cluster."
        ) from error


def _call(step: Callable[..., Any], part: Any, *shared: Any) -> Any:
    return step(part, *shared)


def _fold(*results: Any) -> Any:
    return fold(results)


def _pair(samples: Any, target: Any) -> tuple[Any, Any]:
    return samples, target


def _keep(value: Any) -> Any:
    return value


class _Sender:
    """Sends to the cluster what all parts need, once."""

    def __init__(self, client: Client):
        self.client = client
        self.sent: deque[tuple[Any, Future]] = deque(maxlen=_N_REMEMBERED)

    def send(self, value: Any) -> Any:
        """Return a future of a value, the same one for the same object."""
        if isinstance(value, _PLAIN):
            return value
        for known, future in self.sent:
            if known is value:
                return future
        future = self.client.submit(_keep, value, pure=False)
        self.sent.append((value, future))
        return future


class DaskParts(Parts[Part]):
    """Parts on workers.

    Parameters
    ----------
    sender : _Sender
        The client, and what it has sent.
    futures : list of Future
        The parts.
    """

    def __init__(self, sender: _Sender, futures: Sequence[Future]):
        self.sender = sender
        self.futures = list(futures)

    def keep(self, positions: Sequence[int]) -> DaskParts[Part]:
        """Return some of the parts."""
        return DaskParts(self.sender, [self.futures[position] for position in positions])

    def _run(self, step: Callable[..., Any], shared: Sequence[Any]) -> list[Future]:
        sent = [self.sender.send(value) for value in shared]
        return [self.sender.client.submit(_call, step, future, *sent, pure=False) for future in self.futures]

    def map(self, step: Callable[..., OtherPart], *shared: Any) -> DaskParts[OtherPart]:
        with _explain_loss(self.sender.client):
            return DaskParts(self.sender, self._run(step, shared))

    def map_each(self, step: Callable[..., OtherPart], arguments: Sequence[Any]) -> DaskParts[OtherPart]:
        submit = self.sender.client.submit
        with _explain_loss(self.sender.client):
            pairs = zip(self.futures, arguments, strict=True)
            return DaskParts(self.sender, [submit(_call, step, part, own, pure=False) for part, own in pairs])

    def add_up(self, measure: Callable[..., Result], *shared: Any) -> Result:
        with _explain_loss(self.sender.client):
            return self._add(self._run(measure, shared))

    def map_and_add_up(
        self, step: Callable[..., tuple[OtherPart, Result]], *shared: Any
    ) -> tuple[DaskParts[OtherPart], Result]:
        submit = self.sender.client.submit
        with _explain_loss(self.sender.client):
            pairs = self._run(step, shared)
            parts, results = ([submit(itemgetter(place), pair, pure=False) for pair in pairs] for place in (0, 1))
            return DaskParts(self.sender, parts), self._add(results)

    def _add(self, results: list[Future]) -> Any:
        submit = self.sender.client.submit
        return add_in_tree(results, lambda group: submit(_fold, *group, pure=False)).result()

    def collect(self, look: Callable[..., Result], *shared: Any) -> list[Result]:
        with _explain_loss(self.sender.client):
            return self.sender.client.gather(self._run(look, shared))


def pair_chunks(X: Any, y: Any) -> DaskParts[tuple[Any, Any]]:
    """Return the chunks of rows of a Dask array and of its target, each pair in one place.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features)
        Samples; chunks of columns are joined.
    y : dask.array.Array or array-like of shape (n_samples,) or (n_samples, n_classes)
        Their labels; chunked like X unless sizes are known.

    Returns
    -------
    DaskParts
        Pairs of arrays.
    """
    client = require_client()
    X, y = _align_chunks(X, y)
    with _explain_loss(client):
        samples, targets = (client.compute(array.to_delayed().ravel().tolist()) for array in (X, y))
        pairs = [client.submit(_pair, *pair, pure=False) for pair in zip(samples, targets, strict=True)]
    return DaskParts(_Sender(client), pairs)


def _align_chunks(X: Any, y: Any) -> tuple[Any, Any]:
    """Return both arrays in the same chunks of whole rows, or say why that cannot be."""
    import dask.array as da

    if X.ndim != 2 or np.isnan(X.shape[1]):
        raise ValueError(f"X must have rows of samples and a known number of features, got shape {X.shape}.")
    if X.dtype.kind not in "buif":
        raise ValueError(f"X holds {X.dtype}, not real numbers.")
    X = X.rechunk({1: -1})
    is_known = not np.isnan(X.shape[0])
    if not is_on_dask(y):
        if y is None or not is_known:
            raise ValueError("y must be a Dask array with chunks like those of X, since X does not know its length.")
        y = da.from_array(np.asarray(y))
    y = y.rechunk(dict.fromkeys(range(1, y.ndim), -1))
    if is_known and not np.isnan(y.shape[0]):
        if len(X) != len(y):
            raise ValueError(f"Found input variables with inconsistent numbers of samples: [{len(X)}, {len(y)}]")
        return X, y.rechunk({0: X.chunks[0]})
    if X.numblocks[0] != y.numblocks[0]:
        raise ValueError(
            f"X has {X.numblocks[0]} chunks of rows of unknown size and y has {y.numblocks[0]}: chunk them alike, or "
            "call compute_chunk_sizes() on both."
        )
    return X, y
