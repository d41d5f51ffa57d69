"""A Ray cluster of several machines in one, in a process of its own: it prints much, and is all gone with it.

``python -m tests.ray_cluster`` reads JSON, a list of machines, prints the cluster's address, and ends at the end of its input.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple


class RayCluster(NamedTuple):
    """A cluster that runs."""

    address: str
    tmpdir: Path  # what Ray takes for the system's folder of temporary files


@contextmanager
def ray_cluster(machines: Sequence[dict[str, Any]]) -> Iterator[RayCluster]:
    """A cluster as long as the block lasts."""
    import psutil

    folder = Path(tempfile.mkdtemp(prefix="ortray", dir="/tmp"))  # sockets in it have short names only
    (folder / "t").mkdir()
    mine = {"RAY_TMPDIR": str(folder), "TMPDIR": str(folder / "t"), "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.ray_cluster"], cwd=Path(__file__).parent.parent, env={**os.environ, **mine},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            print(json.dumps(list(machines)), file=process.stdin, flush=True)
            address = process.stdout.readline().strip()
            assert address, "the cluster has not started"
            yield RayCluster(address, folder)
        finally:
            left = psutil.Process(process.pid).children(recursive=True)
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
            for it in left:
                with suppress(psutil.NoSuchProcess):
                    it.kill()
            psutil.wait_procs(left, 10)
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Keep a cluster until standard input ends."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    first, *others = (
        {"node_name": it["name"], "num_cpus": 1, "num_gpus": it["gpus"], "resources": it["resources"], "env_vars": it["environ"]}
        for it in json.loads(sys.stdin.readline())
    )  # fmt: skip

    from ray.cluster_utils import Cluster

    cluster: Any = Cluster(initialize_head=True, head_node_args={**first, "include_dashboard": False})
    for machine in others:
        cluster.add_node(wait=machine is others[-1], **machine)
    cluster.wait_for_nodes(60)
    print(cluster.address, file=answers, flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
