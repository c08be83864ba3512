"""Parts on the workers of a Dask cluster, with the maps and sums of ``parts.py``.

A part is a future.  A step is a task on it, which Dask runs where the part is; sums are added in a tree of tasks, in
the order of ``parts.py``.  Arguments that all parts share are tasks too, with the value inside the task: if a worker is
lost, the scheduler knows everything that made its parts, from the chunks of the array on, and computes it again on
another worker, bit for bit.  Values that were sent before are not sent again.

Once parts are settled, only what differs from the settled part is stored, in a future of its own, so that samples are
in memory, and counted by Dask, once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pickle import PickleBuffer
from time import monotonic, time
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4
from weakref import WeakSet

import numpy as np

from .parts import OtherPart, Part, Parts, Result, add_in_tree, fold
from .threads import single_threaded_blas
from .warn import warn_user

if TYPE_CHECKING:
    from distributed import Client, Future

# The values sent last stay on the cluster: settings, dictionary, classifiers, and a few more.
_N_REMEMBERED = 32
_SECONDS_BETWEEN_LOOKS = 5.0
# Settings of Dask, so that `dask.config.set` and its files and environment variables change them: after how long
# without an answer of workers there is a warning, and an error; and how large samples may be that come to the client.
_PATIENCE = {"ddlearn.warn-after": "1 minute", "ddlearn.give-up-after": "10 minutes"}
_MOST_BYTES = "ddlearn.bring-at-most", "256 MiB"
_PLAIN = (int, float, bool, str, type(None))  # as small as a reference to a value that was sent


def is_on_dask(X: Any) -> bool:
    """Whether an object is a Dask array, found out without importing Dask.  A Dask data frame is refused."""
    module = type(X).__module__
    if module.startswith(("dask.dataframe", "dask_expr")):
        raise TypeError("X is a Dask data frame: pass X.to_dask_array(), with lengths=True if lengths are needed.")
    return module.startswith("dask.array")


def refuse_dask(X: Any, caller: str, remedy: str) -> None:
    """Raise for a Dask array, which would be collected silently."""
    if is_on_dask(X):
        raise TypeError(f"{caller} takes samples that are in memory or memory-mapped, not a Dask array: {remedy}.")


def require_client() -> Client:
    """Return the current client; raise with advice if there is none."""
    try:
        from distributed import get_client
    except ImportError as error:
        raise ImportError('Fitting a Dask array needs dask.distributed: pip install "ddlearn[dask]".') from error
    try:
        client = get_client()
    except ValueError as error:
        raise ValueError(
            "X is a Dask array, but there is no Dask client that could fit it: make one first, such as "
            "`from dask.distributed import Client; client = Client()` for the cores of this machine."
        ) from error
    _make_room()
    if not client.nthreads():
        warn_user("The Dask cluster has no workers yet: the fit waits for them.")
    return client


def _make_room() -> None:
    """Inside a task, leave the worker's thread, which the tasks of the fit may need."""
    from distributed import get_worker, secede

    try:
        get_worker()
    except ValueError:
        return
    secede()


