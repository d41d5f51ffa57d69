"""Pipelines that are wrong on purpose, and what the check of outputs says of them."""

from __future__ import annotations

import json
import sys
from typing import Any

from ortbench.core.errors import BenchmarkFailed
from ortbench.model.modes import RUN, SYNCHRONIZE
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, memory, providers, session
from ortbench.worker.pipelined import Buffers, PipelinedMode
from ortbench.worker.proofs import check_outputs
from ortbench.worker.sync import Sync
from tests import virtual

DEPTH = 3
SYNCS = {"sync": RUN, "async": SYNCHRONIZE}


class WithoutSync(PipelinedMode):
    """Hands the outputs on when the run has returned, and not when it is done."""

    def _run_item(self, buffers: Buffers) -> None:
        buffers.wait = None
        super()._run_item(buffers)


class BeforeTheUpload(PipelinedMode):
    """Runs before the inputs have arrived."""

    awaited = "downloaded"

    def _run_item(self, buffers: Buffers) -> None:
        getattr(buffers, self.awaited).wait()
        buffers.run()
        self._send_out(buffers)
        self._send_in(buffers, self._next + DEPTH)
        self._next += 1


class BeforeTheDownload(BeforeTheUpload):
    """Runs while the outputs of the item before are still being read."""

    awaited = "uploaded"


class UploadTooEarly(PipelinedMode):
    """Uploads the next inputs before the run has read its own."""

    def _run_item(self, buffers: Buffers) -> None:
        buffers.uploaded.wait()
        buffers.downloaded.wait()
        item = buffers.input_item
        self._send_in(buffers, self._next + DEPTH)
        buffers.uploaded.wait()
        following, buffers.input_item = buffers.input_item, item
        buffers.run()
        buffers.input_item = following
        self._send_out(buffers)
        self._next += 1


class WrongItem(PipelinedMode):
    """Gives an item the outputs of another one."""

    def _send_out(self, buffers: Buffers) -> None:
        if buffers.output_item is not None:
            buffers.output_item = (buffers.output_item + 1) % (DEPTH + 1)
        super()._send_out(buffers)


# Options that make each mistake show, whatever else the machine does.
CASES: list[tuple[type[PipelinedMode], str, dict[str, int]]] = [
    (PipelinedMode, "sync", {}),
    (PipelinedMode, "async", {}),
    (WithoutSync, "async", {"compute_us": 20_000}),
    (BeforeTheUpload, "sync", {"upload_latency_us": 20_000}),
    (BeforeTheDownload, "sync", {"download_latency_us": 20_000}),
    (UploadTooEarly, "sync", {}),
    (WrongItem, "sync", {}),
]


def main() -> None:
    """Print what is wrong with the outputs of every pipeline, with the host's side in HOST_ACCESSIBLE memory and in ordinary
    memory; a process of its own, because it registers the reference device's library."""
    virtual.attach(works=True)
    path, library = sys.argv[1:]
    provider: Any = None
    found = {}
    for kind, honesty, knobs in CASES:
        options = {"upload_latency_us": 10, "download_latency_us": 10, "compute_us": 300} | knobs
        wanted = Target(library=library, options={"honesty": honesty} | {key: str(us) for key, us in options.items()})
        provider = provider or providers.find(wanted)
        model = session.open_model(path, wanted, provider)
        data = first_run.make_data(path, model, Inputs())
        device, shared = memory.device_memory(provider), memory.host_accessible_memory(provider)
        assert isinstance(device, memory.EpDeviceMemory)
        # Known here, and proved elsewhere; the proof takes most of the time.
        Buffers.prove = lambda self, kind=SYNCS[honesty]: Sync(kind, None, 0, "")  # type: ignore[method-assign, misc]
        for host in (shared, None):
            made = kind(model, data, device, host, DEPTH)
            where = "ordinary" if host is None else "shared"
            found[f"{kind.__name__} {honesty} {where}"] = what_is_wrong(made)
            made.wait_idle()
    print(json.dumps(found))


def what_is_wrong(made: PipelinedMode) -> str | None:
    """What the check of outputs finds."""
    try:
        check_outputs(made, None, None)
    except BenchmarkFailed as error:
        return str(error)
    return None
