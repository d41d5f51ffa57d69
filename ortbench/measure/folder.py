"""Folders of runs, gates, sweeps and sessions: how they are called and made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from ortbench.core.errors import BadInput
from ortbench.core.files import discard_ignored, make_ignored
from ortbench.core.processes import environment_name
from ortbench.core.safe_text import plain_name
from ortbench.model.kinds import kind_of
from ortbench.plan.plan import Plan
from ortbench.plan.plan_builder import ep_names, eps_of


def run_name(plans: Sequence[Plan], what: str = "") -> str:
    """What the folder of a run is called: its name, or what it is if that is no plain run, model, EPs and time."""
    if plans[0].name is not None:
        return plain_name(plans[0].name).lstrip(".") or "unnamed"
    eps = dict.fromkeys(eps_of(plans[0]) if kind_of(plans[0].work.kind).of_stages else ep_names(plans))
    others = dict.fromkeys(environment_name(it.target.python) for it in plans if it.target.python is not None)
    return with_time(*filter(None, [what]), Path(plans[0].model).stem, *eps, *others)


def with_time(*parts: str) -> str:
    """What the folder of a measurement without a name is called."""
    return plain_name("-".join([*parts, datetime.now().strftime("%Y%m%d-%H%M%S")]))


@contextmanager
def writable(out: Path) -> Iterator[None]:
    """Inside the block what cannot be written is `BadInput`, with the reason."""
    try:
        yield
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"--out {out}: is not a folder") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"--out {out}: cannot be written: {getattr(error, 'strerror', None) or error}") from None


def new_folder(out: Path, name: str) -> Path:
    """Make a folder of its own for a run; `BadInput` where it cannot be written: better now than after the measurement."""
    with writable(out):
        make_ignored(out)
        for number in range(1, 1000):
            path = out / (name if number == 1 else f"{name}-{number}")
            with suppress(FileExistsError):
                path.mkdir()
                return path
        raise OSError(17, "too many folders of this name")


def discard_if_empty(path: Path) -> None:
    """Remove the folder of a run that came to nothing, and the one that was made for it."""
    with suppress(OSError):
        for inner in path.iterdir():
            if inner.is_dir():
                inner.rmdir()
        path.rmdir()
        discard_ignored(path.parent)
