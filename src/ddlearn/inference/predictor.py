"""From new samples to evidence: coding (``noisy_coding.py``), then a label rule (``inference.py``)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ..codes import RowCodes
from ..coding import Floats
from ..coding.jitter import Jitter, displace
from ..coding.masked import Flags
from ..coding.robust import CodedBlock, NoisyCoder
from .rules import InferenceRule

__all__ = ["Explanation"]

# Views of a new image differ by this share of the distortions of training images: it stands where it stands, and only
# accidents of sampling are to be averaged out.
_STRENGTH_OF_VIEWS = 0.5
_VIEW_SEED = 0  # all images are seen through the same distortions, so that none depends on the others


class Explanation(NamedTuple):
    r"""Why samples got their classes: the parts of :math:`y \circ \tau = D^T x + e + n`.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features)
        The samples as they were coded: after alignment, with zeros where features are missing.
    codes : csr_array of shape (n_samples, n_components)
        The label-free codes, the paper's x; the full rule starts from them.
    reconstruction : ndarray of shape (n_samples, n_features)
        What the codes stand for.
    error : ndarray of shape (n_samples, n_features)
        The gross errors found, the paper's e: sample less reconstruction where a feature is wrong, 0 elsewhere.
    is_missing : ndarray of shape (n_samples, n_features)
        The features that were not known.
    is_used : ndarray of shape (n_samples, n_features)
        The features that the codes were fitted to; looking for errors leaves out more than it calls wrong.
    evidence : ndarray of shape (n_samples, n_classes)
        The evidence for each class.
    transforms : ndarray of shape (n_samples, 2, 3) or None
        The affine maps found by alignment: a pixel at (u, v) from the centre of the image, columns first, shows what
        was at ``transforms[i] @ (u, v, 1)``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import DDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=100, random_state=0).fit(X[100:], y[100:])
    >>> broken = X[:1].copy()
    >>> broken[0, :8] = 30.0  # the upper row of the image
    >>> found = model.set_params(error_budget=0.2).explain(broken)
    >>> bool((found.error[0, :8] > 10).all())
    True
    """

    samples: Floats
    codes: csr_array
    reconstruction: Floats
    error: Floats
    is_missing: Flags
    is_used: Flags
    evidence: Floats
    transforms: Floats | None


def draw_views(
    jitter: Jitter | None, image_shape: tuple[int, int] | None, n_views: int, dtype: np.dtype
) -> Floats | None:
    """Return the displacement fields of all views but the first, which is the image itself; None if it is alone."""
    if jitter is None or image_shape is None or n_views == 1:
        return None
    fields = jitter.draw(n_views - 1, image_shape, np.random.default_rng(_VIEW_SEED), dtype)
    return dtype.type(_STRENGTH_OF_VIEWS) * fields


@dataclass(frozen=True)
class Predictor:
    """Codes and judges new samples; all settings have been checked."""

    coder: NoisyCoder
    rule: InferenceRule
    prior_evidence: Floats  # (n_classes,) for samples of which nothing is known
    is_nan_missing: bool
    views: Floats | None = None  # (n_views - 1, 2, height, width) displacement fields

    def encode(self, X: Floats) -> RowCodes:
        """Return label-free codes."""
        return RowCodes.join(self.coder.map(lambda coded: coded.codes, X, None, self.is_nan_missing))

    def weigh(self, X: Floats, mask: Flags | None) -> Floats:
        """Return the evidence for each class."""
        blocks = self.coder.map(self._judge, X, mask, self.is_nan_missing)
        _warn_of_blank_rows(sum(n_blank for _, n_blank in blocks), n_frames=6)
        return np.concatenate([evidence for evidence, _ in blocks])

    def _judge(self, coded: CodedBlock) -> tuple[Floats, int]:
        # The fit leaves out right features too; what hypotheses cost is judged by all that are not wrong.
        evidence = self.rule.weigh(coded.samples, coded.is_known & ~coded.is_wrong, coded.codes)
        if self.views is not None:
            self._average_views(coded, evidence)
        is_blank = ~coded.is_known.any(axis=1)
        evidence[is_blank] = self.prior_evidence
        return evidence, int(np.count_nonzero(is_blank))

    def _average_views(self, coded: CodedBlock, evidence: Floats) -> None:
        """Add the evidence of distorted copies, as they stand after registration; only of images that are whole."""
        whole = np.flatnonzero(coded.is_known.all(axis=1) & ~coded.is_wrong.any(axis=1))
        if self.views is None or whole.size == 0:
            return
        is_kept = np.ones_like(coded.is_kept[whole])
        total = evidence[whole]
        for field in self.views:
            view = displace(coded.samples[whole], np.broadcast_to(field, (len(whole), *field.shape)))
            total += self.rule.weigh(view, is_kept, self.coder.coder.encode(view, is_kept))
        evidence[whole] = total / (len(self.views) + 1)

    def explain(self, X: Floats, mask: Flags | None) -> Explanation:
        """Return the parts that samples were taken apart into."""
        blocks = self.coder.map(lambda coded: (coded, *self._judge(coded)), X, mask, self.is_nan_missing)
        _warn_of_blank_rows(sum(n_blank for _, _, n_blank in blocks), n_frames=4)
        coded = [block for block, _, _ in blocks]
        dictionary = self.coder.coder.dictionary
        codes = RowCodes.join([block.codes for block in coded]).to_csr(len(dictionary))
        samples = np.concatenate([block.samples for block in coded])
        reconstruction = codes @ dictionary
        is_wrong = np.concatenate([block.is_wrong for block in coded])
        return Explanation(
            samples=samples,
            codes=codes,
            reconstruction=reconstruction,
            error=np.where(is_wrong, samples - reconstruction, 0),
            is_missing=~np.concatenate([block.is_known for block in coded]),
            is_used=np.concatenate([block.is_kept for block in coded]),
            evidence=np.concatenate([evidence for _, evidence, _ in blocks]),
            transforms=self.coder.to_affine(np.concatenate([block.parameters for block in coded])),
        )


def _warn_of_blank_rows(n_blank: int, n_frames: int) -> None:
    if n_blank:
        warnings.warn(
            f"In {n_blank} sample(s) all features are missing: they are judged by the class frequencies of the "
            "training samples.",
            UserWarning,
            stacklevel=n_frames,  # the line that called the model
        )
