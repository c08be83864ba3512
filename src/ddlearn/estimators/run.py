"""One fit from the first atoms to the fitted attributes: loop (Algorithm 2), training on label-free codes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.callback import CallbackContext

from ..coding.encoder import Encoder
from ..describe.jitter import Jitter
from ..dictionary import draw_dictionary
from ..fitting.data import TrainingSet, bring, fetch_candidates
from ..fitting.labels import Targets
from ..fitting.loop import CodedPart, FitSettings, Loop, State
from ..model.codes import Model
from ..model.scales import Priors
from ..parallel import Parts, find_median
from ..refinement.backward import TaskGradient
from ..refinement.epochs import MOST_SEEDS, Refinement, RefinementProgress
from ..refinement.refiner import Refiner
from ..refinement.search import Row, tabulate

Attributes = dict[str, Any]


@dataclass(frozen=True)
class FitPlan:
    """What comes before and after the loop."""

    n_components: int
    tried: list[Row]  # by the searches for settings and for the number of atoms
    init: str | ArrayLike
    warm_start: Model | None  # begin with its dictionary and classifiers
    refits: bool  # train the classifiers on label-free codes in the end
    refiner: Refiner | None
    temperature: float | None  # of the evidence, estimated on samples that the search held out
    jitter: Jitter | None  # of the refiner
    image_shape: tuple[int, int] | None
    stores_codes: bool
    n_jobs: int | None  # threads of this process, also where those of the loop are on workers


class Snapshot(NamedTuple):
    """Where a fit is: what a checkpoint stores, and from where a fit goes on."""

    state: State
    rng: np.random.RandomState  # as it was at the end of the iteration
    refinement: RefinementProgress | None = None
    is_last: bool = False


@dataclass(frozen=True)
class Report:
    """Calls the callbacks of an estimator at the end of an iteration or epoch."""

    context: CallbackContext
    estimator: Any
    X: Any
    y: Any

    def __call__(self, task_name: str, number: int, make_attributes: Callable[[], Attributes]) -> bool:
        """Return whether a callback asks to stop; ``make_attributes`` returns the attributes of the model so far."""
        task = self.context.subcontext(task_name=task_name)
        fit: dict[str, Any] = {"estimator": self.estimator, "X": self.X, "y": self.y}
        task.call_on_fit_task_begin(**fit)
        return task.call_on_fit_task_end(**fit, reconstruction_attributes=make_attributes)


class FitRun:
    """One fit.  Callbacks get it when the fit begins, and may set where to resume and what keeps snapshots."""

    encoder: Encoder  # of the dictionary at the end of the loop

    def __init__(
        self,
        training: TrainingSet,
        targets: Targets,
        settings: FitSettings,
        plan: FitPlan,
        rng: np.random.RandomState,
        report: Report,
    ):
        self.training = replace(training, parts=training.parts.settle())
        self.loop = Loop(self.training, settings)
        self.targets = targets
        self.settings = settings
        self.plan = plan
        self.rng = rng
        self.report = report
        self.resume_from: Snapshot | None = None
        # They store snapshots; parts that they return are the same ones, without the steps that led there.
        self.keepers: list[Callable[[Snapshot], Parts[CodedPart] | None]] = []
        self.refinement: RefinementProgress | None = None  # to go on from

    def run(self) -> Attributes:
        """Fit, and return the fitted attributes."""

        def on_iteration(state: State) -> State:
            stops = self.report(
                "iteration", state.n_iter, lambda: {"history_": state.history} | self._model_attributes(state)
            )
            state = replace(state, stopped=state.stopped or stops)
            snapshot = Snapshot(state, self.rng, is_last=self.loop.is_finished(state))
            parts = state.parts
            for keep in self.keepers:
                parts = keep(snapshot) or parts
            return replace(state, parts=parts)

        # Without a name here, the first state is freed when the second is there.
        state = refitted = self.loop.run(self._begin(), on_iteration)
        if self._trains_on_label_free_codes():
            refitted = self.loop.refit_classifiers(state)
        self.encoder = refitted.encoder
        attributes = self._loop_attributes(state) | self._model_attributes(refitted)
        if self.plan.stores_codes:
            unknowns = state.collect_unknowns()
            attributes["codes_"] = unknowns.codes.to_csr(len(state.model.dictionary))
            attributes["noise_variance_"] = unknowns.noise_variance
        if self.plan.refiner is not None:
            attributes |= self._refine(Snapshot(state, deepcopy(self.rng)), refitted, attributes)
        return attributes

    def _trains_on_label_free_codes(self) -> bool:
        """Whether classifiers are, after the loop.

        Refinement trains its own, but keeps the class costs of these where samples may have several classes, and needs
        images registered as new ones are.
        """
        refiner, settings = self.plan.refiner, self.settings
        if refiner is None:
            return self.plan.refits
        return settings.is_multilabel or settings.registration is not None

    def _begin(self) -> State:
        """Return the state before the first iteration, or the one to resume from."""
        if self.resume_from is not None:
            snapshot, self.resume_from = self.resume_from, None  # so that its state is freed once there is another
            self.refinement = snapshot.refinement
            return snapshot.state
        plan, facts = self.plan, self.training.facts
        if plan.warm_start is not None:
            past = plan.warm_start
            return self.loop.start(past.dictionary, past.coef, past.intercept)
        batches = fetch_candidates(self.training, plan.n_components, self.rng)
        dictionary = draw_dictionary(plan.init, batches, plan.n_components, facts.n_features, facts.dtype, self.rng)
        return self.loop.start(dictionary)

    def _loop_attributes(self, state: State) -> Attributes:
        """Return the attributes that describe the loop."""
        attributes: Attributes = {"n_iter_": state.n_iter, "converged_": state.converged, "history_": state.history}
        if self.plan.tried:
            attributes["search_"] = tabulate(self.plan.tried)
        return attributes

    def _model_attributes(self, state: State) -> Attributes:
        """Return the attributes that prediction needs."""
        facts, model = self.training.facts, state.model
        return describe_settings(self.settings, state.encoder) | {
            "classes_": self.targets.classes,
            "description_": self.training.description,
            "class_prior_": facts.n_positive / facts.label_weight,
            "n_samples_seen_": facts.n_samples,
            "median_noise_variance_": find_median(
                state.parts.map(attrgetter("noise_variance")), facts.n_samples, facts.dtype
            ),
            "priors_": state.priors,
            "components_": model.dictionary,
            "coef_": model.coef,
            "intercept_": model.intercept,
            "class_cost_": model.class_cost,
        }

    def _refine(self, end_of_loop: Snapshot, refitted: State, attributes: Attributes) -> Attributes:
        """Refine the model, and return the attributes that this changes."""
        refinement = self._prepare_refinement(refitted)
        # Drawn in any case, so that a generator of the user ends as if there had been no interruption.
        seed = int(self.rng.randint(MOST_SEEDS))
        start = self.refinement or refinement.start(refitted.model.dictionary, seed)

        def refined(progress: RefinementProgress) -> Attributes:
            return self._refined_attributes(refinement, progress, refitted.priors)

        def on_epoch(progress: RefinementProgress) -> RefinementProgress:
            stops = self.report("epoch", progress.n_epochs, lambda: attributes | refined(progress))
            progress = replace(progress, stopped=progress.stopped or stops)
            snapshot = end_of_loop._replace(refinement=progress, is_last=refinement.is_finished(progress))
            for keep in self.keepers:
                keep(snapshot)
            return progress

        return refined(refinement.run(start, on_epoch))

    @property
    def refines_here(self) -> bool:
        """Whether refinement has all samples in this process: a mini-batch takes less time than to ask a cluster."""
        facts = self.training.facts
        return self.training.parts.fits_locally(facts.n_samples * facts.n_features * facts.dtype.itemsize)

    def _prepare_refinement(self, state: State) -> Refinement:
        plan, settings = self.plan, self.settings
        assert plan.refiner is not None
        class_cost = state.model.class_cost if settings.is_multilabel else np.ones_like(state.model.class_cost)
        make_cost = plan.refiner.list_costs(settings.is_multilabel)[0]
        cost = make_cost(settings.loss, class_cost, settings.classification_weight)
        # Refinement fills missing features for itself, without the labels that the codes of the loop saw.
        parts = self.training.parts if settings.registration is None else state.parts.map(CodedPart.as_registered)
        return Refinement(
            plan.refiner,
            TaskGradient(state.encoder, cost, plan.n_jobs if self.refines_here else settings.n_jobs),
            bring(parts) if self.refines_here else parts,
            is_multilabel=settings.is_multilabel,
            fit_intercept=settings.fit_intercept,
            jitter=plan.jitter,
            image_shape=plan.image_shape,
            description=self.training.description,
            temperature=plan.temperature,
        )

    def _refined_attributes(self, refinement: Refinement, progress: RefinementProgress, priors: Priors) -> Attributes:
        best = progress.best
        class_cost, misfit = refinement.measure(best)
        noise_variance = priors.estimate_noise(misfit, self.training.facts.n_known)
        return {
            "components_": best.dictionary,
            "coef_": np.ascontiguousarray(best.coef_by_atom.T),
            "intercept_": best.intercept,
            "class_cost_": class_cost,
            "median_noise_variance_": float(np.median(noise_variance)),
            "refinement_": progress.history,
        }


def describe_settings(settings: FitSettings, encoder: Encoder) -> Attributes:
    """Return the attributes that hold strategies, with what was estimated from the samples."""
    return {
        "loss_": settings.loss,
        "sparse_coder_": encoder.sparse_coder,
        "n_nonzero_coefs_": min(settings.n_nonzero_coefs, len(encoder.dictionary)),
        "is_multilabel_": settings.is_multilabel,
    }
