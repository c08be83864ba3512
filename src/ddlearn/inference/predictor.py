"""From new samples to evidence: describe (``describe/``), code (``encoder.py``), apply a rule (``rules.py``).

A predictor is made once for each fitted model and kept.  It never changes, so several threads may use it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..coding.robust import CodedBlock, RobustCoder
from ..describe.base import Description, describe, describe_known, mark_missing
from ..describe.jitter import Jitter, displace_alike
from ..kernels.codes import keep_larger_half
from ..model.codes import Flags, Floats, RowCodes
from ..parallel import map_blocks, split_rows, warn_user
from .rules import InferenceRule, LabelModel

# Test-time views use half the distortion of training: only sampling noise is to be averaged out.
_STRENGTH_OF_VIEWS = 0.5
_VIEW_SEED = 0  # all images are seen through the same distortions, so that none depends on the others
_REMEDY = 'impute such values, or leave NaN out by robustness=Robustness(missing="mask")'


def draw_views(jitter: Jitter, image_shape: tuple[int, int], n_views: int, dtype: np.dtype) -> Floats:
    """Return the displacement fields of all views but the first, which is the image itself."""
    fields = jitter.draw(n_views - 1, image_shape, np.random.default_rng(_VIEW_SEED), dtype)
    return dtype.type(_STRENGTH_OF_VIEWS) * fields


@dataclass(frozen=True)
class Predictor:
    """Scales and codes new samples and weighs the evidence for each class; all settings have been checked."""

    description: Description
    model: LabelModel
    rule: InferenceRule
    robust: RobustCoder
    prior_evidence: Floats  # (n_classes,) for samples without any known feature
    views: Sequence[Floats] = ()  # displacement fields of shape (2, height, width) of all views but the first
    n_jobs: int | None = None

    def evidence(self, X: Floats, mask: Flags | None = None) -> Floats:
        """Return the evidence for each class."""
        if len(X) == 1 and mask is None and self.robust.is_plain:
            # Without BLAS and threads, whose limits would take as long as the product with the atoms.
            evidence = self._weigh_plainly(X, slice(0, 1))
        else:
            evidence = self._weigh_blocks(X, mask)
        is_finite = np.isfinite(evidence)
        if not is_finite.all():  # any class would be as good
            raise ValueError(
                f"The evidence for the classes of row {np.argmin(is_finite.all(axis=1))} is not finite: the "
                "coefficients of the model are too large, or its class costs too small, for samples of type "
                f"{evidence.dtype}."
            )
        return evidence

    def _weigh_blocks(self, X: Floats, mask: Flags | None) -> Floats:
        """Return the evidence of samples, blocks of which are shared out to threads."""
        n_blank: list[int] = []

        def weigh(rows: slice, _: None) -> Floats:
            if mask is None and self.robust.is_plain:
                return self._weigh_plainly(X, rows)
            coded, _ = self._code_robustly(X, mask, rows)
            n_blank.append(_count_blank(coded))
            return self._weigh_robustly(X[rows], coded)

        blocks = map_blocks(weigh, split_rows(len(X)), lambda: None, n_jobs=self.n_jobs)
        _warn_of_blank_rows(sum(n_blank))
        return np.concatenate(blocks)

    def encode(self, X: Floats) -> RowCodes:
        """Return label-free codes."""

        def encode_rows(rows: slice, _: None) -> RowCodes:
            if not self.robust.is_plain:
                return self._code_robustly(X, None, rows)[0].codes
            samples, energies = describe(self.description, X[rows], rows.start, remedy=_REMEDY)
            return self.robust.encoder.encode_tile(samples, energies=energies)

        return RowCodes.join(map_blocks(encode_rows, split_rows(len(X)), lambda: None, n_jobs=self.n_jobs))

    def _weigh_plainly(self, X: Floats, rows: slice) -> Floats:
        """Return the evidence of a block of samples that are taken to be complete, correct and registered."""
        samples, energies = describe(self.description, X[rows], rows.start, remedy=_REMEDY)
        codes = self.robust.encoder.encode_tile(samples, energies=energies)
        evidence = self.rule.evidence(self.model, samples, codes)
        return self._average_views(X[rows], samples, codes, evidence) if len(self.views) else evidence

    def _average_views(self, X: Floats, samples: Floats, codes: RowCodes, evidence: Floats) -> Floats:
        """Return the mean evidence of images, given the codes and the evidence of the first view, and of copies."""
        describes = self.description.images == "described"
        start = RowCodes.empty(len(samples), -(-self.robust.encoder.n_nonzero_coefs // 2), samples.dtype)
        keep_larger_half(*codes, samples.shape[1], *start)  # others may leave the codes of copies, which takes time
        total = evidence
        for field in self.views:
            view = self.description.apply(displace_alike(X, field)) if describes else displace_alike(samples, field)
            total = total + self.rule.evidence(self.model, view, self.robust.encoder.encode_tile(view, start=start))
        return total / (len(self.views) + 1)

    def _code_robustly(self, X: Floats, mask: Flags | None, rows: slice) -> tuple[CodedBlock, Floats]:
        """Return the coded block, and by what its described samples were divided because of wrong features."""
        samples, is_known = self.robust.find_known(X[rows], None if mask is None else mask[rows])
        described, is_known = describe_known(self.description, samples, is_known, rows.start, remedy=_REMEDY)
        coded, factor = self.robust.code(described, is_known), np.ones((len(samples), 1), X.dtype)
        if coded.is_wrong.any():  # norms may depend on right features alone
            right = mark_missing(coded.samples, coded.is_known & ~coded.is_wrong)
            factor[:] = np.where(coded.is_wrong.any(axis=1, keepdims=True), self.description.measure_norms(right), 1)
        if (factor != 1).any():
            coded = self.robust.code(described / factor, is_known)
        return coded, factor

    def _weigh_robustly(self, X: Floats, coded: CodedBlock) -> Floats:
        """Return the evidence of a block; the fit leaves out right features too, but all that are not wrong count."""
        evidence = self.rule.evidence(self.model, coded.samples, coded.codes, coded.is_known & ~coded.is_wrong)
        if len(self.views):
            whole = np.flatnonzero(coded.is_known.all(axis=1) & ~coded.is_wrong.any(axis=1))
            if whole.size:  # images with missing or wrong pixels have one view
                first = coded.samples[whole], coded.codes.rows(whole), evidence[whole]
                evidence[whole] = self._average_views(X[whole], *first)
        evidence[~coded.is_known.any(axis=1)] = self.prior_evidence
        return evidence

    def explain(self, X: Floats, mask: Flags | None) -> dict[str, Any]:
        """Return the parts into which samples are decomposed, the fields of an Explanation, but for the classes."""

        def work(rows: slice, _: None) -> tuple[CodedBlock, Floats, Floats]:
            coded, factor = self._code_robustly(X, mask, rows)
            samples = mark_missing(*self.robust.find_known(X[rows], None if mask is None else mask[rows]))
            return coded, self.description.measure_norms(samples) * factor, self._weigh_robustly(X[rows], coded)

        blocks = map_blocks(work, split_rows(len(X)), lambda: None, n_jobs=self.n_jobs)
        coded = [block for block, _, _ in blocks]
        _warn_of_blank_rows(sum(map(_count_blank, coded)))
        dictionary = self.robust.encoder.dictionary
        codes = RowCodes.join([block.codes for block in coded]).to_csr(len(dictionary))
        norms = np.concatenate([norms for _, norms, _ in blocks])

        def find(name: str) -> Flags:
            """Return which features of the samples are flagged."""
            flags = np.concatenate([getattr(block, name) for block in coded])
            return np.isnan(self.description.invert(np.where(flags, X.dtype.type(np.nan), X.dtype.type(0))))

        is_known = find("is_known")
        samples = norms * self.description.invert(np.concatenate([block.samples for block in coded]))
        samples = np.where(is_known, samples, samples.dtype.type(0))
        reconstruction = norms * self.description.invert(codes @ dictionary)
        is_wrong = find("is_wrong")
        parameters = np.concatenate([block.parameters for block in coded])
        return {
            "samples": samples,
            "codes": codes,
            "reconstruction": reconstruction,
            "error": np.where(is_wrong, samples - reconstruction, 0),
            "is_missing": ~is_known,
            "is_used": find("is_kept"),
            "evidence": np.concatenate([evidence for _, _, evidence in blocks]),
            "norms": norms[:, 0],
            "transforms": self.robust.to_affine(parameters),
            "coef": self.model.coder.model.coef,
            "intercept": self.model.coder.model.intercept,
        }


def _count_blank(coded: CodedBlock) -> int:
    return int(np.count_nonzero(~coded.is_known.any(axis=1)))


def _warn_of_blank_rows(n_blank: int) -> None:
    if n_blank:
        warn_user(
            f"In {n_blank} sample(s) all features are missing: their class is predicted from the class frequencies of "
            "the training samples.",
        )
