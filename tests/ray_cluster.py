"""A Ray cluster of several machines in one, in a process of its own: it prints much, and is all gone with it.

``python -m tests.ray_cluster`` reads JSON, a list of machines, prints the cluster's address, ends a machine for each line
with a name, and ends itself at the end of its input.
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
from typing import Any

# How soon a machine that does not answer is given up: its heartbeats may be late here, where others work too.
_HEALTH = {"health_check_period_ms": 1000, "health_check_timeout_ms": 10000, "health_check_failure_threshold": 5}


class RayCluster:
    """A cluster that runs, by its process and the folder of its files."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self.tmpdir = folder  # what Ray takes for the system's folder of temporary files
        self.address = self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the cluster has not started"
        return line

    def kill(self, machine: str) -> None:
        """End a machine as a failure would, and all that runs on it."""
        assert self._process.stdin is not None
        print(machine, file=self._process.stdin, flush=True)
        assert self._answer() == "killed"


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
    with process:
        try:
            print(json.dumps(list(machines)), file=process.stdin, flush=True)
            yield RayCluster(process, folder)
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

    head = {**first, "include_dashboard": False, "_system_config": _HEALTH}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    nodes = {first["node_name"]: cluster.head_node}
    for machine in others:
        nodes[machine["node_name"]] = cluster.add_node(wait=machine is others[-1], **machine)
    cluster.wait_for_nodes(60)
    print(cluster.address, file=answers, flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes[line.strip()], allow_graceful=False)
        print("killed", file=answers, flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
