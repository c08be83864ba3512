"""Fits that can be killed: the whole state of the loop (Algorithm 2), kept in a file after each iteration.

A fit that goes on from the file ends with bitwise the model of one that was never interrupted, since the file holds all
that the next iteration depends on: the unknowns of Eq. 3, the floors, the history, and the state of the random numbers.
That is true only of the same data and parameters, so the file holds a fingerprint of them too.
"""

from __future__ import annotations

import hashlib
import os
import textwrap
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.callback import CallbackContext

from .blocks import split_rows
from .codes import RowCodes
from .container import CHECKPOINT, Arrays, Container, ModelFileError, blame_file, read_container, write_container
from .estimator import DDLClassifier
from .fitting import AlternatingFit, FitProgress, FitState
from .objective import Floors
from .stored_values import (
    Json,
    decode_history,
    decode_random_state,
    encode_history,
    encode_or_name,
    encode_random_state,
)
from .strategies import check_number
from .training_parts import RowState, TrainingPart, TrainingSet

__all__ = ["Checkpoint"]

# What the loop does not depend on; how many iterations there are at most decides only when it ends.
_FREE_PARAMETERS = {
    "n_jobs",
    "max_iter",
    "inference",
    "n_candidates",
    "test_noise",
    "error_budget",
    "error_route",
    "missing",
    "store_codes",
    "sparse_output",
}
_ALIGNMENT_PARAMETERS = {"alignment", "image_shape"}  # not in the loop unless training samples are aligned
_LONGEST_TEXT = 100
# What samples share; the rest belongs to each of them.
_SHARED_ARRAYS = ("dictionary", "coef", "intercept", "class_cost")


