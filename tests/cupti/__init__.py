"""A stand-in for the package ``cupti-python``, which `main` has on the search path. See `cupti.cupti` in this folder."""

import os
import sys
from pathlib import Path

from ortbench.__main__ import main as ortbench
from ortbench.measure import describe


def main() -> None:
    """ortbench's main, for which every EP is one of NVIDIA's; ``CUPTI_STAND_IN_LACKS`` leaves the package out."""
    vars(describe)["is_nvidia"] = lambda ep_name: True
    if "CUPTI_STAND_IN_LACKS" not in os.environ:
        sys.path.insert(0, str(Path(__file__).parent))
    ortbench()
