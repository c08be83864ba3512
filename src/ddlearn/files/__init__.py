"""Fitted models and running fits on disk.

In the order of their imports: ``atomic`` (files that are replaced in one step), ``format`` (arrays and a JSON header),
``codec`` (parameters and attributes as JSON), ``models`` (save and load), ``checkpoint`` (fits that can be resumed).
"""
