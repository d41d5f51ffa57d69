"""What facts about a machine mean, as `ortbench doctor` says it: findings, each a sentence of one table, and their sections. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ortbench.analysis.noise import WHO, used_by_others
from ortbench.core import units
from ortbench.core.defects import LOST_STREAM
from ortbench.core.eps import (
    CUDA_PACKAGE,
    NO_GPU,
    SHARED,
    SHORT_NAMES,
    in_folder,
    is_nvidia,
    lacks_gpu,
    mending,
    origin,
    overwritten,
    problem_of,
)
from ortbench.core.safe_text import join_words
from ortbench.facts import busy_fact, certificate_fact
from ortbench.facts.sentences import phrase
from ortbench.features.doctor.model import Card, Cuda, Facts, Noise, Nvidia
from ortbench.model.protocol import ListedEp
from ortbench.model.schema import MachineNoise, kind

GOOD, KNOW, BAD = "good", "worth knowing", "bad"
VERDICTS = (GOOD, KNOW, BAD)


class Finding(NamedTuple):
    verdict: str  # one of `VERDICTS`
    text: str  # the fact, and what follows from it
    command: str = ""  # that mends it, or tells more; "" where none does


class Section(NamedTuple):
    title: str
    findings: Sequence[Finding]


_SCARCE = 0.1  # of memory
_IDLE = 0.05  # of a card
_SAME, _COARSE = 0.02, 0.10  # differences that a run of `_RUN_S` per mode, the default, can see
_RUN_S = 5.0
# The oldest driver for a major version of CUDA on Linux, from the table in CUDA's release notes.
_DRIVERS = {12: "525", 13: "580"}
_TO_LOAD = ("libcudart", "libcublas", "libcurand", "cudart", "cublas", "curand")  # the others are opened when wanted
_CUDA = f"pip install '{CUDA_PACKAGE}'"
_INTEL = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
_AMD = "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"

# fmt: off
_SENTENCES: dict[str, Finding] = {
    "loads-not": Finding(BAD, "ONNX Runtime does not work: {problem}", "{mend}"),
    "loads": Finding(GOOD, "ONNX Runtime {version}{package}; {system}"),
    "overwritten": Finding(BAD, "{sentence}", "{commands}"),
    "other-files": Finding(BAD, "the package is {name} {version}, and the module's files are those of {package}", "pip install --force-reinstall --no-deps {name}=={version}"),
    "hidden": Finding(KNOW, "{name} {version} in {folder} is hidden: the module of {module} comes first"),
    "ep-runs": Finding(GOOD, "{ep} loads and runs on {devices}"),
    "ep-by-name": Finding(KNOW, "{ep} is known to ONNX Runtime by its name alone: only a session shows whether it runs"),
    "ep-without-device": Finding(KNOW, "{ep} loads and finds no device that it can use here: check which hardware it takes, and the driver"),
    "ep-fails": Finding(BAD, "{ep} does not load: {why}", "{command}"),
    "ep-without-gpu": Finding(KNOW, "{ep} does not load: " + NO_GPU),
    "ep-names": Finding(KNOW, "{message}"),
    "lost-stream": Finding(KNOW, "{what}: of {eps}, when a host array is bound as an input and in runs with tensors on several devices", "pip install '{package}>={release}'"),
    "no-driver": Finding(BAD, "there is an NVIDIA GPU without a working driver: install the driver, or give the container access to the GPU", "nvidia-smi"),
    "driver": Finding(GOOD, "NVIDIA's driver {driver}"),
    "driver-cuda": Finding(GOOD, "NVIDIA's driver {driver}, for CUDA up to {cuda}"),
    "driver-serves": Finding(GOOD, "NVIDIA's driver {driver}, for CUDA up to {cuda}; this ONNX Runtime was built for CUDA {built}"),
    "old-driver": Finding(BAD, "NVIDIA's driver {driver}, for CUDA up to {cuda}: too old for this ONNX Runtime, which was built for CUDA {built}; install a newer one"),
    "old-driver-least": Finding(BAD, "NVIDIA's driver {driver}, for CUDA up to {cuda}: too old for this ONNX Runtime, which was built for CUDA {built}; install a newer one (CUDA {needs}: {least} or newer)", "apt install nvidia-driver-{least}"),
    "no-cuda": Finding(KNOW, "this ONNX Runtime was built without CUDA, so it does not use the NVIDIA GPU", f"pip uninstall -y onnxruntime && {_CUDA}"),
    "cuda-version": Finding(GOOD, "{what} {version} is loaded"),
    "missing-to-load": Finding(BAD, "the CUDA EP does not load without {names}: not found", _CUDA),
    "missing-to-load-others": Finding(BAD, "the CUDA EP does not load without {names}: not found; other versions do not help: {others}", _CUDA),
    "missing-later": Finding(KNOW, "some operators need {names}: not found", _CUDA),
    "missing-later-others": Finding(KNOW, "some operators need {names}: not found; other versions do not help: {others}", _CUDA),
    "several-files": Finding(KNOW, "{name} is there {count} times, in {places}; the first on the search path is taken"),
    "several-files-loaded": Finding(KNOW, "{name} is there {count} times, in {places}; {loaded} is the one loaded"),
    "library": Finding(GOOD, "{name}: {place}"),
    "gpu-silent": Finding(BAD, "GPU {gpu} does not answer: {error}", "nvidia-smi"),
    "gpu": Finding(GOOD, "GPU {gpu}: {name}"),
    "gpu-clocks": Finding(KNOW, "GPU {gpu}: {name} now; clocks follow the work and the temperature unless they are locked", "sudo nvidia-smi -i {gpu} -lgc {highest},{highest}"),
    "persistence-off": Finding(BAD, "GPU {gpu}: persistence mode is off, so the driver is loaded again whenever nothing has used the GPU", "sudo nvidia-smi -i {gpu} -pm 1"),
    "persistence": Finding(GOOD, "GPU {gpu}: persistence mode is on"),
    "power-limit": Finding(KNOW, "GPU {gpu}: its power is limited to {limit:.0f} W of {usual:.0f} W", "sudo nvidia-smi -i {gpu} -pl {usual:.0f}"),
    "slowed": Finding(BAD, "GPU {gpu}: it is slowed down now by {reasons}", "nvidia-smi -i {gpu} -q -d PERFORMANCE"),
    "not-slowed": Finding(GOOD, "GPU {gpu}: nothing slows it down now"),
    "gpu-shared": Finding(BAD, "GPU {gpu}: {count} on it: {names}", "nvidia-smi -i {gpu}"),
    "gpu-busy": Finding(BAD, "GPU {gpu}: it is busy {busy} of the time with somebody else's work", "nvidia-smi"),
    "gpu-alone": Finding(GOOD, "GPU {gpu}: no other process is on it"),
    "cores": Finding(GOOD, "{model}: this process may run on {cores}"),
    "some-cores": Finding(KNOW, "{model}: this process may run on {usable} of {cores}"),
    "limited": Finding(BAD, "the container may take {limit}' worth of time, and ONNX Runtime starts a thread for each core: all of them are stopped until the next period when it is spent", "ortbench run MODEL --ep cpu --intra-op-threads {threads}"),
    "not-limited": Finding(GOOD, "no container limits its CPU time"),
    "slow-governor": Finding(BAD, "the frequency governor is {governors}: clocks follow the load, and short runs are timed at low ones", "sudo cpupower frequency-set -g performance"),
    "governor": Finding(GOOD, "the frequency governor is performance"),
    "turbo": Finding(KNOW, "turbo is on: clocks depend on temperature and on how many cores work", "{command}"),
    "no-turbo": Finding(GOOD, "turbo is off"),
    "clocks-unknown": Finding(KNOW, "this machine reports neither its frequency governor nor turbo, like most virtual machines: clocks may change between runs, so compare configurations in one run"),
    "busy": Finding(BAD, "{sentence}", WHO),
    "quiet": Finding(GOOD, "{used} in the last second"),
    "scarce-memory": Finding(BAD, "{free} of {total} memory are free: what does not fit is paged, which takes longest of all", "ps -eo rss,pid,comm --sort=-rss | head"),
    "memory": Finding(GOOD, "{free} of {total} memory are free"),
    "nsys-fails": Finding(BAD, "Nsight Systems does not start: {problem}", "nsys --version"),
    "nsys": Finding(GOOD, "Nsight Systems {nsys}"),
    "no-nsys": Finding(KNOW, "Nsight Systems is not installed, without which 'ortbench profile' records nothing (https://developer.nvidia.com/nsight-systems)"),
    "no-nvtx": Finding(KNOW, "the package nvtx is not installed: profilers see no ranges", "pip install nvtx"),
    "certificate": Finding(GOOD, "{sentence}"),
    "certificate-stale": Finding(KNOW, "the certificate of {date} is not used any more: {why}", "ortbench doctor --certify"),
    "noise-fails": Finding(BAD, "a small model does not run on the CPU: {problem}"),
    "noise-unknown": Finding(BAD, "in {seconds:g} s there were too few blocks to tell: this machine is very slow or busy"),
    "noise": Finding(GOOD, "two identical measurements of a small model, of {seconds:g} s each, differ by {apart}: a process of {run:g} s per mode cannot tell differences below about {seen}"),
    "noise-coarse": Finding(BAD, "two identical measurements of a small model, of {seconds:g} s each, differ by {apart}: a process of {run:g} s per mode cannot tell differences below about {seen}; measure when nothing else runs", WHO),
}
# fmt: on


def _finding(code: str, **values: object) -> Finding:
    verdict, text, command = _SENTENCES[code]
    return Finding(verdict, text.format(**values), command.format(**values))


def packages(facts: Facts) -> Iterator[Finding]:
    """ONNX Runtime, and who else brings a module of its name."""
    found, module = facts["packages"]["distributions"], facts["packages"]["module"]
    installed = facts["installed"]
    if installed is None:
        mend = "pip install onnxruntime" if module is None else "pip install --force-reinstall onnxruntime"
        if found:
            again = f"pip install --force-reinstall {found[0]['name']}=={found[0]['version']}"
            mend = mending(facts["problem"] or "", facts["packages"]["numpy"]) or again
        problem = re.sub(r"; (install|mend) it with: .*", "", facts["problem"] or "")  # the command stands for itself
        yield _finding("loads-not", problem=problem, mend=mend)
    else:
        package = f" of the package {installed['package']}" if installed["package"] else ""
        version = installed["runtime"]["onnxruntime"]
        yield _finding("loads", version=version, package=package, system=facts["system"])
    together = in_folder(found, module)
    if (clash := overwritten(together)) is not None:
        yield _finding("overwritten", sentence=clash.sentence, commands=" && ".join(clash.commands))
    elif together and installed is not None and installed["package"] not in (None, together[0]["name"]):
        yield _finding("other-files", package=installed["package"], **together[0])
    for other in found:
        if other not in together:
            yield _finding("hidden", module=module, **other)


def providers(facts: Facts) -> Iterator[Finding]:
    """Each EP: its devices, or why it has none; of those that share a name also whose they are."""
    if (installed := facts["installed"]) is None:
        return
    names = [ep["name"] for ep in installed["eps"]]
    for ep in installed["eps"]:
        version = f" {ep['version']}" if ep["version"] else ""
        package = f" of {ep['package']}" if names.count(ep["name"]) > 1 and ep["package"] else ""
        yield _provider(ep, f"{ep['name']}{version}{package}", facts["nvidia"]["present"])
    for warning in installed.get("warnings", ()):
        if warning["code"] == SHARED:
            yield _finding("ep-names", message=warning["message"])
    if (what := LOST_STREAM.describe(installed["runtime"]["onnxruntime"])) is not None:
        own = installed["package"] or "onnxruntime"  # whose EPs make their copies themselves
        plugins = [it for it in installed["eps"] if it["package"] != own]
        names = [it["name"] for it in plugins if any(device["streams"]["offered"] for device in it["devices"])]
        if names:
            release = LOST_STREAM.release
            yield _finding("lost-stream", what=what, eps=join_words(names), package=own, release=release)


def _provider(ep: ListedEp, name: str, has_gpu: bool) -> Finding:
    if lacks_gpu(ep, has_gpu):
        return _finding("ep-without-gpu", ep=name)
    if ep["problem"] is None:
        devices = [kind(it["hardware"]) for it in ep["devices"] if "vendor" in it["hardware"]]
        code = "ep-runs" if devices else "ep-by-name" if ep["devices"] else "ep-without-device"
        return _finding(code, ep=name, devices=join_words(devices))
    where = None if ep["missing"] is None else origin(ep["missing"])
    if where is None:
        return _finding("ep-fails", ep=name, why=ep["problem"], command="")
    why = problem_of(ep) if where.command else f"{problem_of(ep)} ({where.what})"
    return _finding("ep-fails", ep=name, why=why, command=where.command)


def cuda(facts: Facts) -> Iterator[Finding]:
    """CUDA, cuDNN and the driver against what this ONNX Runtime was built for; nothing where there is no card."""
    nvidia, installed = facts["nvidia"], facts["installed"]
    if not nvidia["present"]:
        return
    built = None if installed is None else installed["cuda"]
    yield _driver(nvidia, built)
    if built is not None:
        for what, version in (("CUDA's runtime", built["runtime"]), ("cuDNN", built["cudnn"])):
            if version is not None:
                yield _finding("cuda-version", what=what, version=version)
        missing = [it for it in built["libraries"] if not it["found"] and it["loaded"] is None]
        for code, is_to_load in (("missing-to-load", True), ("missing-later", False)):
            if absent := [it for it in missing if it["name"].startswith(_TO_LOAD) == is_to_load]:
                paths = [path for it in absent for path in it["others"]]
                names = join_words([it["name"] for it in absent])
                yield _finding(f"{code}-others" if paths else code, names=names, others=", ".join(paths))
        for library in built["libraries"]:
            name, paths, loaded = library["name"], library["found"], library["loaded"]
            if len(paths) > 1:
                code = "several-files-loaded" if loaded else "several-files"
                yield _finding(code, name=name, count=len(paths), places=join_words(paths), loaded=loaded)
            elif loaded or paths:
                yield _finding("library", name=name, place=loaded or paths[0])
    # An EP of a package takes the card too: ONNX Runtime itself need not.
    elif installed is not None and not any(is_nvidia(ep["name"]) for ep in installed["eps"]):
        yield _finding("no-cuda")


def _driver(nvidia: Nvidia, built: Cuda | None) -> Finding:
    if nvidia["driver"] is None:
        return _finding("no-driver")
    driver, takes = nvidia["driver"], nvidia["cuda"]
    needs = None if built is None else re.match(r"\d+", built["built_for"])
    if built is None or takes is None or needs is None:
        return _finding("driver-cuda" if takes else "driver", driver=driver, cuda=takes)
    least = _DRIVERS.get(int(needs[0]))
    is_old = int(takes.partition(".")[0]) < int(needs[0])
    code = "driver-serves" if not is_old else "old-driver-least" if least else "old-driver"
    return _finding(code, driver=driver, cuda=takes, built=built["built_for"], needs=needs[0], least=least)


def cards(facts: Facts) -> Iterator[Finding]:
    for gpu, card in enumerate(facts["nvidia"]["cards"]):
        if "error" in card:
            yield _finding("gpu-silent", gpu=gpu, error=card["error"])
        else:
            yield from _card(gpu, card)


def _card(gpu: int, card: Card) -> Iterator[Finding]:
    clocks = []
    highest = card.get("sm_mhz_max")
    if "sm_mhz" in card and highest is not None:
        clocks.append(f"SM clock {card['sm_mhz']} of {highest} MHz")
    if "memory_mhz" in card and "memory_mhz_max" in card:
        clocks.append(f"memory clock {card['memory_mhz']} of {card['memory_mhz_max']} MHz")
    name = ", ".join([card.get("name", "NVIDIA"), *clocks])
    yield _finding("gpu-clocks" if clocks and highest is not None else "gpu", gpu=gpu, name=name, highest=highest)
    if "persistence" in card:
        yield _finding("persistence" if card["persistence"] else "persistence-off", gpu=gpu)
    limit, usual = card.get("power_limit_w"), card.get("power_default_w")
    if limit is not None and usual is not None and limit < usual:
        yield _finding("power-limit", gpu=gpu, limit=limit, usual=usual)
    slowed = card.get("slowed_by")
    if slowed is not None:
        yield _finding("slowed" if slowed else "not-slowed", gpu=gpu, reasons=join_words(slowed))
    processes, busy = card.get("processes"), card.get("busy")
    if processes:
        said = []
        for process in processes:
            memory = "" if process["memory_bytes"] is None else f", {units.size(process['memory_bytes'])}"
            said.append(f"{process['name'] or 'process'} ({process['pid']}{memory})")
        count = "1 other process" if len(said) == 1 else f"{len(said)} other processes"
        yield _finding("gpu-shared", gpu=gpu, count=count, names=join_words(said))
    elif busy is not None and busy > _IDLE:
        yield _finding("gpu-busy", gpu=gpu, busy=units.share(busy))
    elif processes is not None:
        yield _finding("gpu-alone", gpu=gpu)


def processor(facts: Facts) -> Iterator[Finding]:
    cpu, memory = facts["cpu"], facts["memory"]
    cores, usable, limit = cpu["cores"], cpu["usable"], cpu["limit"]
    if usable is not None:
        code = "some-cores" if cores is not None and cores > usable else "cores"
        yield _finding(code, model=cpu["model"], usable=usable, cores=units.count(cores or usable, "core"))
    if limit is not None and limit < (usable or cores or math.inf):
        yield _finding("limited", limit=units.count(limit, "core"), threads=max(1, math.floor(limit)))
    elif usable is not None:
        yield _finding("not-limited")
    governors, turbo = cpu["governors"], cpu["turbo"]
    slow = [f"{name} ({units.count(cores, 'core')})" for name, cores in governors.items() if name != "performance"]
    if governors:
        yield _finding("slow-governor" if slow else "governor", governors=join_words(slow))
    if turbo is not None:
        command = _INTEL if "intel" in cpu["model"].lower() else _AMD
        yield _finding("turbo" if turbo else "no-turbo", command=command)
    elif not governors:
        yield _finding("clocks-unknown")
    if cpu["last_second"] is not None:
        yield _busy(cpu["last_second"]) or _finding("quiet", used=used_by_others(cpu["last_second"]))
    if memory is not None:
        code = "scarce-memory" if memory["available"] < _SCARCE * memory["total"] else "memory"
        yield _finding(code, free=units.size(memory["available"]), total=units.size(memory["total"]))


def _busy(noise: MachineNoise | None) -> Finding | None:
    """That others take time from what is measured, in the words of a report; None on a quiet machine."""
    fact = busy_fact(noise)
    return None if fact is None else _finding("busy", sentence=phrase(fact))


def profiler(facts: Facts) -> Iterator[Finding]:
    found = facts["profiler"]
    code = "nsys-fails" if found["problem"] is not None else "no-nsys" if found["nsys"] is None else "nsys"
    yield _finding(code, **found)
    if found["nvtx"] is None and (found["nsys"] is not None or facts["nvidia"]["present"]):
        yield _finding("no-nvtx")


def noise(facts: Facts) -> Iterator[Finding]:
    """What a run could not see here, and what the certificate says of gates."""
    if (certificate := facts.get("certificate")) is not None:
        if stale := facts.get("stale"):
            yield _finding("certificate-stale", date=certificate["created"][:10], why="; ".join(stale))
        else:
            yield _finding("certificate", sentence=phrase(certificate_fact(certificate)))
    if (found := facts["noise"]) is not None:
        yield _noise(found)
        if _busy(facts["cpu"]["last_second"]) is None and (busy := _busy(found.get("machine"))) is not None:
            yield busy


def _noise(found: Noise) -> Finding:
    if found["problem"] is not None:
        return _finding("noise-fails", problem=found["problem"])
    if (seen := visible(found)) is None:
        return _finding("noise-unknown", seconds=found["seconds"])
    apart = units.share(abs(found["ratio"] - 1), 1)
    code = "noise" if seen <= _COARSE else "noise-coarse"
    finding = _finding(code, seconds=found["seconds"], apart=apart, run=_RUN_S, seen=units.share(seen, 1))
    return finding._replace(verdict=KNOW) if _SAME < seen <= _COARSE else finding


def visible(found: Noise) -> float | None:
    """The smallest difference that a run of `_RUN_S` could see, as a share; None where there are too few pairs.

    Half of the interval of the ratio, which shrinks with the square root of the time; how far the two measurements were apart
    does not go away with time, as it comes with the process.
    """
    interval = found.get("ci95")
    if interval is None:
        return None
    half = (interval[1] - interval[0]) / 2 * math.sqrt(found["seconds"] / _RUN_S)
    return max(half, abs(found["ratio"] - 1))  # also within its interval: who is shown one cannot see less


_SECTIONS = {
    "ONNX Runtime": packages,
    "Execution providers": providers,
    "CUDA": cuda,
    "NVIDIA GPUs": cards,
    "Processor and memory": processor,
    "Profiling": profiler,
    "Noise": noise,
}


def examine(facts: Facts) -> list[Section]:
    """The sections that have something to say."""
    found = [Section(title, list(judge(facts))) for title, judge in _SECTIONS.items()]
    return [section for section in found if section.findings]


def usable(facts: Facts) -> list[str]:
    """The EPs that load and have a device, as `--ep` takes them."""
    installed, short = facts["installed"], {name: it for it, name in SHORT_NAMES.items()}
    eps = [] if installed is None else installed["eps"]
    names = [ep["name"] for ep in eps if any("vendor" in it["hardware"] for it in ep["devices"])]
    return [short.get(name, name) for name in dict.fromkeys(names)]


def works(facts: Facts) -> bool:
    """Whether ONNX Runtime itself does: it loads, and runs a small model if that was tried."""
    return facts["installed"] is not None and (facts["noise"] is None or facts["noise"]["problem"] is None)
