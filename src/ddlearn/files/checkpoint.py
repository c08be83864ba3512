"""Fits that can be killed: the whole state of a fit, stored in a file after each iteration.

A fit that is resumed from the file ends with bitwise the model of an uninterrupted one, since the file holds all that
the next iteration depends on: the unknowns of Eq. 3, the floors, the history, and the state of the random numbers.
This holds only for the same data and parameters, so the file also has a fingerprint of both.  During refinement the
file holds the end of the loop (Algorithm 2), and besides it the state after the last epoch.

On a cluster, each part writes the unknowns of its samples to a file of its own, where the part is, so that no sample's
code comes to the client.  The files are in a folder beside the checkpoint, which names them and replaces the one before
in one step.  Parts that are read from the files do not depend on the steps that led there: a lost one is read again,
and the scheduler forgets those steps.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import textwrap
from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.callback import CallbackContext

from ..coding.alignment import Alignment
from ..coding.encoder import Encoder
from ..estimators.classifier import DDLClassifier
from ..estimators.run import FitRun, Snapshot
from ..fitting.data import TrainingPart, TrainingSet
from ..fitting.loop import CodedPart, FitSettings, IterationRecord, State, Unknowns, get_unknowns, put_unknowns
from ..model.codes import Model, RowCodes
from ..model.strategies import check_number
from ..parallel import Parts, split_rows
from ..refinement.adam import Adam
from ..refinement.backward import RefinedModel
from ..refinement.epochs import MOST_SEEDS, RefinementProgress, count_kept_places
from ..refinement.refiner import REFINEMENT, EpochRecord
from .codec import Decoder, check_priors, decode_records, encode, encode_or_name, encode_records
from .format import (
    CHECKPOINT,
    ROWS,
    Arrays,
    Container,
    Json,
    ModelFileError,
    blame_file,
    check_array,
    read_container,
    write_container,
)
from .store import locate, make_absolute

# Parameters on which no fit depends; max_iter only decides when the loop ends.
_FREE_PARAMETERS = {"verbose", "n_jobs", "max_iter", "inference", "robustness", "n_views"}
_MODEL_ARRAYS = ("dictionary", "coef", "intercept", "class_cost")
# Everything in a refinement that has the shape of its parameters.
_REFINED = ("model", "best", "gradient_mean", "gradient_square")
# The arrays that have not the precision of the samples; those of integers are positions of atoms.
_DTYPES: dict[str, Any] = {"code_indices": np.int32, "refinement.codes.indices": np.int32, "class_cost": np.float64}


class Checkpoint:
    """A callback that stores a fit of :class:`DDLClassifier` in a file, so that it can be resumed.

    Set it by ``model.set_callbacks(Checkpoint(path, resume=True))`` and fit.  If the fit is killed, do the same again:
    it continues from the file and ends with bitwise the same model, given the same data, parameters and versions of the
    libraries, whether it was killed in the loop or during refinement.  ``n_jobs`` and parameters that concern only new
    samples may change, and ``max_iter`` may be raised to continue a fit that ended there; refinement then starts from
    scratch.  A fit that converged or that another callback stopped is finished.

    Of strategies of your own, only the parameters are restored.  Each fit needs its own path.  For a Dask array, client
    and workers must share its folder: workers store the codes of their samples in the folder ``path.rows``.  An address
    that fsspec knows, such as ``s3://bucket/fit``, is shared by all who may read and write there.

    Parameters
    ----------
    path : str or path-like
        The file, or its address.  It is replaced in one step, so it is complete at every moment.
    every : int, default=1
        Number of iterations, or epochs of refinement, after which the file is written; it is also written at the end
        of both.
    resume : bool, default=False
        Whether to continue from an existing file; otherwise an existing checkpoint is replaced.

    See Also
    --------
    save : Writes a fitted model.

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
            raise ValueError("every must be at least 1, a checkpoint after each iteration; got 0.")
        self.path = os.fspath(path)
        self.every = every
        self.resume = resume
        self._stored: tuple[Any, RowStore] | None = None  # parts of a cluster, and their files

    def __repr__(self) -> str:
        return f"Checkpoint({self.path!r}, every={self.every}, resume={self.resume})"

    def setup(self, estimator: Any, context: CallbackContext) -> None:
        """Raise unless the fits of this estimator can be stored."""
        if not isinstance(estimator, DDLClassifier):
            raise TypeError(f"Checkpoint stores fits of DDLClassifier, not of {type(estimator).__name__}.")

    def on_fit_task_begin(
        self, estimator: DDLClassifier, context: CallbackContext, *, metadata: dict[str, Any] | None
    ) -> None:
        """Set where the fit resumes, and store it from then on."""
        if metadata is None:  # an iteration or epoch begins
            return
        run: FitRun = metadata["run"]
        fingerprint = _take_fingerprint(estimator, run.training)
        self._stored = None
        files, place = locate(self.path)
        if files.exists(place):
            try:
                stored = read_container(self.path, CHECKPOINT)
            except ModelFileError as error:  # only a checkpoint may be replaced
                advice = "It is left as it is: remove it, or give Checkpoint another path."
                raise ModelFileError(f"{error} {advice}") from error
            if self.resume:
                run.resume_from = self._restore(run, stored, fingerprint)
                if estimator.random_state is None:  # the generator is NumPy's own, which must be left alone
                    run.rng = run.resume_from.rng
                else:
                    run.rng.set_state(run.resume_from.rng.get_state())
        run.keepers.append(partial(self._keep, run.training, run.settings.loop, fingerprint))

    def on_fit_task_end(self, estimator: DDLClassifier, context: CallbackContext) -> bool:
        """Do nothing: whether other callbacks stop the fit is not known yet."""
        return False

    def teardown(self, estimator: DDLClassifier, context: CallbackContext) -> None:
        """Do nothing: the file is complete at every moment."""

    def _keep(
        self, training: TrainingSet, settings: FitSettings, fingerprint: Json, snapshot: Snapshot
    ) -> Parts[CodedPart] | None:
        """Store a fit, if it is time; return the parts that were stored as ones that do not depend on the past."""
        refinement, state = snapshot.refinement, snapshot.state
        n_done = state.n_iter if refinement is None else refinement.n_epochs
        if not snapshot.is_last and n_done % self.every:
            return None
        content, arrays = _encode_snapshot(snapshot)
        content["fingerprint"] = fingerprint
        if state.parts.is_local:
            write_container(self.path, CHECKPOINT, content, arrays | _list_arrays(state.collect_unknowns()))
            return None
        if self._stored is None or self._stored[0] is not state.parts:
            store = RowStore.beside(self.path, secrets.token_hex(8))
            store.write(state.parts)
            self._stored = store.read(training.parts, _RowSizes.of(settings, len(state.model.dictionary))), store
        parts, store = self._stored
        write_container(self.path, CHECKPOINT, content | {"rows": store.token}, arrays)
        store.remove_others()
        return parts

    def _restore(self, run: FitRun, stored: Container, fingerprint: Json) -> Snapshot:
        with blame_file(self.path):
            differences = _compare(stored.content["fingerprint"], fingerprint)
            history = decode_records(stored.content["history"], IterationRecord)
        n_iter, max_iter = len(history) - 1, run.settings.loop.max_iter
        if n_iter > max_iter:
            differences.append(f"it has done {n_iter} iterations, more than max_iter={max_iter}")
        if differences:
            raise ValueError(
                f"The fit in {self.path} cannot be resumed: {'; '.join(differences)}. Use the same data and "
                "parameters, and a max_iter that is large enough, or start from scratch with resume=False."
            )
        with blame_file(self.path):
            return _decode_snapshot(stored, history, run, self.path)


