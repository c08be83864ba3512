"""Figures of fitted models, in the style of scikit-learn's displays.

``from_estimator`` computes and draws, ``plot`` draws again, on given axes or in a new figure, which is kept as
``figure_``.  Nothing is shown on screen, and matplotlib is imported only when something is drawn.
"""
