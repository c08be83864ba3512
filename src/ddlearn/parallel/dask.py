"""Parts on the workers of a Dask cluster: who runs the maps and the sums of ``parts.py`` there.

A part is a future.  A step is a task on it, which Dask runs where the part is; sums come together in a tree of tasks,
in the order of ``parts.py``.  What all parts need is a task too, whose value lies in the task itself: should a worker
be lost, the scheduler knows everything that made its parts, from the chunks of the array on, and has it made again on
another worker, bit for bit.  What was sent before is not sent again.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4
from weakref import WeakSet

import numpy as np

from .parts import (
    OtherPart,
    Part,
    Parts,
    Result,
    add_in_tree,
    fold,
)

if TYPE_CHECKING:
    from distributed import Client, Future

# What was sent last is kept at hand: settings, dictionary, classifiers, and a few more.
_N_REMEMBERED = 16
_PLAIN = (int, float, bool, str, type(None))  # as small as a reference to what was sent


def is_on_dask(X: Any) -> bool:
    """Whether something is a Dask array; to ask does not import Dask.  A Dask data frame is refused."""
    module = type(X).__module__
    if module.startswith(("dask.dataframe", "dask_expr")):
        raise TypeError("A Dask data frame has no rows of numbers yet: give X.to_dask_array(), or with lengths=True.")
    return module.startswith("dask.array")


def refuse_dask(X: Any, caller: str, remedy: str) -> None:
    """Raise for a Dask array, which would be collected without a word."""
    if is_on_dask(X):
        raise TypeError(f"{caller} takes samples that are in memory or memory-mapped, not a Dask array: {remedy}.")


def require_client() -> Client:
    """Return the current client, or say how to get one."""
    try:
        from distributed import get_client
    except ImportError as error:
        raise ImportError('To fit a Dask array needs dask.distributed: pip install "ddlearn[dask]".') from error
    try:
        client = get_client()
    except ValueError as error:
        raise ValueError(
            "X is a Dask array, but there is no Dask client that could fit it: make one first, as by "
            "`from dask.distributed import Client; client = Client()` for the cores of this machine."
        ) from error
    _make_room()
    if not client.nthreads():
        warnings.warn("The Dask cluster has no workers yet: the fit waits for some.", stacklevel=2)
    return client


def _make_room() -> None:
    """Inside a task, let go of the worker's thread: the tasks of the fit may need it."""
    from distributed import get_worker, secede

    try:
        get_worker()
    except ValueError:
        return
    secede()


class LostClusterError(ConnectionError):
    """The Dask cluster went away in the middle of a fit, or its workers died again and again.

    The model is as it was before; a :class:`Checkpoint` keeps what was done.

    Examples
    --------
    >>> from ddlearn import LostClusterError
    >>> issubclass(LostClusterError, ConnectionError)
    True
    """


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
        if isinstance(error, TimeoutError | CommClosedError) and client.status == "running":
            raise  # it came from a task, such as one that reads the data
        raise LostClusterError(
            "The Dask scheduler went away, or cancelled the fit. The model is as it was before; if the fit had a "
            "Checkpoint, it goes on from there with resume=True on another cluster."
        ) from error


_configuring = threading.Lock()  # Dask's settings belong to the process, and fits may run in several threads


@contextmanager
def _accept_large_values() -> Iterator[None]:
    """Do not warn of large tasks: a dictionary is large, and travels in a task on purpose."""
    import dask

    with _configuring, dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        yield


class _Box:
    """A value that Dask does not look into: it takes tuples for tasks, and text for keys."""

    def __init__(self, value: Any):
        self.value = value


class _Kept(NamedTuple):
    """A part together with what it adds to a sum: to take it out would be one more task."""

    part: Any
    summand: Any


def _open(thing: Any) -> Any:
    if isinstance(thing, _Kept):
        return thing.part
    return thing.value if isinstance(thing, _Box) else thing


def _call(step: _Box, *arguments: Any) -> Any:
    return step.value(*map(_open, arguments))


def _call_and_keep(step: _Box, *arguments: Any) -> _Kept:
    return _Kept(*_call(step, *arguments))


def _fold(*results: Any) -> Any:
    return fold(results)


class _Graph:
    """The tasks of one visit to all parts, which go to the scheduler together."""

    def __init__(self, name: str):
        self.name = f"{name}-{uuid4().hex}"
        self.tasks: dict[str, tuple[Any, ...]] = {}
        self.shared: dict[str, Any] = {}  # what some of the tasks hold for all parts, by their keys

    def add(self, *task: Any) -> str:
        """Take a function and its arguments, which may be futures or keys of other tasks; return the key."""
        key = f"{self.name}-{len(self.tasks)}"
        self.tasks[key] = task
        return key


class Sender:
    """Sends to the cluster what all parts need, once, and the tasks.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    """

    def __init__(self, client: Client):
        self.client = client
        self.sent: deque[tuple[Any, Future]] = deque(maxlen=_N_REMEMBERED)
        self.futures: WeakSet[Future] = WeakSet()

    def share(self, value: Any, graph: _Graph) -> Any:
        """Return what a task of a graph shall name to get this value; what is new becomes a task too."""
        if isinstance(value, _PLAIN):
            return _Box(value)
        known = next((pair for pair in self.sent if pair[0] is value), None)
        if known is not None:
            self.sent = deque([pair for pair in self.sent if pair is not known] + [known], maxlen=_N_REMEMBERED)
            return known[1]
        key = graph.add(_open, _Box(value))
        graph.shared[key] = value
        return key

    def run(self, graph: _Graph, keys: Sequence[str]) -> list[Future]:
        """Submit a graph; return futures of some keys."""
        with _explain_loss(self.client), _accept_large_values():
            futures = self.client.get(graph.tasks, [*keys, *graph.shared], sync=False)
        self.futures.update(futures)
        self.sent.extend(zip(graph.shared.values(), futures[len(keys) :], strict=True))
        return futures[: len(keys)]

    def release(self) -> None:
        """Let go of all that is still on the cluster, without waiting for the garbage collector."""
        self.sent.clear()
        for future in list(self.futures):
            future.release()