class Checkpoint:
    """A callback that keeps a fit of :class:`DDLClassifier` in a file, so that it can be resumed.

    Set it by ``model.set_callbacks(Checkpoint(path, resume=True))`` and fit.  If the fit is killed, do the same again:
    it goes on from the last file and ends with bitwise the same model, given the same data, parameters and versions
    of the libraries.  ``n_jobs`` and what concerns only new samples may be changed, and ``max_iter`` may be raised to
    go on with a fit that ended there.  A fit that converged or that another callback stopped is finished.

    Strategies of your own are restored as far as their parameters go.  Each fit needs a path of its own.

    Parameters
    ----------
    path : str or path-like
        The file.  It is replaced in one step, so it is whole at every moment.
    every : int, default=1
        The file is written after so many iterations, and at the end.
    resume : bool, default=False
        Go on from the file if there is one.  Otherwise a checkpoint that is there will be replaced.

    See Also
    --------
    save : Writes a model that has been fitted.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import Checkpoint, DDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=50, max_iter=2, tol=0, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(os.path.join(folder, "fit.checkpoint"), resume=True)
    ...     _ = model.set_callbacks(checkpoint).fit(X, y)
    ...     resumed = model.set_params(max_iter=3).fit(X, y)  # one more iteration
    >>> [record.iteration for record in resumed.history_]
    [0, 1, 2, 3]
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 1, resume: bool = False):
        check_number("every", every, Integral)
        if every == 0:
            raise ValueError("every must be at least 1: a checkpoint after each iteration.")
        self.path = os.fspath(path)
        self.every = every
        self.resume = resume

    def __repr__(self) -> str:
        return f"Checkpoint({self.path!r}, every={self.every}, resume={self.resume})"

    def setup(self, estimator: Any, context: CallbackContext) -> None:
        """Look whether this is an estimator whose fits can be kept."""
        if not isinstance(estimator, DDLClassifier):
            raise TypeError(f"Checkpoint keeps fits of DDLClassifier, not of {type(estimator).__name__}.")

    def on_fit_task_begin(
        self, estimator: DDLClassifier, context: CallbackContext, *, metadata: dict[str, Any] | None
    ) -> None:
        """Restore the loop, and ask to be told of each iteration."""
        if metadata is None:  # an iteration begins
            return
        loop: AlternatingFit = metadata["loop"]
        identity = _identify(estimator, loop.training)
        if os.path.exists(self.path):
            stored = self._read()
            if self.resume:
                self._restore(loop, stored, identity, estimator)
        loop.keepers.append(partial(self._keep, loop, identity))

    def on_fit_task_end(self, estimator: DDLClassifier, context: CallbackContext) -> bool:
        """Do nothing: whether other callbacks stop the fit is not known yet."""
        return False

    def teardown(self, estimator: DDLClassifier, context: CallbackContext) -> None:
        """Do nothing: the file is whole at every moment."""

    def _keep(self, loop: AlternatingFit, identity: Json, progress: FitProgress) -> None:
        is_last = progress.converged or progress.stopped or progress.n_iter >= loop.settings.max_iter
        if is_last or progress.n_iter % self.every == 0:
            content = {
                **identity,
                "floors": list(progress.floors),
                "history": encode_history(progress.history),
                "converged": progress.converged,
                "stopped": progress.stopped,
                "random_numbers": encode_random_state(loop.rng),
            }
            write_container(self.path, CHECKPOINT, content, _lay_out(progress.state))

    def _read(self) -> Container:
        """Return the checkpoint that is there, which may be replaced then; anything else may not."""
        try:
            return read_container(self.path, CHECKPOINT)
        except ModelFileError as error:
            raise ModelFileError(f"{error} It stays there: remove it, or give Checkpoint another path.") from error

    def _restore(self, loop: AlternatingFit, stored: Container, identity: Json, estimator: DDLClassifier) -> None:
        content, arrays = stored
        with blame_file(self.path):
            history = decode_history(content["history"])
            floors = Floors(*(float(floor) for floor in content["floors"]))
            ending = bool(content["converged"]), bool(content["stopped"])
            rng = decode_random_state(content["random_numbers"])
            differences = _compare(content, identity)
        if differences:
            raise ValueError(
                f"The fit in {self.path} cannot be resumed, since it was another one: {'; '.join(differences)}. "
                "Give the same data and parameters, or begin anew with resume=False."
            )
        n_iter = len(history) - 1
        if n_iter > loop.settings.max_iter:
            raise ValueError(
                f"The fit in {self.path} has done {n_iter} iterations, more than "
                f"max_iter={loop.settings.max_iter}: raise max_iter, or begin anew with resume=False."
            )
        with blame_file(self.path):
            _check_arrays(arrays, loop)
            state = _read_state(arrays, loop)
        if estimator.random_state is None:  # not NumPy's own generator, from which others draw
            loop.rng = rng
        else:
            loop.rng.set_state(rng.get_state())
        loop.restored = FitProgress(state, floors, history, *ending)


def _identify(estimator: DDLClassifier, training: TrainingSet) -> dict[str, Json]:
    """Return what must be the same when the fit is resumed."""
    free = _FREE_PARAMETERS if estimator.align_training else _FREE_PARAMETERS | _ALIGNMENT_PARAMETERS
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in free}
    return {
        "parameters": {name: _identify_parameter(name, value) for name, value in parameters.items()},
        "data": _identify_data(training),
    }


def _hash_part(part: TrainingPart) -> tuple[str, str]:
    return _hash_rows(part.images), _hash_rows(part.labels)


def _identify_data(training: TrainingSet) -> dict[str, Json]:
    """Return a fingerprint of samples and labels, made where they are; the way they are cut is a part of it."""
    facts = training.facts
    fingerprints = zip(*training.parts.collect(_hash_part), strict=True)
    samples, labels = (hashlib.sha256("".join(hashes).encode()).hexdigest() for hashes in fingerprints)
    return {
        "parts": list(facts.n_rows),
        "X": {"shape": [facts.n_samples, facts.n_features], "dtype": facts.dtype.str, "sha256": samples},
        "y": {"shape": [facts.n_samples, facts.n_classes], "dtype": np.dtype(np.int8).str, "sha256": labels},
    }


def _identify_parameter(name: str, value: Any) -> dict[str, Json]:
    if isinstance(value, np.random.RandomState):  # the file has its own state of it
        return {"value": {"type": "random_state"}, "text": "RandomState"}
    value = value.item() if isinstance(value, np.generic) else value
    stored = encode_or_name(name, value, lambda name, array: _identify_array(array))
    return {"value": stored, "text": textwrap.shorten(repr(value), _LONGEST_TEXT)}


def _identify_array(array: NDArray[Any]) -> dict[str, Json]:
    return {"shape": list(array.shape), "dtype": array.dtype.str, "sha256": _hash_rows(array)}


def _hash_rows(array: NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for rows in split_rows(len(array)) if array.ndim else [...]:
        digest.update(np.asarray(array[rows]).tobytes())
    return digest.hexdigest()


def _compare(stored: Json, here: Json) -> list[str]:
    """Name what differs, of all that both fits depend on."""
    differences = []
    for name in stored["parameters"].keys() & here["parameters"].keys():
        then, now = stored["parameters"][name], here["parameters"][name]
        if then["value"] != now["value"]:
            differences.append(f"{name} was {then['text']} and is {now['text']} now")
    then, now = stored["data"]["parts"], here["data"]["parts"]
    if sum(then) == sum(now) and then != now:
        return [*differences, f"the samples were cut into {len(then)} parts and are cut into others now"]
    for name in ("X", "y"):
        then, now = stored["data"][name], here["data"][name]
        if then != now:
            differences.append(f"{name} differs: {_describe(then)} then, {_describe(now)} now")
    return sorted(differences)


def _describe(data: Json) -> str:
    return f"shape {tuple(data['shape'])} of {np.dtype(data['dtype'])} with SHA-256 {data['sha256'][:8]}"


def _lay_out(state: FitState) -> Arrays:
    rows = state.collect_rows()
    arrays = {name: getattr(state, name) for name in _SHARED_ARRAYS}
    arrays |= {"code_indices": rows.codes.indices, "code_values": rows.codes.values}
    arrays["noise_variance"] = rows.noise_variance
    return arrays if rows.positions is None else arrays | {"positions": rows.positions}


def _read_state(arrays: Arrays, loop: AlternatingFit) -> FitState:
    codes = RowCodes(arrays["code_indices"], arrays["code_values"])
    rows = RowState(codes, arrays["noise_variance"], arrays.get("positions"))
    shared = {name: arrays[name] for name in _SHARED_ARRAYS}
    return FitState(**shared, parts=loop.training.parts).put_rows(rows, loop.facts.row_slices)


def _check_arrays(arrays: Arrays, loop: AlternatingFit) -> None:
    """Raise unless the state fits the data and is sound."""
    facts = loop.facts
    n_samples, n_features, n_classes = facts.n_samples, facts.n_features, facts.n_classes
    n_components = len(arrays.get("dictionary", ()))
    code_shape = (n_samples, loop.settings.n_nonzero_coefs)
    shapes = {
        "dictionary": (n_components, n_features),
        "coef": (n_classes, n_components),
        "intercept": (n_classes,),
        "noise_variance": (n_samples,),
        "class_cost": (n_classes,),
        "code_indices": code_shape,
        "code_values": code_shape,
    }
    if loop.settings.registration is not None:
        shapes["positions"] = (n_samples, len(loop.settings.registration.frame.units))
    dtypes = dict.fromkeys(shapes, facts.dtype) | {"code_indices": np.int32, "class_cost": np.float64}
    if set(arrays) != set(shapes):
        raise ValueError(f"it has the arrays {sorted(arrays)} instead of {sorted(shapes)}")
    for name, array in arrays.items():
        if array.shape != shapes[name] or array.dtype != dtypes[name]:
            raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, expected {shapes[name]}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} has values that are not finite")
    indices = arrays["code_indices"]
    if indices.size and not 0 <= indices.min() <= indices.max() < n_components:
        raise ValueError(f"codes use atoms that are not among the {n_components}")
