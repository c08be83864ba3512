"""Draw the pictures of the tutorial, ``docs/images/tutorial/*.png``, by running its code as it stands.

Run ``python docs/make_tutorial_pictures.py`` in an environment with ``ddlearn[cli,plot]`` after a change of the plots.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import matplotlib

DOCS = Path(__file__).parent.resolve()
TARGET = DOCS / "images" / "tutorial"


def main() -> None:
    """Run the page up to where it has drawn all of its pictures."""
    matplotlib.use("agg")
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    pictures = re.findall(r"\(images/tutorial/(\w+\.png)\)", text)
    TARGET.mkdir(exist_ok=True)
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        blocks = iter(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        while not all(Path(picture).exists() for picture in pictures):
            exec(next(blocks), names)
        for picture in pictures:
            shutil.copy(picture, TARGET / picture)


if __name__ == "__main__":
    main()