class DaskParts(Parts[Part]):
    """Parts on workers.

    Parameters
    ----------
    sender : Sender
        The way to the cluster.
    futures : list of Future
        The parts.
    """

    def __init__(self, sender: Sender, futures: Sequence[Future]):
        self.sender = sender
        self.futures = list(futures)

    def keep(self, positions: Sequence[int]) -> DaskParts[Part]:
        """Return some of the parts."""
        return DaskParts(self.sender, [self.futures[position] for position in positions])

    def _add_calls(
        self, graph: _Graph, step: Callable[..., Any], shared: Sequence[Any], call: Callable[..., Any] = _call
    ) -> list[str]:
        named = [self.sender.share(value, graph) for value in shared]
        return [graph.add(call, _Box(step), future, *named) for future in self.futures]

    def map(self, step: Callable[..., OtherPart], *shared: Any) -> DaskParts[OtherPart]:
        graph = _Graph(step.__name__)
        return DaskParts(self.sender, self.sender.run(graph, self._add_calls(graph, step, shared)))

    def map_each(self, step: Callable[..., OtherPart], arguments: Sequence[Any]) -> DaskParts[OtherPart]:
        graph = _Graph(step.__name__)
        pairs = zip(self.futures, arguments, strict=True)
        keys = [graph.add(_call, _Box(step), future, _Box(argument)) for future, argument in pairs]
        return DaskParts(self.sender, self.sender.run(graph, keys))

    def add_up(self, measure: Callable[..., Result], *shared: Any) -> Result:
        graph = _Graph(measure.__name__)
        return self._finish(graph, [], self._add_calls(graph, measure, shared))[1]

    def map_and_add_up(
        self, step: Callable[..., tuple[OtherPart, Result]], *shared: Any
    ) -> tuple[DaskParts[OtherPart], Result]:
        graph = _Graph(step.__name__)
        parts = self._add_calls(graph, step, shared, _call_and_keep)
        # The summands alone go to where they are added.
        return self._finish(graph, parts, [graph.add(attrgetter("summand"), part) for part in parts])

    def _finish(self, graph: _Graph, parts: list[str], results: list[str]) -> tuple[DaskParts[Any], Any]:
        """Add the tree of sums to the graph, run it, and wait for the sum."""
        root = add_in_tree(results, lambda group: graph.add(_fold, *group))
        *futures, total = self.sender.run(graph, [*parts, root])
        with _explain_loss(self.sender.client):
            return DaskParts(self.sender, futures), total.result()

    def collect(self, look: Callable[..., Result], *shared: Any) -> list[Result]:
        graph = _Graph(look.__name__)
        futures = self.sender.run(graph, self._add_calls(graph, look, shared))
        with _explain_loss(self.sender.client):
            return self.sender.client.gather(futures)

    def release(self) -> None:
        self.sender.release()


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
    sender, graph = Sender(client), _Graph("pair")
    with _explain_loss(client):
        chunks = client.compute([chunk for array in (X, y) for chunk in array.to_delayed().ravel().tolist()])
    sender.futures.update(chunks)
    n_pairs = len(chunks) // 2
    keys = [graph.add(_pair, *pair) for pair in zip(chunks[:n_pairs], chunks[n_pairs:], strict=True)]
    return DaskParts(sender, sender.run(graph, keys))


def _pair(samples: Any, target: Any) -> tuple[Any, Any]:
    return samples, target


def _align_chunks(X: Any, y: Any) -> tuple[Any, Any]:
    """Return both arrays in the same chunks of whole rows, or say why that cannot be."""
    if X.ndim != 2 or np.isnan(X.shape[1]) or X.shape[1] == 0:
        raise ValueError(f"X must have rows of samples and a known number of features, got shape {X.shape}.")
    if X.dtype.kind not in "buif":
        raise ValueError(f"X holds {X.dtype}, not real numbers.")
    X = X.rechunk({1: -1})
    return X, chunk_like(X, y)


def chunk_like(X: Any, y: Any) -> Any:
    """Return a target in the chunks of rows of a Dask array, or say why that cannot be."""
    import dask.array as da

    is_known = not np.isnan(X.shape[0])
    if not is_on_dask(y):
        if y is None or not is_known:
            raise ValueError("y must be a Dask array with chunks like those of X, since X does not know its length.")
        y = np.asarray(y)
        y = da.from_array(y, chunks=y.shape)
    y = y.rechunk(dict.fromkeys(range(1, y.ndim), -1))
    if is_known and not np.isnan(y.shape[0]):
        if len(X) != len(y):
            raise ValueError(f"Found input variables with inconsistent numbers of samples: [{len(X)}, {len(y)}]")
        return y.rechunk({0: X.chunks[0]})
    if X.numblocks[0] != y.numblocks[0]:
        raise ValueError(
            f"X has {X.numblocks[0]} chunks of rows of unknown size and y has {y.numblocks[0]}: chunk them alike, or "
            "call compute_chunk_sizes() on both."
        )
    return y
