"""The folder of a run: ``result.json`` as it grows, ``table.md`` and ``table.csv`` at its end."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from ortbench import table
from ortbench.bench import Observer
from ortbench.errors import BadInput
from ortbench.plan import Plan
from ortbench.result import Result, save, write_atomically


class RunFolder(Observer):
    """A folder of its own for one run, named by model, EP and time.

    Args:
        out: the folder to make it in.
        plan: what is run.

    Raises:
        BadInput: it cannot be written. Better now than after the measurement.
    """

    def __init__(self, out: Path, plan: Plan) -> None:
        stem = re.sub(r"[^\w.-]+", "-", f"{Path(plan.model).stem}-{plan.target.ep}")
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        try:
            out.mkdir(parents=True, exist_ok=True)
            self.path = _new_folder(out, f"{stem}-{stamp}")
            probe = self.path / "result.json"
            write_atomically(probe, "")
            probe.unlink()
        except (FileExistsError, NotADirectoryError):
            raise BadInput(f"--out {out}: is not a folder") from None
        except OSError as error:
            raise BadInput(f"--out {out}: cannot be written: {error.strerror}") from None

    def changed(self, result: Result) -> None:
        """Save the result so far."""
        save(result, self.path / "result.json")

    def write_tables(self, result: Result) -> None:
        """Write the tables of a finished result."""
        write_atomically(self.path / "table.md", table.markdown(result))
        write_atomically(self.path / "table.csv", table.csv(result))

    def discard_if_empty(self) -> None:
        """Remove the folder of a run that came to nothing."""
        with suppress(OSError):
            self.path.rmdir()


def _new_folder(out: Path, name: str) -> Path:
    for number in range(1, 1000):
        path = out / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise OSError(17, "too many folders of this name")
