"""The rows of a checkpoint on a cluster: each part writes its unknowns to a file of its own, where the part is.

The files are in a folder beside the checkpoint, which names them and replaces the one before in one step.  So client
and workers must share the folder, or an object store, and no sample's code comes to the client.  Parts that are read
from the files do not depend on the steps that led there: a lost one is read again, and the scheduler forgets those
steps.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import numpy as np

from ..fitting.data import TrainingPart
from ..fitting.steps import RowState, get_row_state, put_row_state
from ..model.codes import RowCodes
from ..parallel import Parts
from .format import ROWS, Arrays, blame_file, check_array, read_container, write_container
from .storage import find_place, make_absolute


class RowFiles(NamedTuple):
    """The files of all parts at one moment of a fit."""

    folder: str
    token: str  # in the names of all of them

    @classmethod
    def beside(cls, path: str, token: str | None = None) -> RowFiles:
        """Return new files, or those with a token, beside a checkpoint."""
        if token is not None and not (isinstance(token, str) and token.isalnum()):
            raise ValueError(f"the names of its parts have the token {token!r}")
        return cls(f"{make_absolute(path)}.rows", token or secrets.token_hex(8))

    def locate(self, part: TrainingPart) -> str:
        """Return the path of a part's file."""
        return f"{self.folder}/{self.token}-{part.first_row}.safetensors"

    def write(self, parts: Parts[TrainingPart]) -> None:
        """Let all parts write their files."""
        missing = [path for path in parts.collect(_write_part, self) if not find_place(path).exists()]
        if missing:
            raise FileNotFoundError(
                f"The workers wrote {len(missing)} parts of a checkpoint that are not here, such as {missing[0]}: "
                "give Checkpoint a path in a folder that this process shares with all workers, or an address such as "
                "s3://bucket/fit."
            )

    def read(self, parts: Parts[TrainingPart], **sizes: int) -> Parts[TrainingPart]:
        """Return the parts with the unknowns in their files, which have these sizes."""
        return parts.map(_read_part, self, sizes)

    def remove_others(self) -> None:
        """Remove the files of earlier moments."""
        for name in find_place(self.folder).list_folder():
            if not name.startswith(self.token):
                find_place(f"{self.folder}/{name}").remove()


def list_arrays(rows: RowState) -> Arrays:
    """Return the arrays of some rows by the names that they have in files."""
    arrays = {"code_indices": rows.codes.indices, "code_values": rows.codes.values}
    arrays |= {"noise_variance": rows.noise_variance}
    return arrays if rows.positions is None else arrays | {"positions": rows.positions}


def make_rows(arrays: Arrays, first_row: int = 0) -> RowState:
    """Return the rows whose arrays these are."""
    codes = RowCodes(arrays["code_indices"], arrays["code_values"])
    return RowState(codes, arrays["noise_variance"], arrays.get("positions"), first_row)


def list_shapes(n_rows: int, n_nonzero_coefs: int, n_positions: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of some rows."""
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("code_indices", "code_values"), (n_rows, n_nonzero_coefs))
    shapes["noise_variance"] = (n_rows,)
    return shapes | {"positions": (n_rows, n_positions)} if n_positions else shapes


def check_atoms(indices: Any, n_components: int) -> None:
    """Raise unless codes use the atoms of the dictionary."""
    if indices.size and not 0 <= indices.min() <= indices.max() < n_components:
        raise ValueError(f"codes use atoms beyond the {n_components} of the dictionary")


def _write_part(part: TrainingPart, files: RowFiles) -> str:
    find_place(files.folder).make_folder()
    path = files.locate(part)
    write_container(path, ROWS, {}, list_arrays(get_row_state(part)))
    return path


def _read_part(part: TrainingPart, files: RowFiles, sizes: dict[str, int]) -> TrainingPart:
    path = files.locate(part)
    arrays = read_container(path, ROWS).arrays
    with blame_file(path):
        shapes = list_shapes(len(part), sizes["n_nonzero_coefs"], sizes["n_positions"])
        if set(arrays) != set(shapes):
            raise ValueError(f"it has the arrays {sorted(arrays)} instead of {sorted(shapes)}")
        for name, array in arrays.items():
            check_array(name, array, shapes[name], np.int32 if name == "code_indices" else part.X.dtype)
        check_atoms(arrays["code_indices"], sizes["n_components"])
    return put_row_state(part, make_rows(arrays, part.first_row))
