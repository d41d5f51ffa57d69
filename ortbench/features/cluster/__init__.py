"""A suite on a Ray cluster: a case is a task."""

from ortbench.core.features import Feature

FEATURE = Feature(needs=("suite",), options={"OPTIONS": ("suite",)}, case_runner="job")