def _encode_snapshot(snapshot: Snapshot) -> tuple[dict[str, Json], Arrays]:
    state, refinement = snapshot.state, snapshot.refinement
    content = {
        "priors": encode("priors", state.priors, {}),
        "coder": state.encoder.sparse_coder.learned_parameters(),
        "history": encode_records(state.history, IterationRecord),
        "converged": state.converged,
        "stopped": state.stopped,
        "random_numbers": encode("random_numbers", snapshot.rng, {}),
    }
    arrays = {name: getattr(state.model, name) for name in _MODEL_ARRAYS}
    if refinement is not None:
        adam = refinement.adam
        content["refinement"] = {
            "history": encode_records(refinement.history, EpochRecord),
            "n_steps": adam.n_steps,
            "seed": refinement.seed,
            "stopped": refinement.stopped,
        }
        refined = (adam.model, refinement.best, adam.mean, adam.square)
        for prefix, parameters in zip(_REFINED, refined, strict=True):
            arrays |= {f"refinement.{prefix}.{name}": array for name, array in parameters._asdict().items()}
        arrays |= {f"refinement.codes.{name}": array for name, array in refinement.codes._asdict().items()}
    return content, arrays


class _RowSizes(NamedTuple):
    """The sizes of what is stored of the rows of a fit."""

    n_components: int
    n_nonzero_coefs: int
    n_positions: int

    @classmethod
    def of(cls, settings: FitSettings, n_components: int) -> _RowSizes:
        """Return the sizes of a fit with this number of atoms."""
        registration = settings.registration
        return cls(n_components, settings.n_nonzero_coefs, 0 if registration is None else len(registration.units))

    def list_shapes(self, n_rows: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of some rows."""
        codes = (n_rows, self.n_nonzero_coefs)
        shapes: dict[str, tuple[int, ...]] = {"code_indices": codes, "code_values": codes, "noise_variance": (n_rows,)}
        return shapes | {"positions": (n_rows, self.n_positions)} if self.n_positions else shapes


class RowStore(NamedTuple):
    """The files of all parts of a cluster at one moment of a fit, which client and workers can reach."""

    folder: str
    token: str  # in the names of all of them

    @classmethod
    def beside(cls, path: str, token: Any) -> RowStore:
        """Return the files with a token in the folder beside a checkpoint."""
        if not (isinstance(token, str) and token.isalnum()):
            raise ValueError(f"the names of its parts have the token {token!r}")
        return cls(f"{make_absolute(path)}.rows", token)

    def find_path(self, part: TrainingPart) -> str:
        """Return the path of a part's file."""
        return f"{self.folder}/{self.token}-{part.first_row}.safetensors"

    def write(self, parts: Parts[CodedPart]) -> None:
        """Let all parts write their files."""
        places = [(path, *locate(path)) for path in parts.collect(_write_part, self)]
        missing = [path for path, files, place in places if not files.exists(place)]
        if missing:
            raise FileNotFoundError(
                f"The workers wrote {len(missing)} parts of a checkpoint that are not here, such as {missing[0]}: "
                "give Checkpoint a path in a folder that this process shares with all workers, or an address such as "
                "s3://bucket/fit."
            )

    def read(self, parts: Parts[TrainingPart], sizes: _RowSizes) -> Parts[CodedPart]:
        """Return the parts with the unknowns in their files, which have these sizes."""
        return parts.map(_read_part, self, sizes)

    def remove_others(self) -> None:
        """Remove the files of earlier moments."""
        files, folder = locate(self.folder)
        for path in files.ls(folder, detail=False):
            if not path.rsplit("/", 1)[-1].startswith(self.token):
                files.rm_file(path)


def _write_part(part: CodedPart, store: RowStore) -> str:
    files, folder = locate(store.folder)
    files.makedirs(folder, exist_ok=True)
    path = store.find_path(part)
    write_container(path, ROWS, {}, _list_arrays(get_unknowns(part)))
    return path


def _read_part(part: TrainingPart, store: RowStore, sizes: _RowSizes) -> CodedPart:
    path = store.find_path(part)
    arrays = read_container(path, ROWS).arrays
    with blame_file(path):
        _check_arrays(arrays, sizes.list_shapes(len(part)), part.X.dtype, sizes.n_components)
    return put_unknowns(part, _make_rows(arrays), part.first_row)


def _list_arrays(rows: Unknowns) -> Arrays:
    """Return the arrays of some rows by the names that they have in files."""
    arrays = {"code_indices": rows.codes.indices, "code_values": rows.codes.values}
    arrays |= {"noise_variance": rows.noise_variance}
    return arrays if rows.positions is None else arrays | {"positions": rows.positions}


def _make_rows(arrays: Arrays) -> Unknowns:
    """Return the rows whose arrays these are."""
    codes = RowCodes(arrays["code_indices"], arrays["code_values"])
    return Unknowns(codes, arrays["noise_variance"], arrays.get("positions"))


def _decode_snapshot(stored: Container, history: list[IterationRecord], run: FitRun, path: str) -> Snapshot:
    content, arrays = stored
    rng, priors = (Decoder({}, {}).decode(name, content[name]) for name in ("random_numbers", "priors"))
    if not isinstance(rng, np.random.RandomState):
        raise TypeError(f"the random numbers are a {type(rng).__name__}")
    sizes = _RowSizes.of(run.settings.loop, len(arrays["dictionary"]))
    shapes = _list_shapes(run, sizes, has_refinement="refinement" in content, has_rows="rows" not in content)
    _check_arrays(arrays, shapes, run.training.facts.dtype, sizes.n_components)
    numbers = {name: float(number) for name, number in content["coder"].items()}
    coder = run.settings.loop.sparse_coder.with_learned_parameters(numbers)
    model = Model(*(arrays[name] for name in _MODEL_ARRAYS))
    encoder = Encoder.of(model.dictionary, coder, run.settings.loop.n_nonzero_coefs, run.settings.loop.n_jobs)
    if "rows" in content:
        parts = RowStore.beside(path, content["rows"]).read(run.training.parts, sizes)
    else:
        parts = run.training.parts.map(put_unknowns, _make_rows(arrays))
    check_priors(priors, len(model.coef))
    state = State(model, encoder, parts, priors, history, bool(content["converged"]), bool(content["stopped"]))
    refinement = _decode_refinement(content["refinement"], arrays) if "refinement" in content else None
    # An unfinished loop will end with another model, which is to be refined from scratch.
    return Snapshot(state, rng, refinement if run.loop.is_finished(state) else None)


def _decode_refinement(content: Json, arrays: Arrays) -> RefinementProgress:
    history = decode_records(content["history"], EpochRecord)
    for name, largest in {"n_steps": np.inf, "seed": MOST_SEEDS - 1}.items():
        if type(content[name]) is not int or not 0 <= content[name] <= largest:
            raise ValueError(f"{name} of the refinement is {content[name]!r}")
    model, best, mean, square = (
        RefinedModel(*(arrays[f"refinement.{prefix}.{name}"] for name in RefinedModel._fields)) for prefix in _REFINED
    )
    if any((squares < 0).any() for squares in square):
        raise ValueError("there are squares of gradients below 0")
    codes = RowCodes(*(arrays[f"refinement.codes.{name}"] for name in RowCodes._fields))
    return RefinementProgress(
        Adam(model, mean, square, content["n_steps"]), best, history, content["seed"], codes, bool(content["stopped"])
    )


def _list_shapes(run: FitRun, sizes: _RowSizes, *, has_refinement: bool, has_rows: bool) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all arrays in the file of a fit."""
    facts, n_components, n_classes = run.training.facts, sizes.n_components, run.training.facts.n_classes
    parameters = {"dictionary": (n_components, facts.n_features), "intercept": (n_classes,)}
    shapes: dict[str, tuple[int, ...]] = {**parameters, "coef": (n_classes, n_components), "class_cost": (n_classes,)}
    if has_rows:
        shapes |= sizes.list_shapes(facts.n_samples)
    if has_refinement:
        parameters |= {"own_coef": (n_components, n_classes), "linear_coef": (facts.n_features, n_classes)}
        shapes |= {f"refinement.{prefix}.{name}": parameters[name] for prefix in _REFINED for name in parameters}
        budgets = sizes.n_nonzero_coefs, facts.n_features
        n_places = count_kept_places(run.settings.loop.sparse_coder, *budgets, run.settings.jitter, run.refines_here)
        shapes |= {f"refinement.codes.{name}": (facts.n_samples, n_places) for name in RowCodes._fields}
    return shapes


def _check_arrays(arrays: Arrays, shapes: dict[str, tuple[int, ...]], dtype: Any, n_components: int) -> None:
    """Raise unless these are the arrays of that shape, all numbers are finite, and codes use atoms that there are."""
    if set(arrays) != set(shapes):
        raise ValueError(f"it has the arrays {sorted(arrays)} instead of {sorted(shapes)}")
    for name, array in arrays.items():
        check_array(name, array, shapes[name], _DTYPES.get(name, dtype))
        if array.dtype == np.int32 and array.size and not 0 <= array.min() <= array.max() < n_components:
            raise ValueError(f"codes use atoms beyond the {n_components} of the dictionary")


def _take_fingerprint(estimator: DDLClassifier, training: TrainingSet) -> dict[str, Json]:
    """Return what must be the same when the fit is resumed: parameters, samples and labels, and how they are cut."""
    parameters = estimator.get_params(deep=False)
    refiner, alignment = REFINEMENT.resolve(estimator.refine), estimator.alignment
    if not (isinstance(alignment, Alignment) and alignment.training):
        parameters["alignment"] = None  # it concerns only new samples
        if refiner is None or refiner.jitter is None:
            del parameters["image_shape"]
    used = {name: value for name, value in parameters.items() if name not in _FREE_PARAMETERS}
    facts = training.facts
    samples, labels = zip(*training.parts.collect(_hash_part), strict=True)  # computed where the parts are
    return {name: _describe_parameter(name, value) for name, value in used.items()} | {
        "X": _describe_data(facts.n_rows, facts.n_features, facts.dtype, samples),
        "y": _describe_data(facts.n_rows, facts.n_classes, np.dtype(np.int8), labels),
    }


def _describe_parameter(name: str, value: Any) -> dict[str, Json]:
    if isinstance(value, np.random.RandomState):  # its state is stored elsewhere
        return {"value": "RandomState", "text": "RandomState"}
    arrays: Arrays = {}
    stored = encode_or_name(name, value.item() if isinstance(value, np.generic) else value, arrays)
    return {"value": [stored, _hash(*arrays.values())], "text": textwrap.shorten(repr(value), 100)}


def _describe_data(n_rows: Sequence[int], n_columns: int, dtype: np.dtype, hashes: Sequence[str]) -> dict[str, Json]:
    digest = hashlib.sha256("".join(hashes).encode()).hexdigest()
    text = f"{dtype} of shape {(sum(n_rows), n_columns)} in {len(n_rows)} parts with SHA-256 {digest[:8]}"
    return {"value": [dtype.str, *n_rows, n_columns, digest], "text": text}


def _hash_part(part: TrainingPart) -> tuple[str, str]:
    return _hash(part.X, part.is_known), _hash(part.labels, part.weights, part.held_out)


def _hash(*arrays: NDArray[Any] | None) -> str:
    """Return the SHA-256 of arrays, some of which there need not be; mapped ones are read piece by piece."""
    digest = hashlib.sha256()
    for array in map(np.atleast_1d, (array for array in arrays if array is not None)):
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        for rows in split_rows(len(array)):
            digest.update(np.asarray(array[rows]).tobytes())
    return digest.hexdigest()


def _compare(stored: Json, here: Json) -> list[str]:
    """Return the differences between two fingerprints, in words."""
    return [
        f"{name} was {textwrap.shorten(stored[name]['text'], 100)} and is {here[name]['text']} now"
        for name in sorted(stored.keys() & here.keys() | {"X", "y"})
        if stored[name]["value"] != here[name]["value"]
    ]
