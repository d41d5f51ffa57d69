"""The kind of loads."""

from __future__ import annotations

from ortbench.model import modes
from ortbench.model.kinds import CONCURRENCY, RATE, RUN, Kind, View, figures, tails
from ortbench.model.metrics import LATENCY

KIND = Kind(
    "load", "a load", "inference",
    (
        View(
            compared=figures("throughput", LATENCY, "latency.p99", modes.CPU_TIME), several=figures("throughput", modes.CPU_TIME),
            gated=figures("throughput"),
            axis=CONCURRENCY.name,
            columns=(
                ("throughput", "throughput.ci95"), ("scaling", "scaling.ci95"), tails(LATENCY), ("SLO",), ("cpu_cores", "gil_wait"), ("fairness",),
                ("sm_clock",),
            ),
            screen=("inf/s", "latency", "p99", "SLO", "CPU cores", "scaling"),
        ),
        View(
            compared=figures("latency.p99", LATENCY, modes.CPU_TIME), several=figures("latency.p99", modes.CPU_TIME), gated=figures("latency.p99"),
            axis=RATE.name,
            columns=(
                tails(LATENCY), ("SLO", "processes"), ("queue_delay.mean", "service_time"), ("utilisation",), ("generator_lag.p99", "late_share"),
                ("throughput", "throughput.ci95"), ("cpu_cores", "gil_wait"), ("sm_clock",),
            ),
            screen=("latency", "p99", "SLO", "CPU cores", "utilisation", "mean queue delay"),
        ),
    ),
    axes=(CONCURRENCY, RATE),
    charts=("by_clients", "by_rate"),
    charts_of_many=("by_clients", "by_rate"),
    checks=("require-mode", "max-cpu-nodes", "max-device-memory", "max-host-memory", "slo"),
    needed=(*RUN.needed, "load"),
    replaced_warnings=("gil-wait", "late-requests"),
    samples="load-samples.npz",
)  # fmt: skip
