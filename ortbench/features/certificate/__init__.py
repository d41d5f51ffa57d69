"""`ortbench doctor --certify`: how small a difference this machine tells, and how often a gate of equal code fails on it."""

from ortbench.core.features import Feature

FEATURE = Feature(needs=("doctor", "gate"), options={"Certifying": ("doctor",)})