class LostClusterError(ConnectionError):
    """The Dask cluster was lost during a fit: its scheduler, all of its workers, or several on the same rows.

    The model is as it was before; a :class:`Checkpoint` keeps the iterations done.

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

    try:
        yield
    except KilledWorker as error:
        raise LostClusterError(
            f"Workers of the Dask cluster died repeatedly while working on the same rows: {error} The usual cause is "
            "lack of memory: use smaller chunks, or workers with more memory. A Checkpoint keeps the iterations done."
        ) from error
    except (AsyncCancelledError, CancelledError, Exception) as error:
        is_lost = isinstance(error, AsyncCancelledError | CancelledError) or client.status in ("closing", "closed")
        is_lost = is_lost or (isinstance(error, OSError) and client.status != "running")
        if isinstance(error, LostClusterError) or not is_lost:
            raise  # from a task, such as one that reads the data
        raise LostClusterError(
            "The Dask scheduler went away, the client was closed, the fit was cancelled, or the data are persisted on "
            "another cluster than that of the current client. The model is as it was before; if the fit had a "
            "Checkpoint, it can continue from there with resume=True on another cluster."
        ) from error


def _measure_silence(dask_scheduler: Any = None) -> dict[str, float]:
    """Return how many seconds ago each worker was last heard of, on the scheduler."""
    now = time()
    return {address: now - worker.last_seen for address, worker in dask_scheduler.workers.items()}


class _Watch:
    """Looks after the workers while the client waits: warns of those that do not answer, and gives up without any.

    Dask waits for ever for workers to come.  Before the first one has come, so does a fit: its cluster may be queued.
    """

    def __init__(self, client: Client):
        self.client = client
        self.had_workers = bool(client.nthreads())
        self.said: set[str] = set()

    def begin(self) -> None:
        """Begin to wait."""
        import dask

        self.last_answer = monotonic()
        self.warn_after, self.give_up_after = (
            dask.utils.parse_timedelta(dask.config.get(name, default)) for name, default in _PATIENCE.items()
        )
        self.seconds_to_next_look = min(_SECONDS_BETWEEN_LOOKS, self.warn_after)

    def look(self) -> None:
        """Ask the scheduler when its workers were last heard of."""
        try:
            silence = self.client.run_on_scheduler(_measure_silence)
        except (OSError, ValueError):  # it is gone, which the client finds out for itself, or runs no functions
            return
        if silence:
            self.had_workers = True
            self.last_answer = max(self.last_answer, monotonic() - min(silence.values()))
        seconds = monotonic() - self.last_answer
        if seconds >= self.warn_after:
            self._warn_once("all", "No worker of the Dask cluster answers: the fit waits for one.")
        if seconds >= self.give_up_after and self.had_workers:
            raise LostClusterError(
                f"No worker of the Dask cluster has answered for {seconds:.0f} seconds (Dask's setting "
                "ddlearn.give-up-after). The model is as it was before; if the fit had a Checkpoint, it can continue "
                "from there with resume=True."
            )
        for address, since in silence.items():
            if since >= self.warn_after > seconds:
                self._warn_once(
                    address,
                    f"The Dask worker {address} does not answer: the fit waits for it, until Dask gives it up (setting "
                    "distributed.scheduler.worker-ttl) and others take over its rows.",
                )

    def _warn_once(self, about: str, message: str) -> None:
        if about not in self.said:
            self.said.add(about)
            warn_user(message)


_configuring = threading.Lock()  # Dask's settings belong to the process, and fits may run in several threads


@contextmanager
def _accept_large_values() -> Iterator[None]:
    """Do not warn of large tasks: a dictionary is large, and travels in a task on purpose."""
    import dask

    with _configuring, dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        yield


class Packed:
    """A value that Dask does not look into (it takes tuples for tasks, and text for keys), pickled in one piece.

    Arrays that are sent as buffers of their own arrive at odd addresses.  For unaligned arrays NumPy takes other
    routines, which round differently, so that results would depend on where a value has been.  Unpacked where it is
    used, not by the scheduler on the way.
    """

    def __init__(self, value: Any, data: Any = None):
        self._value = value
        self._data = data

    @property
    def value(self) -> Any:
        """The value."""
        if (data := self._data) is not None:
            from distributed.protocol.pickle import loads

            self._value = loads(data)
            self._data = None
        return self._value

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from distributed.protocol.pickle import dumps

        data = dumps(self._value) if self._data is None else bytes(self._data)
        return Packed, (None, PickleBuffer(data) if protocol >= 5 else data)

    def __sizeof__(self) -> int:
        from dask.sizeof import sizeof

        return sizeof(self._value if self._data is None else self._data)


class _Changes(NamedTuple):
    """What a step has made of a settled part: an object of its class or a derived one, by the fields that differ."""

    kind: type
    fields: dict[str, Any]


class _PartAndSummand(NamedTuple):
    """A part together with what it adds to a sum: to extract the part would be one more task."""

    part: Any
    summand: Any


# How an argument is made of the values sent: None for one value as it is, or a class and the layouts of its fields.
_Layout = tuple[type, list[Any]] | None


def _join(settled: Packed | None, packed: Packed) -> Any:
    """Return a part."""
    part = packed.value.part if isinstance(packed.value, _PartAndSummand) else packed.value
    return part.kind(**vars(settled.value) | part.fields) if settled and isinstance(part, _Changes) else part


def _divide(settled: Packed | None, result: Any) -> Any:
    """Return what must be stored of a result beside the settled part."""
    if settled is None or not isinstance(result, type(settled.value)):
        return result
    known, values = vars(settled.value), {field.name: getattr(result, field.name) for field in fields(result)}
    return _Changes(type(result), {name: new for name, new in values.items() if new is not known.get(name, known)})


def _assemble(layout: _Layout, values: Iterator[Packed]) -> Any:
    if layout is None:
        return next(values).value
    kind, layouts = layout
    return kind(*[_assemble(each, values) for each in layouts])


def _look_at_part(step: Packed, settled: Packed | None, part: Packed, *values: Packed) -> Packed:
    """Return what a step makes of a part, or finds in it."""
    function, layouts = step.value
    remaining = iter(values)
    with single_threaded_blas():  # as a fit in memory has it, whatever the worker's setting
        return Packed(function(_join(settled, part), *[_assemble(layout, remaining) for layout in layouts]))


def _change_part(step: Packed, settled: Packed | None, part: Packed, *values: Packed) -> Packed:
    """Return what is stored of the part that a step makes of one."""
    return Packed(_divide(settled, _look_at_part(step, settled, part, *values).value))


def _change_and_measure(step: Packed, settled: Packed | None, part: Packed, *values: Packed) -> Packed:
    """Return the part and the summand of a step that returns a pair."""
    new_part, summand = _look_at_part(step, settled, part, *values).value
    return Packed(_PartAndSummand(_divide(settled, new_part), summand))


def _take_summand(packed: Packed) -> Packed:
    """Return the summand alone, which travels."""
    return Packed(packed.value.summand)


def _add_results(*results: Packed) -> Packed:
    """Return the sum of some results, from the first to the last."""
    return Packed(fold([result.value for result in results]))


def _identity_task(value: Packed) -> Packed:
    """Return a value that all parts share: the scheduler keeps the task, which has the value inside."""
    return value


class _Graph:
    """The tasks of one visit to all parts, which go to the scheduler together."""

    def __init__(self, step: Callable[..., Any]):
        self.name = f"{getattr(step, '__name__', type(step).__name__)}-{uuid4().hex}"
        self.tasks: dict[str, tuple[Any, ...]] = {}
        self.shared: dict[int, tuple[Any, str]] = {}  # new values that all parts share, and the keys of their tasks

    def add(self, *task: Any) -> str:
        """Add a function and its arguments, which may be futures or keys of other tasks; return the key."""
        key = f"{self.name}-{len(self.tasks)}"
        self.tasks[key] = task
        return key


class ClusterSession:
    """Submits tasks to a cluster, and sends each value that all parts share only once."""

    def __init__(self, client: Client):
        self.client = client
        self.sent: OrderedDict[int, tuple[Any, Future]] = OrderedDict()  # by identity; the latest is the last
        self.futures: WeakSet[Future] = WeakSet()
        self.watch = _Watch(client)

    def share(self, value: Any, graph: _Graph) -> tuple[_Layout, list[Any]]:
        """Return the layout of a value, and the references by which a task of the graph gets its fields.

        A dataclass that declares ``sent_by_fields = True`` is sent field by field and assembled in the task, so that a
        field that has not changed is not sent again with the next object of the class.
        """
        if getattr(type(value), "sent_by_fields", False):
            shared = [self.share(getattr(value, field.name), graph) for field in fields(value) if field.init]
            return (type(value), [layout for layout, _ in shared]), [each for _, some in shared for each in some]
        return None, [Packed(value) if isinstance(value, _PLAIN) else self._refer_to(value, graph)]

    def _refer_to(self, value: Any, graph: _Graph) -> Any:
        """Return the future of a value that was sent before, or the key of a new task."""
        if id(value) in self.sent:
            self.sent.move_to_end(id(value))
            return self.sent[id(value)][1]
        if id(value) not in graph.shared:
            graph.shared[id(value)] = value, graph.add(_identity_task, Packed(value))
        return graph.shared[id(value)][1]

    def run(self, graph: _Graph, keys: Sequence[str]) -> list[Future]:
        """Submit a graph; return the futures of some keys."""
        with _explain_loss(self.client), _accept_large_values():
            futures = self.client.get(graph.tasks, [*keys, *(key for _, key in graph.shared.values())], sync=False)
        self.futures.update(futures)
        for (value, _), future in zip(graph.shared.values(), futures[len(keys) :], strict=True):
            self.sent[id(value)] = value, future
        while len(self.sent) > _N_REMEMBERED:
            self.sent.popitem(last=False)
        return futures[: len(keys)]

    def fetch(self, futures: Sequence[Future]) -> list[Any]:
        """Wait for values, and return them."""
        from distributed import wait

        with _explain_loss(self.client):
            self.watch.begin()
            while True:
                try:
                    wait(futures, timeout=self.watch.seconds_to_next_look)
                    break
                except TimeoutError:
                    self.watch.look()
            return [packed.value for packed in self.client.gather(futures)]

    def release(self) -> None:
        """Free all that is still on the cluster, without waiting for the garbage collector."""
        self.sent.clear()
        for future in list(self.futures):
            future.release()


class DaskParts(Parts[Part]):
    """Parts on workers."""

    is_local = False

    def __init__(
        self, session: ClusterSession, futures: Sequence[Future], settled: Sequence[Future | None] | None = None
    ):
        self.session = session
        self.futures: list[Any] = list(futures)
        self.settled: list[Any] = list(settled) if settled is not None else [None] * len(futures)

    def keep(self, positions: Sequence[int]) -> DaskParts[Part]:
        """Return some of the parts."""
        futures, settled = ([each[at] for at in positions] for each in (self.futures, self.settled))
        return DaskParts(self.session, futures, settled)

    def settle(self) -> DaskParts[Part]:
        return DaskParts(self.session, self.futures, self.futures)

    def _add_calls(
        self, graph: _Graph, step: Callable[..., Any], shared: Sequence[Any], run: Callable[..., Packed] = _change_part
    ) -> list[str]:
        pairs = [self.session.share(value, graph) for value in shared]
        called = Packed((step, [layout for layout, _ in pairs]))
        references = [each for _, some in pairs for each in some]
        parts = zip(self.settled, self.futures, strict=True)
        return [graph.add(run, called, *part, *references) for part in parts]

    def map(self, step: Callable[..., OtherPart], *shared: Any) -> DaskParts[OtherPart]:
        graph = _Graph(step)
        futures = self.session.run(graph, self._add_calls(graph, step, shared))
        return DaskParts(self.session, futures, self.settled)

    def map_each(self, step: Callable[..., OtherPart], arguments: Sequence[Any]) -> DaskParts[OtherPart]:
        graph, called = _Graph(step), Packed((step, [None]))
        parts = zip(self.settled, self.futures, map(Packed, arguments), strict=True)
        keys = [graph.add(_change_part, called, *part_and_argument) for part_and_argument in parts]
        return DaskParts(self.session, self.session.run(graph, keys), self.settled)

    def add_up(self, measure: Callable[..., Result], *shared: Any) -> Result:
        graph = _Graph(measure)
        return self._finish(graph, [], self._add_calls(graph, measure, shared, _look_at_part))[1]

    def map_and_add_up(
        self, step: Callable[..., tuple[OtherPart, Result]], *shared: Any
    ) -> tuple[DaskParts[OtherPart], Result]:
        graph = _Graph(step)
        parts = self._add_calls(graph, step, shared, _change_and_measure)
        # Only the summands travel to where they are added.
        futures, total = self._finish(graph, parts, [graph.add(_take_summand, part) for part in parts])
        return DaskParts(self.session, futures, self.settled), total

    def _finish(self, graph: _Graph, parts: list[str], results: list[str]) -> tuple[list[Future], Any]:
        """Add the tree of sums to the graph, run it, and wait for the sum."""
        root = add_in_tree(results, lambda group: graph.add(_add_results, *group))
        *futures, total = self.session.run(graph, [*parts, root])
        return futures, self.session.fetch([total])[0]

    def collect(self, look: Callable[..., Result], *shared: Any) -> list[Result]:
        graph = _Graph(look)
        futures = self.session.run(graph, self._add_calls(graph, look, shared, _look_at_part))
        return self.session.fetch(futures)

    def fits_locally(self, n_bytes: int) -> bool:
        import dask

        return n_bytes <= dask.utils.parse_bytes(dask.config.get(*_MOST_BYTES))

    def release(self) -> None:
        self.session.release()


def pair_chunks(X: Any, y: Any) -> DaskParts[tuple[Any, Any]]:
    """Return the chunks of rows of a Dask array and of its target, each pair in one place.

    Chunks of columns are joined.  A target whose chunks have unknown sizes must be chunked like the array.
    """
    client = require_client()
    if X.ndim != 2 or np.isnan(X.shape[1]) or X.shape[1] == 0:
        raise ValueError(f"X must have rows of samples and a known number of features, got shape {X.shape}.")
    if X.dtype.kind not in "buif":
        raise ValueError(f"X holds {X.dtype}, not real numbers.")
    X = X.rechunk({1: -1})
    y = chunk_like(X, y)
    session, graph = ClusterSession(client), _Graph(_pair)
    with _explain_loss(client):
        chunks = client.compute([chunk for array in (X, y) for chunk in array.to_delayed().ravel().tolist()])
    session.futures.update(chunks)
    n_pairs = len(chunks) // 2
    keys = [graph.add(_pair, *pair) for pair in zip(chunks[:n_pairs], chunks[n_pairs:], strict=True)]
    return DaskParts(session, session.run(graph, keys))


def _pair(samples: Any, target: Any) -> Packed:
    return Packed((samples, target))


def chunk_like(X: Any, y: Any) -> Any:
    """Return a target in the chunks of rows of a Dask array; raise if that is not possible."""
    import dask.array as da

    is_known = not np.isnan(X.shape[0])
    if not is_on_dask(y):
        if y is None or not is_known:
            raise ValueError("y must be a Dask array with chunks like those of X, because the length of X is unknown.")
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
