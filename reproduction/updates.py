r"""Two dictionary updates as plug-ins: K-SVD with the weights of Eq. 3, and the method of optimal directions.

Neither is needed by the paper's comparison, nor worth its place in the library: on digits both are behind ``"atom"``
(``docs/archive/defaults_before.md``).  They show what an update of one's own has to return;
:func:`ddlearn.check_dictionary_update` is their test.
"""

import numpy as np
from scipy.linalg import solve

from ddlearn import AtomUpdate, DictionaryUpdate, KSVDUpdate, RowCodes, UpdatedDictionary

# Below this norm an atom of the least squares solution has vanished, and no scale of its codes could make up for it.
_VANISHED = 1e-6


class WeightedKSVDUpdate(KSVDUpdate):
    r"""Approximate K-SVD of the weighted error: :math:`d \leftarrow \sum_i \sigma_i^{-2} x_{ij} e_i`.

    A weight is the square of a factor on sample and code alike, so this is K-SVD of samples divided by
    :math:`\sigma_i`.  The weighted error never rises in the sweep.  The MAP objective may: new codes mean new margins.
    """

    def update(self, X, codes, dictionary, precision, *, n_jobs=None):
        roots = np.sqrt(precision / precision.max()).astype(X.dtype)[:, None]
        scaled = RowCodes(codes.indices, codes.values * roots)
        updated = super().update(X * roots, scaled, dictionary, precision, n_jobs=n_jobs)
        return updated._replace(codes=RowCodes(updated.codes.indices, updated.codes.values / roots))


class MODUpdate(DictionaryUpdate):
    r"""Method of optimal directions: all atoms at once by weighted least squares, then normalised.

    .. math:: D = (A + \epsilon I)^{-1} (B + \epsilon D_{old}), \qquad
        A = \sum_i \sigma_i^{-2} x_i x_i^T,\; B = \sum_i \sigma_i^{-2} x_i y_i^T,

    with a tiny :math:`\epsilon` that leaves an atom where it was when the samples do not determine it.  The norm of
    each new atom moves into its codes, so the reconstruction is that of the least squares solution, but margins change;
    a fit undoes the update where the MAP objective rises.  No atom is replaced.  Where an atom vanishes in the
    solution, the update is that of :class:`~ddlearn.AtomUpdate`.
    """

    updates_codes = True
    is_guarded = True

    def update(self, X, codes, dictionary, precision, *, n_jobs=None):
        x = codes.to_csr(len(dictionary)).astype(np.float64)
        weighted = x.multiply((precision / precision.max())[:, None]).tocsr()
        gram = (weighted.T @ x).toarray()
        # Above the rounding errors of the sums. Pulling towards the old atoms and not towards zero is what keeps the
        # weighted error from rising.
        ridge = max(100 * np.finfo(X.dtype).eps * np.trace(gram), np.finfo(np.float64).tiny)
        solution = solve(gram + ridge * np.eye(len(gram)), weighted.T @ X + ridge * dictionary, assume_a="pos")
        norms = np.linalg.norm(solution, axis=1)
        if norms.min() < _VANISHED:
            return AtomUpdate().update(X, codes, dictionary, precision, n_jobs=n_jobs)
        rescaled = RowCodes(codes.indices, codes.values * norms.astype(X.dtype)[codes.indices])
        return UpdatedDictionary((solution / norms[:, None]).astype(X.dtype), rescaled, np.empty(0, np.intp))
