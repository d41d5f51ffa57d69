from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from ortbench.analysis.noise import is_busy
from ortbench.core import signals, units
from ortbench.core.errors import BENCHMARK_FAILED, DONE, INTERRUPTED, BenchmarkFailed
from ortbench.core.files import CERTIFICATE, noting, state_file, temporary_folder, write_atomically
from ortbench.core.safe_text import complain
from ortbench.features.certificate.gates import STRETCH_S, certificate_of, visit_of
from ortbench.features.certificate.measure import FEWEST, LAYERS, MORE, Taken, plans_of, take_visits
from ortbench.features.certificate.plan import Certifying
from ortbench.features.certificate.report import build_certificate
from ortbench.jobs import check_writable, write_json
from ortbench.jobs.run import observer_for
from ortbench.model.certificate import KeptCertificate, identify, read_certificate, stale_reasons
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import FAILED
from ortbench.plan.options import RawOptions, build, check_values
from ortbench.plan.target import Target

_MOST_RUNS = 200  # that are kept


def certify(given: RawOptions, target: Target) -> int:
    """Measure a certificate of this machine, keep and show it; the exit code. After Ctrl-C it is of what was measured, if that is enough."""
    asked = build(Certifying, given)
    check_values(asked)
    check_writable(given.get("json"), "--json")
    assert asked.certify is not None
    forecast = f"certifying this machine takes about {units.at_most(asked.certify)}"
    print(f"ortbench: {forecast}; Ctrl-C ends it with what was measured", file=sys.stderr, flush=True)
    signals.defer_signals()
    with ExitStack() as stack, temporary_folder() as folder:
        observer = observer_for(stack, quiet=not sys.stderr.isatty())
        plans = plans_of(Path(folder), target.python, asked.certify)
        visits, is_interrupted = take_visits(plans, asked.certify, observer)
    old = read_certificate()
    kept = make_certificate(visits, old)
    stays = "" if old is None else f"; the certificate of {old['certificate']['created'][:10]} stays"
    if kept is None:
        why = "interrupted" if is_interrupted else "the time is over"
        complain(f"{why} before {FEWEST} runs of {STRETCH_S:g} s were measured{stays}")
        return INTERRUPTED if is_interrupted else BENCHMARK_FAILED
    file = None if is_worse(kept, old) else state_file(CERTIFICATE)
    if file is None:
        complain(f"the machine was busy{stays}")
    else:
        with noting(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, json.dumps(kept, indent=1) + "\n")
    if not write_json({"certificate": kept["certificate"], "machine": kept["machine"]}, given.get("json")):
        from ortbench.report.terminal import print_report

        results = [it for visit in visits for it in visit.results]
        print_report(build_certificate(kept, results, None if file is None else str(file)))
    return INTERRUPTED if is_interrupted else DONE


def is_worse(kept: KeptCertificate, old: KeptCertificate | None) -> bool:
    """Whether a certificate is of a machine that was busy, and an older one that still holds of the same when it was quiet."""
    if old is None or old["machine"] != kept["machine"]:
        return False
    return kept["certificate"]["busy"] and not old["certificate"]["busy"]


def make_certificate(taken: Sequence[Taken], old: KeptCertificate | None) -> KeptCertificate | None:
    """What visits come to, with the runs of an old certificate of the same machine; None of too few. `BenchmarkFailed`: the model does
    not run."""
    cases = [case for visit in taken for result in visit.results for case in result.cases]
    if failed := [case.reason for case in cases if case.status == FAILED]:
        raise BenchmarkFailed(f"a small model does not run on the CPU: {failed[0]}")
    visits = [(it, visit_of(it.results)) for it in taken]
    whole = [(it, visit) for it, visit in visits if sum(visit.took_s) >= STRETCH_S]
    if len(whole) < FEWEST:
        return None
    environment = whole[0][0].results[0].environment
    runs = [] if old is None or stale_reasons(old, environment) else old["runs"]
    for run, _ in whole:
        runs.append({"at_s": run.at_s, "medians_ns": [it.median(CPU, LATENCY) or 0.0 for it in run.results]})
    runs = runs[-_MOST_RUNS:]
    busy = {it.at_s for it, _ in whole if any(map(is_busy, it.results))}
    is_busy_machine = 2 * len(busy) > len(whole)
    certificate = certificate_of([visit for _, visit in whole], runs, MORE / LAYERS, datetime.now(UTC), is_busy_machine)
    quiet = [run for run in runs if run["at_s"] not in busy]  # that later certificates go by, too
    return {"machine": identify(environment), "certificate": certificate, "runs": quiet}
