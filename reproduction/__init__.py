"""The paper's figures and tables, and images under noise: ``python -m reproduction``.

Every finished cell of a table is kept in a file of its own, so an interrupted run goes on where it stopped.  A cell is
measured again when its settings have changed, but not when the library has: delete the folder for that.
"""
