"""Fits that can be killed: the whole state of the loop (Algorithm 2), kept in a file after each iteration.

A fit that goes on from the file ends with bitwise the model of one that was never interrupted, since the file holds all
that the next iteration depends on: the unknowns of Eq. 3, the floors, the history, and the state of the random numbers.
That is true only of the same data and parameters, so the file holds a fingerprint of them too.  A refinement is kept in
the same way after each epoch, beside the end of the loop.
"""

from __future__ import annotations

import hashlib
import os
import textwrap
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.callback import CallbackContext

from ..coding import get_numbers, recall_numbers
from ..estimators.classifier import DDLClassifier
from ..fitting.data import TrainingPart, TrainingSet
from ..fitting.loop import (
    AlternatingFit,
    FinishedLoop,
    FitProgress,
    IterationRecord,
)
from ..fitting.refinement import RefinementProgress
from ..fitting.size import DictionarySize
from ..objective import Floors
from ..parallel import split_rows
from ..strategies import check_number
from .codec import (
    Json,
    decode_history,
    decode_random_state,
    encode_history,
    encode_or_name,
    encode_random_state,
)
from .format import (
    CHECKPOINT,
    Container,
    ModelFileError,
    blame_file,
    read_container,
    write_container,
)
from .state import (
    check_arrays,
    lay_out_refinement,
    lay_out_state,
    read_refinement,
    read_state,
)

__all__ = ["Checkpoint"]

# What no fit depends on; how many iterations there are at most decides only when the loop ends.
_FREE_PARAMETERS = {
    "n_jobs",
    "max_iter",
    "inference",
    "n_candidates",
    "test_noise",
    "error_budget",
    "error_route",
    "missing",
    "n_views",
    "store_codes",
    "sparse_output",
}
_LONGEST_TEXT = 100


class Checkpoint:
    """A callback that keeps a fit of :class:`DDLClassifier` in a file, so that it can be resumed.

    Set it by ``model.set_callbacks(Checkpoint(path, resume=True))`` and fit.  If the fit is killed, do the same again:
    it goes on from the last file and ends with bitwise the same model, given the same data, parameters and versions
    of the libraries, whether it was killed in the loop or while it was refined.  ``n_jobs`` and what concerns only new
    samples may be changed, and ``max_iter`` may be raised to go on with a fit that ended there; it is refined anew
    then.  A fit that converged or that another callback stopped is finished.

    Strategies of your own are restored as far as their parameters go.  Each fit needs a path of its own.

    Parameters
    ----------
    path : str or path-like
        The file.  It is replaced in one step, so it is whole at every moment.
    every : int, default=1
        The file is written after so many iterations, or epochs of refinement, and at the end of both.
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
        loop.refinement_keepers.append(partial(self._keep_refinement, loop, identity))

    def on_fit_task_end(self, estimator: DDLClassifier, context: CallbackContext) -> bool:
        """Do nothing: whether other callbacks stop the fit is not known yet."""
        return False

    def teardown(self, estimator: DDLClassifier, context: CallbackContext) -> None:
        """Do nothing: the file is whole at every moment."""

    def _keep(self, loop: AlternatingFit, identity: Json, progress: FitProgress) -> None:
        if loop.is_finished(progress) or progress.n_iter % self.every == 0:
            content = identity | _describe(loop, progress, loop.rng)
            write_container(self.path, CHECKPOINT, content, lay_out_state(progress.state))

    def _keep_refinement(
        self,
        loop: AlternatingFit,
        identity: Json,
        finished: FinishedLoop,
        progress: RefinementProgress,
        is_last: bool,
    ) -> None:
        # The end of the loop stays in the file: with a larger max_iter, it is what goes on.
        if is_last or progress.n_epochs % self.every == 0:
            refinement, arrays = lay_out_refinement(progress)
            content = identity | _describe(loop, *finished) | {"refinement": refinement}
            write_container(self.path, CHECKPOINT, content, lay_out_state(finished.progress.state) | arrays)

    def _read(self) -> Container:
        """Return the checkpoint that is there, which may be replaced then; anything else may not."""
        try:
            return read_container(self.path, CHECKPOINT)
        except ModelFileError as error:
            raise ModelFileError(f"{error} It stays there: remove it, or give Checkpoint another path.") from error

    def _restore(self, loop: AlternatingFit, stored: Container, identity: Json, estimator: DDLClassifier) -> None:
        content, arrays = stored
        with blame_file(self.path):
            history = decode_history(content["history"], IterationRecord)
            floors = Floors(*(float(floor) for floor in content["floors"]))
            ending = bool(content["converged"]), bool(content["stopped"])
            # Files of earlier versions lack these, and have no need of them.
            weight = float(content.get("classification_weight", loop.settings.classification_weight))
            sizes = [DictionarySize(*row) for row in content.get("dictionary_sizes", [])]
            numbers = {name: float(number) for name, number in content.get("coder", {}).items()}
            if not 0 < weight < np.inf:
                raise ValueError(f"labels have the weight {weight}")
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
            refinement = content.get("refinement")
            check_arrays(arrays, loop, has_refinement=refinement is not None)
            state = read_state(arrays, loop)
            refined = None if refinement is None else read_refinement(refinement, arrays)
        if estimator.random_state is None:  # not NumPy's own generator, from which others draw
            loop.rng = rng
        else:
            loop.rng.set_state(rng.get_state())
        coder = recall_numbers(loop.settings.sparse_coder, numbers)
        loop.settings = replace(loop.settings, classification_weight=weight, estimate_weight=False, sparse_coder=coder)
        loop.dictionary_sizes = sizes
        loop.restored = FitProgress(state, floors, history, *ending)
        if loop.is_finished(loop.restored):  # or else another model will be refined
            loop.restored_refinement = refined


def _describe(loop: AlternatingFit, progress: FitProgress, rng: np.random.RandomState) -> dict[str, Json]:
    """Return what is no array of where the loop is."""
    return {
        "floors": list(progress.floors),
        "classification_weight": loop.settings.classification_weight,
        "coder": get_numbers(loop.settings.sparse_coder),
        "dictionary_sizes": [list(size) for size in loop.dictionary_sizes],
        "history": encode_history(progress.history),
        "converged": progress.converged,
        "stopped": progress.stopped,
        "random_numbers": encode_random_state(rng),
    }


def _identify(estimator: DDLClassifier, training: TrainingSet) -> dict[str, Json]:
    """Return what must be the same when the fit is resumed."""
    free = _list_free_parameters(estimator)
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in free}
    return {
        "parameters": {name: _identify_parameter(name, value) for name, value in parameters.items()},
        "data": _identify_data(training),
    }


def _list_free_parameters(estimator: DDLClassifier) -> set[str]:
    """Return the parameters on which this fit does not depend."""
    is_unused = {"alignment": not estimator.align_training, "jitter": estimator.refine is None}
    is_unused["image_shape"] = is_unused["alignment"] and (is_unused["jitter"] or estimator.jitter is None)
    return _FREE_PARAMETERS | {name for name in is_unused if is_unused[name]}


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
            differences.append(f"{name} differs: {_describe_data(then)} then, {_describe_data(now)} now")
    return sorted(differences)


def _describe_data(data: Json) -> str:
    return f"shape {tuple(data['shape'])} of {np.dtype(data['dtype'])} with SHA-256 {data['sha256'][:8]}"
