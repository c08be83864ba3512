"""A whole fit: search, description, first atoms, the loop (Algorithm 2), refinement, attributes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ..coding.encoder import Encoder
from ..dictionary import draw_dictionary
from ..fitting.data import TrainingSet, bring, fetch_candidates
from ..fitting.labels import Targets
from ..fitting.loop import CodedPart, FitSettings, Loop, State
from ..parallel import Parts, find_median
from ..refinement.epochs import MOST_SEEDS, Refinement, RefinementProgress, Task
from ..refinement.search import Row, SettingsSearch, choose_size, tabulate
from .progress import FitProgress
from .settings import Settings

Attributes = dict[str, Any]


class Snapshot(NamedTuple):
    """Where a fit is: what a checkpoint stores, and from where a fit goes on."""

    state: State
    rng: np.random.RandomState  # as it was at the end of the iteration
    refinement: RefinementProgress | None = None
    is_last: bool = False


class FitRun:
    """A fit that has begun.  Callbacks get it, and may set where it resumes and what keeps snapshots."""

    def __init__(self, training: TrainingSet, settings: Settings, rng: np.random.RandomState):
        self.training = replace(training, parts=training.parts.settle())
        self.settings = settings
        self.rng = rng
        self.loop = Loop(self.training, settings.loop)
        self.resume_from: Snapshot | None = None
        # They store snapshots; parts that they return are the same ones, without the steps that led there.
        self.keepers: list[Callable[[Snapshot], Parts[CodedPart] | None]] = []
        self.refinement: RefinementProgress | None = None  # to go on from

    def start(self) -> State:
        """Return the state before the first iteration, or the one to resume from."""
        if self.resume_from is not None:
            snapshot, self.resume_from = self.resume_from, None  # so that its state is freed once there is another
            self.refinement = snapshot.refinement
            return snapshot.state
        settings, facts = self.settings, self.training.facts
        if settings.warm_start is not None:
            past = settings.warm_start
            return self.loop.start(past.dictionary, past.coef, past.intercept)
        batches = fetch_candidates(self.training, settings.n_components, self.rng)
        init, size = settings.init, (settings.n_components, facts.n_features)
        atoms = init if isinstance(init, str) else init(self.training.description)
        return self.loop.start(draw_dictionary(atoms, batches, *size, facts.dtype, self.rng))

    def keep(self, snapshot: Snapshot) -> Parts[CodedPart]:
        """Show a snapshot to all keepers, and return its parts as these have kept them."""
        parts = snapshot.state.parts
        for keep in self.keepers:
            parts = keep(snapshot) or parts
        return parts

    @property
    def refines_here(self) -> bool:
        """Whether refinement has all samples in this process: a mini-batch takes less time than to ask a cluster."""
        facts = self.training.facts
        return self.training.parts.fits_locally(facts.n_samples * facts.n_features * facts.dtype.itemsize)


class Callbacks:
    """The callbacks of an estimator, and the progress that it shows."""

    def __init__(self, estimator: Any, X: Any, y: Any, progress: FitProgress | None):
        self.data: dict[str, Any] = {"estimator": estimator, "X": X, "y": y}
        self.progress = progress

    def begin(self, run: FitRun) -> None:
        """Announce a fit; a checkpoint may set where it resumes."""
        refiner = run.settings.refiner
        n_epochs = 0 if refiner is None else refiner.count_epochs()
        max_subtasks = run.settings.loop.max_iter + n_epochs
        self.context = self.data["estimator"]._init_callback_context(max_subtasks=max_subtasks)
        if self.progress is not None:
            self.progress.watch(run)
        self.context.call_on_fit_task_begin(**self.data, metadata={"run": run})

    def ask(self, task_name: str, make_attributes: Callable[[], Attributes]) -> bool:
        """Return whether one wants to stop after an iteration or epoch, given the attributes of the model so far."""
        task = self.context.subcontext(task_name=task_name)
        task.call_on_fit_task_begin(**self.data)
        return task.call_on_fit_task_end(**self.data, reconstruction_attributes=make_attributes)

    def end(self, attributes: Attributes) -> None:
        """Announce the end of a fit."""
        self.context.call_on_fit_task_end(**self.data, reconstruction_attributes=lambda: attributes)


def learn(
    training: TrainingSet,
    targets: Targets,
    settings: Settings,
    searched: Attributes,
    rng: np.random.RandomState,
    callbacks: Callbacks,
) -> tuple[Attributes, Encoder]:
    """Fit to described samples, and return the fitted attributes and the encoder at the end of the loop."""
    run = FitRun(training, settings, rng)
    callbacks.begin(run)

    def on_iteration(state: State) -> State:
        stops = callbacks.ask("iteration", lambda: describe_loop(state) | describe_model(run, targets, state))
        state = replace(state, stopped=state.stopped or stops)
        return replace(state, parts=run.keep(Snapshot(state, run.rng, is_last=run.loop.is_finished(state))))

    state = run.loop.run(run.start(), on_iteration)
    refitted = run.loop.refit_classifiers(state) if settings.refits else state
    attributes = describe_loop(state) | describe_model(run, targets, refitted)
    if settings.stores_codes:
        unknowns = state.collect_unknowns()
        attributes["codes_"] = unknowns.codes.to_csr(len(state.model.dictionary))
        attributes["noise_variance_"] = unknowns.noise_variance
    attributes |= searched
    if settings.refiner is not None:
        attributes |= refine(run, Snapshot(state, deepcopy(run.rng)), refitted, attributes, callbacks)
    return attributes, refitted.encoder


def choose_settings(
    training: TrainingSet, settings: Settings, on_trial: Callable[[Row], None] | None
) -> tuple[TrainingSet, Settings, Attributes]:
    """Return the described samples, settings of which nothing is open, and what was tried for that as an attribute."""
    tried: list[Row] = []
    if settings.refiner is not None and settings.rivals:
        size, init = settings.n_components, settings.init
        search = SettingsSearch(training, settings.rivals, settings.loop, settings.refiner, size, init)
        if (found := search.run(on_trial)) is not None:
            tried, loop = found.tried, replace(settings.loop, sparse_coder=found.sparse_coder)
            description, refiner, temperature = found.description, found.refiner, found.temperature
            settings = replace(settings, loop=loop, description=description, refiner=refiner, temperature=temperature)
    training = training.describe(settings.description, settings.image_shape)
    if settings.searches_size:
        assert isinstance(settings.init, str)  # atoms that are given have a number
        if (sizes := choose_size(training, settings.loop, settings.init, on_trial)) is not None:
            settings, tried = replace(settings, n_components=sizes[0]), [*sizes[1], *tried]
    return training, settings, {"search_": tabulate(tried)} if tried else {}


def describe_loop(state: State) -> Attributes:
    """Return the attributes that describe the loop."""
    return {"n_iter_": state.n_iter, "converged_": state.converged, "history_": state.history}


def describe_model(run: FitRun, targets: Targets, state: State) -> Attributes:
    """Return the attributes that prediction needs."""
    facts, model, noise_variance = run.training.facts, state.model, state.parts.map(attrgetter("noise_variance"))
    return describe_settings(run.settings.loop, state.encoder) | {
        "classes_": targets.classes,
        "description_": run.training.description,
        "class_prior_": facts.n_positive / facts.label_weight,
        "n_samples_seen_": facts.n_samples,
        "median_noise_variance_": find_median(noise_variance, facts.n_samples, facts.dtype),
        "priors_": state.priors,
        "components_": model.dictionary,
        "coef_": model.coef,
        "intercept_": model.intercept,
        "class_cost_": model.class_cost,
    }


def describe_settings(settings: FitSettings, encoder: Encoder) -> Attributes:
    """Return the attributes that hold strategies, with what was estimated from the samples."""
    return {
        "loss_": settings.loss,
        "sparse_coder_": encoder.sparse_coder,
        "n_nonzero_coefs_": min(settings.n_nonzero_coefs, len(encoder.dictionary)),
        "is_multilabel_": settings.is_multilabel,
    }


def refine(
    run: FitRun, end_of_loop: Snapshot, refitted: State, attributes: Attributes, callbacks: Callbacks
) -> Attributes:
    """Refine the model, and return the attributes that this changes."""
    refinement = prepare_refinement(run, refitted)
    # Drawn in any case, so that a generator of the user ends as if there had been no interruption.
    seed = int(run.rng.randint(MOST_SEEDS))

    def describe(progress: RefinementProgress) -> Attributes:
        best = progress.best
        class_cost, misfit = refinement.measure(best)
        noise_variance = refitted.priors.estimate_noise(misfit, run.training.facts.n_known)
        return {
            "components_": best.dictionary,
            "coef_": np.ascontiguousarray(best.coef_by_atom.T),
            "intercept_": best.intercept,
            "class_cost_": class_cost,
            "median_noise_variance_": float(np.median(noise_variance)),
            "refinement_": progress.history,
        }

    def on_epoch(progress: RefinementProgress) -> RefinementProgress:
        stops = callbacks.ask("epoch", lambda: attributes | describe(progress))
        progress = replace(progress, stopped=progress.stopped or stops)
        run.keep(end_of_loop._replace(refinement=progress, is_last=refinement.is_finished(progress)))
        return progress

    start = run.refinement or refinement.start(refitted.model.dictionary, seed)
    return describe(refinement.run(start, on_epoch))


def prepare_refinement(run: FitRun, state: State) -> Refinement:
    """Return the refinement of a model, where the samples are or here."""
    settings, loop, refiner = run.settings, run.settings.loop, run.settings.refiner
    assert refiner is not None
    class_cost = state.model.class_cost if loop.is_multilabel else np.ones_like(state.model.class_cost)
    cost = refiner.list_costs(loop.is_multilabel)[0](loop.loss, class_cost, loop.classification_weight)
    # Refinement fills missing features for itself, without the labels that the codes of the loop saw.
    parts = run.training.parts if loop.registration is None else state.parts.map(CodedPart.as_registered)
    n_jobs = loop.n_jobs
    if not parts.is_local and run.refines_here:
        n_jobs, parts = settings.n_jobs, bring(parts)
    images = settings.jitter, settings.image_shape, run.training.description
    task = Task(state.encoder, cost, n_jobs, loop.is_multilabel, *images)
    return Refinement(refiner, task, parts, fit_intercept=loop.fit_intercept, temperature=settings.temperature)
