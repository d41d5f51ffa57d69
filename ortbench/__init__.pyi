from ortbench.api.commands import chain as chain
from ortbench.api.commands import compare as compare
from ortbench.api.commands import devices as devices
from ortbench.api.commands import gate as gate
from ortbench.api.commands import inspect as inspect
from ortbench.api.commands import load as load
from ortbench.api.commands import loop as loop
from ortbench.api.commands import run as run
from ortbench.api.commands import soak as soak
from ortbench.api.commands import start as start
from ortbench.api.commands import sweep as sweep
from ortbench.api.results import Comparison as Comparison
from ortbench.api.results import Result as Result
from ortbench.api.results import Verdict as Verdict
from ortbench.api.results import read as read
from ortbench.api.running import Interrupted as Interrupted
from ortbench.api.running import NotSaved as NotSaved
from ortbench.api.running import Progress as Progress
from ortbench.core.errors import BadInput as BadInput
from ortbench.core.errors import BenchmarkFailed as BenchmarkFailed
from ortbench.core.errors import NotComparable as NotComparable
from ortbench.core.errors import OrtbenchError as OrtbenchError
from ortbench.core.version import __version__ as __version__
from ortbench.features.bandwidth.api import Bandwidth as Bandwidth
from ortbench.features.bandwidth.api import bandwidth as bandwidth

__all__: list[str]
