"""Figures, reports and error tables of fitted models."""
