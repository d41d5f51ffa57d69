"""``load-samples.npz``: the raw latencies of a load's load points, and when every request was due, started and ended."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core import files
from ortbench.core.errors import BadInput, one_line
from ortbench.core.safe_text import visible
from ortbench.features.load.analysis.samples import LoadSamples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.int64]]


FILE_NAME = "load-samples.npz"


def arrays(taken: Sequence[LoadSamples]) -> Arrays:
    """The samples of load points by name, which begins with the number of the load point in the result: ``3/latency_ns``.

    Closed loop: ``latency_ns`` of every run that counts, block after block and in each client after client, with ``block`` and
    ``caller``, all of shape (n,); ``span_ns``, shape (blocks, 2): from when to when runs of a block count, on the clock of
    `time.perf_counter_ns`. Open loop: ``due_ns`` of every request, and ``start_ns`` and ``end_ns`` of those that were served,
    ns from the beginning of their block on, block after block; of each block ``begin_ns``, shape (blocks,), when it
    began on that clock, and ``requests``, shape (blocks, 2): how many were due, and how many of these, the first ones, were
    served. All are int64.
    """
    import numpy as np

    found: Arrays = {}
    for number, it in enumerate(taken):
        if blocks := it.open_blocks:
            for name in ("due", "start", "end"):
                found[f"{number}/{name}_ns"] = np.concatenate([getattr(block, name) for block in blocks])
            found[f"{number}/begin_ns"] = np.array([block.begin_ns for block in blocks], np.int64)
            counts = [(block.due.size, block.start.size) for block in blocks]
            found[f"{number}/requests"] = np.array(counts, np.int64)
        elif it.blocks:
            closed = it.closed_blocks
            parts = [(block.round, client, times) for block in closed for client, times in enumerate(block.of_clients)]
            found[f"{number}/span_ns"] = np.array([block.counted.span for block in closed], np.int64)
            found[f"{number}/latency_ns"] = np.concatenate([times for _, _, times in parts])
            for place, name in enumerate(("block", "caller")):
                found[f"{number}/{name}"] = np.repeat([part[place] for part in parts], [part[2].size for part in parts])
    return found


def write(taken: Sequence[LoadSamples], folder: Path) -> None:
    """Write the samples beside the result, or note that they could not be written; nothing where there are none."""
    import numpy as np

    found = arrays(taken)
    if not found:
        return
    content = io.BytesIO()
    np.savez_compressed(content, **found)  # type: ignore[arg-type]
    files.write_or_note(folder / FILE_NAME, content.getvalue())


_MOST = 1024  # MiB of samples, 24 bytes a request


def read(folder: Path) -> Arrays | None:
    """The samples beside a result, as `arrays` gives them; None where there are none. `BadInput` where they cannot be
    read."""
    import numpy as np

    file = folder / FILE_NAME
    if not file.is_file():
        return None
    try:
        with file.open("rb") as opened, np.load(opened) as archive:
            if sum(it.file_size for it in archive.zip.infolist()) > _MOST << 20:
                raise BadInput(f"{file} unpacks to more than {_MOST} MiB, the most that is read")
            found = dict(archive)
    except (
        OSError,
        ValueError,
        TypeError,
        MemoryError,
        EOFError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise BadInput(f"{file} cannot be read: {one_line(error)}") from None
    for number in sorted({name.partition("/")[0] for name in found}):
        own = {name.partition("/")[2]: it for name, it in found.items() if name.startswith(f"{number}/")}
        if not _fit(own):
            raise BadInput(f"{file}: the arrays of load point {visible(number)} do not fit together")
    return found


def _fit(own: Arrays) -> bool:
    """Whether the arrays of a load point are those that `arrays` describes."""
    for name, it in own.items():
        pairs = name in ("span_ns", "requests")
        if it.dtype != "int64" or it.shape[1:] != ((2,) if pairs else ()) or it.ndim < 1 or it.min(initial=0) < 0:
            return False
    if own.keys() == {"latency_ns", "block", "caller", "span_ns"}:
        return own["latency_ns"].size == own["block"].size == own["caller"].size
    if own.keys() != {"due_ns", "start_ns", "end_ns", "begin_ns", "requests"} or not own["requests"].size:
        return False
    due, served = own["requests"].T
    sizes = (own["due_ns"].size, own["start_ns"].size, own["end_ns"].size, own["begin_ns"].size)
    return bool((served <= due).all()) and sizes == (due.sum(), served.sum(), served.sum(), due.size)
