"""Recognise a face of which a third is hidden, and draw what the model makes of such faces.

Needs Extended Yale B (``ddlearn.datasets.load_yaleb`` says where to put it) and matplotlib; writes
docs/images/occluded_faces.png and .svg.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.preprocessing import normalize

from ddlearn import DDLClassifier
from ddlearn.datasets import load_yaleb
from ddlearn.experiments import draw_occluded_faces, occlude

SIZE = (48, 42)


def main() -> None:
    """Fit to faces lit from the front, and explain one that is lit from aside and partly hidden."""
    X_train, y_train = load_yaleb(size=SIZE, split="lighting", subset="train", return_X_y=True)
    X_test, y_test = load_yaleb(size=SIZE, split="lighting", subset="test", return_X_y=True)
    model = DDLClassifier(n_components=570, n_nonzero_coefs=20, random_state=0, n_jobs=-1)
    model.fit(normalize(X_train), y_train)

    hidden = occlude(X_test[[100]].reshape(-1, *SIZE), 0.33, np.random.default_rng(0)).reshape(1, -1)
    hidden = normalize(hidden)
    for budget in (0, 0.5):
        explanation = model.set_params(error_budget=budget).explain(hidden)
        evidence = explanation.evidence[0]
        best = np.argsort(-evidence)[:3]
        print(f"\nWith error_budget={budget} (true person: {y_test[100]})")
        for position in best:
            print(f"  person {model.classes_[position]:2}: evidence {evidence[position]:8.2f}")
        print(f"  {np.mean(explanation.error[0] != 0):.0%} of the pixels are called wrong")

    draw_occluded_faces(Path(__file__).parents[2] / "docs" / "images", n_jobs=-1)


if __name__ == "__main__":
    main()
