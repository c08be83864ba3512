"""Fitted models and running fits on disk.

In the order of their imports: ``store`` (files on a disk or in an object store), ``format`` (arrays and a JSON header),
``codec`` (parameters and attributes as JSON), ``models`` (save and load), ``checkpoint`` (fits that can be resumed).
"""
