"""From codes to classes: the label rules, the predictor of a fitted model, and its lazy form on Dask."""
