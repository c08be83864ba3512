"""The paper's figures and tables, and images under noise: ``ddlearn reproduce``.

Every finished cell of a table is kept in a file of its own, so an interrupted run goes on where it was.  A cell is
measured again when its parameters have changed, but not when the library has: delete the folder for that.
"""

from .cells import Cell, run_cells
from .digits import run_alignment
from .disturbances import corrupt, occlude
from .faces import run_faces
from .images import Split
from .pictures import draw_misaligned_digits, draw_occluded_faces
from .reproduction import reproduce
from .sparse_representation import SRC, solve_sparse_errors

__all__ = [
    "SRC",
    "Cell",
    "Split",
    "corrupt",
    "draw_misaligned_digits",
    "draw_occluded_faces",
    "occlude",
    "reproduce",
    "run_alignment",
    "run_cells",
    "run_faces",
    "solve_sparse_errors",
]
