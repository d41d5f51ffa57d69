"""What `ortbench watch` has in each Python process of a program: it records what the sessions of ONNX Runtime do.

One file of the standard library alone (Python 3.9, onnxruntime 1.16 and newer), which never imports ortbench: a copy of it, called
``sitecustomize.py``, stands first on ``PYTHONPATH``. A fault of its own ends the recording and never reaches the program.

Each process has a file of what it knows so far, ``PID-TIME.json``, replaced twice a second. Most calls only count; in bursts,
for a new session and then for at most a four-hundredth of the time, inputs and outputs are looked at too: what is the same as
before, what an output of another call.
"""

from __future__ import annotations

import array
import atexit
import functools
import importlib.abc
import importlib.util
import json
import opcode
import os
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Any

FOLDER = "ORTBENCH_WATCH"  # the variable with the folder of the records
KEEP = "ORTBENCH_WATCH_KEEP"  # the variable that says how many bytes of inputs and of models given as bytes a process keeps
TRACE = "ORTBENCH_WATCH_TRACE"  # the variable that says that calls are to be kept one by one
SEEN = "python-seen"  # a file there: a Python process had this file
_TARGET = "onnxruntime.capi.onnxruntime_inference_collection"
_OWN = "_ortbench_watch"  # of sessions and bindings: what is recorded of them
_PERIOD_S = 0.4
_MOST_SESSIONS, _MOST_SIGNATURES = 200, 256
_MOST_KEPT = 8  # signatures of a session whose inputs are kept
_FIRST, _BURST = 24, 8  # calls that are looked at together, first and later
_SHARE = 400  # these take one part of so many of the time
_MOST_BYTES = 16_384  # of an array that are compared
_WHOLE_BYTES = 65_536  # of a model given as bytes: of a longer one its start, its end and as many between are compared
_SOON_NS = 50_000  # after a call: what is done with the list of its outputs at once
_clock = time.perf_counter_ns
_read_clock: Any = getattr(time, "clock_gettime_ns", None)  # Windows has no clocks of threads
_features = attrgetter("shape", "dtype", "strides")


class _State:
    """Of this process."""

    file = ""  # of the records, without its suffix; "" while nothing is recorded
    fault = ""
    began_ns = 0
    sessions: dict[str, Any] = {}  # noqa: RUF012 - one state
    lock = threading.RLock()
    writing = threading.RLock()  # the thread of the records writes them, and who opens a session or ends
    active = 0  # calls
    busy_from = busy_ns = 0  # when the first of them began; the time in which there was one
    to_look = _FIRST  # calls
    watched: list[Any] = []  # noqa: RUF012 - references to outputs of the call that ended last
    returned_ns = 0  # when that was
    looked_ns = 0  # of this burst
    next_look_ns = 0
    written: list[Any] = []  # noqa: RUF012 - what the file has of the sessions
    outputs: dict[Any, Any] = {}  # noqa: RUF012 - of late: checksum -> session, name
    thread: Any = None
    ended = threading.Event()
    budget = 0  # bytes of inputs and models that may still be kept
    to_keep: list[Any] = []  # noqa: RUF012 - a file's name and its content, which the next writing writes
    changes = 0  # sessions that were opened and closed
    entries: dict[str, Any] = {}  # noqa: RUF012 - the same as `noted`, of models that were opened without options
    noted: Any = weakref.WeakKeyDictionary()  # noqa: RUF012 - entries and devices of session options, by these
    domain: Any = None  # of NVTX ranges, where a profiler listens

    trace: Any = None  # where calls are kept: `TRACED` numbers each, which the next writing writes
    traced = calls = 0  # those that were kept, and all
    threads: dict[Any, str] = {}  # noqa: RUF012 - those of calls that were kept


_s = _State
TRACED = 6  # session, signature, thread, start, end, number of the call
MOST_TRACED = 50_000  # calls that are all kept; of as many more one in two is, then one in four …


class _Session:
    """All sessions of one model with the same settings."""

    def __init__(self, about: Any, number: int) -> None:
        self.number, self.about = number, about
        self.opens: list[Any] = []  # the first: thread, start, end
        self.closed = self.close_ns = 0
        self.opened = self.open_ns = self.calls = self.failed = self.total_ns = 0
        self.gap_ns = self.gaps = self.last_end = self.alone = self.alone_ns = self.shared = 0
        self.active = self.most_active = self.busy_from = self.busy_ns = 0
        self.is_shared = False  # since one was active several have been
        self.signatures: dict[Any, Any] = {}
        self.histogram: dict[int, int] = {}
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        self.links: dict[Any, int] = {}
        self.binding: dict[str, Any] = {}
        self.looked = self.looked_gaps = self.spin_ns = self.work_ns = self.next_gap_ns = 0
        self.before_gap: Any = None  # while a gap is looked at: the calls before it, and what the threads had used
        self.clocks: list[int] = []  # of the threads that it made
        self.ended_ns = self.used_ns = 0  # CPU time of those of sessions before, and of these as it was read last
        self.copy = ""  # the file of a model that was given as bytes
        self.kept = 0
        self.range = _s.domain and _s.domain.get_event_attributes(os.path.basename(about["model"]) or "model in memory")

    def signature(self, key: Any, describe: Any) -> Any:
        if len(self.signatures) >= _MOST_SIGNATURES:
            key = None  # of all that are beyond the most
        if key not in self.signatures:
            counts = {"n": 0, "ns": 0, "first_ns": 0, "out": [0, 0]}
            self.signatures[key] = {"number": len(self.signatures), "inputs": describe(), **counts}
        return self.signatures[key]

    def data(self) -> Any:
        names = "number opens opened open_ns closed close_ns calls failed total_ns gap_ns gaps alone alone_ns shared busy_ns most_active inputs outputs"
        own = {name: getattr(self, name) for name in f"{names} binding looked looked_gaps spin_ns work_ns".split()}
        own["signatures"] = [*self.signatures.values()]
        own["histogram"] = list(self.histogram.items())
        own["links"] = [[*key, n] for key, n in self.links.items()]
        return {
            **self.about,
            **own,
            "copy": self.copy,
            "pool": len(self.clocks),
            "pool_ns": self.ended_ns + max(_pool_ns(self), self.used_ns),
        }


class _Closing:
    """In the `__dict__` of a session, behind the C++ session: its own end is that of the closing, which begins when references to the
    session die."""

    def __init__(self, session: Any, record: Any) -> None:
        self._record, self._began = record, 0
        self._reference = weakref.ref(session, self._begin)

    def _begin(self, _: Any, clock: Any = _clock) -> None:  # as a default: at the end of Python globals are gone
        self._began = clock()

    def __del__(self, clock: Any = _clock, state: Any = _s) -> None:
        if self._began and state.file:  # else it is one of a cycle, whose parts die in any order
            took = clock() - self._began
            with state.lock:
                self._record.closed += 1
                self._record.close_ns += took
                state.changes += 1


def _guard(function: Any) -> Any:
    """A fault ends the recording."""

    @functools.wraps(function)
    def call_guarded(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except Exception as error:
            _s.fault = _s.fault or f"{type(error).__name__}: {error}"
            return None

    return call_guarded


# What an input is


def _describe(values: Any) -> Any:
    """Each input: its name, what it is, type, shape, bytes, whether it is contiguous."""
    rows = []
    for name, value in values:
        if hasattr(value, "strides"):
            shape, kind = list(value.shape), str(value.dtype)
            rows.append([name, "array", kind, shape, value.nbytes, bool(value.flags.c_contiguous)])
        elif hasattr(value, "data_ptr"):
            size = 0
            with suppress(Exception):  # older versions, and what is no tensor
                size = value.tensor_size_in_bytes()
            rows.append([name, value.device_name(), value.data_type(), list(value.shape()), size, True])
        else:
            rows.append([name, type(value).__name__, "", [], 0, False])
    return rows


def _key(feed: Any) -> Any:
    """What is equal for calls with inputs of the same names, shapes, types and layout."""
    try:
        return (*feed, *map(_features, feed.values()))
    except (AttributeError, TypeError):
        shapes = [getattr(it, "shape", None) for it in feed.values()]
        return tuple((name, str(it() if callable(it) else it)) for name, it in zip(feed, shapes))  # noqa: B905 - of Python 3.10


def _checksum(value: Any) -> Any:
    """Of some of the elements of an array, the same for a copy of it in another layout; None where there is none."""
    if not hasattr(value, "strides") or value.dtype == object or not value.nbytes:
        return None
    part, left = value, value.nbytes
    for axis, length in enumerate(value.shape):
        if left > _MOST_BYTES and length > 1:
            step = min(length, -(-left // _MOST_BYTES))
            part = part[(slice(None),) * axis + (slice(None, None, step),)]
            left = left * part.shape[axis] // length
    content = part.tobytes()
    return zlib.crc32(content), value.nbytes, content.count(b"\0") < len(content)


# Calls


@_guard
def _enter(session: Any, inputs: Any, key_of: Any, describe: Any, values: Any) -> Any:
    """Before a call: what it is recorded under; None where the recorder has failed."""
    if _s.fault:
        return None
    key = key_of(inputs)
    found = session.signatures.get(key) or session.signature(key, describe)
    if session.before_gap is not None:
        _end_gap(session)
    if _s.to_look:
        _look_at_inputs(session, values())
        if "kept" not in found:
            _keep_inputs(session, found, values())
    with _s.lock:
        now = _clock()
        if not _s.active:
            _s.busy_from = now
        if not session.active:
            session.busy_from, session.is_shared = now, False
        _s.active += 1
        session.active += 1
        if session.active > session.most_active:
            session.most_active = session.active
        session.is_shared = session.active > 1 or session.is_shared
    if session.range is not None:
        _s.domain.push_range(session.range)
    return found


def _end_call(session: Any, end: int) -> None:
    _s.active -= 1
    session.active -= 1
    if not session.active:
        session.busy_ns += end - session.busy_from
    if not _s.active:
        _s.busy_ns += end - _s.busy_from


@_guard
def _leave(session: Any, signature: Any, start: int, end: int, outputs: Any, names: Any) -> Any:
    """After a call that came to its end, whose outputs are a list, or None."""
    if session.range is not None:
        _s.domain.pop_range()
    took = end - start
    width = took.bit_length()
    bucket = (width << 5) | ((took >> (width - 6)) & 31 if width > 6 else took & 31)
    with _s.lock:
        _end_call(session, end)
        session.calls += 1
        session.total_ns += took
        session.histogram[bucket] = session.histogram.get(bucket, 0) + 1
        if session.last_end and start > session.last_end:
            session.gaps += 1
            session.gap_ns += start - session.last_end
        session.last_end = end
        if session.is_shared:
            session.shared += 1
        else:
            session.alone += 1
            session.alone_ns += took
        if not signature["n"]:
            signature["first_ns"] = took
        if outputs and (_s.to_look or not signature["n"]):
            signature["out"][0] += sum(getattr(it, "nbytes", 0) for it in outputs if hasattr(it, "strides"))
            signature["out"][1] += 1
        signature["n"] += 1
        signature["ns"] += took
        if _s.trace is not None:
            if not _s.calls % (1 << _s.traced // MOST_TRACED):
                thread = threading.current_thread()
                _s.threads[thread.ident] = thread.name
                _s.traced += 1
                _s.trace.extend((session.number, signature["number"], thread.ident, start, end, _s.calls))
            _s.calls += 1
    if _s.to_look:
        _look_at_outputs(session, outputs, names, end)
    elif end >= _s.next_look_ns:
        _s.to_look, _s.looked_ns = _BURST, 0
    if end >= session.next_gap_ns:
        _begin_gap(session, end)


@_guard
def _give_up(session: Any) -> Any:
    """After a call that raised."""
    if session.range is not None:
        _s.domain.pop_range()
    with _s.lock:
        _end_call(session, _clock())
        session.failed += 1


def _pool_ns(session: Any) -> Any:
    """The CPU time of the threads that the session made."""
    used = 0
    for thread_clock in session.clocks:
        with suppress(OSError):  # it has ended
            used += _read_clock(thread_clock)
    session.used_ns = max(session.used_ns, used)
    return used


def _begin_gap(session: Any, end: int) -> None:
    is_first = session.looked_gaps < _FIRST
    begin = time.thread_time_ns() if is_first else _clock()
    used = _pool_ns(session)
    now = time.thread_time_ns()
    session.before_gap = (session.calls, used, threading.get_ident(), now)
    # The first by CPU time, as this thread may have waited for a CPU; later ones by the clock: some kernels take long to read CPU times.
    session.next_gap_ns = end + 2 * _SHARE * ((now if is_first else _clock()) - begin)


def _end_gap(session: Any) -> None:
    calls, used, thread, worked = session.before_gap
    session.before_gap = None
    if calls == session.calls and not session.active:
        session.looked_gaps += 1
        session.spin_ns += _pool_ns(session) - used
        if thread == threading.get_ident():
            session.work_ns += time.thread_time_ns() - worked


def _look_at_inputs(session: Any, values: Any) -> None:
    begin = _clock()
    session.looked += 1
    for name, value in values:
        about = session.inputs.setdefault(name, {"same": 0, "changed": 0, "last": None, "copies_ns": []})
        is_array = hasattr(value, "strides")
        if not hasattr(value, "data_ptr") and not (is_array and value.flags.c_contiguous):
            copy_from = _clock()
            value.copy("C") if is_array else sys.modules["numpy"].asarray(value)
            about["copies_ns"] = [*about["copies_ns"][-63:], _clock() - copy_from]
        checksum = _checksum(value)
        if checksum is None:
            continue
        before, about["last"] = about["last"], checksum[:2]
        if before == about["last"]:
            about["same"] += 1
            continue
        about["changed"] += before is not None
        source = _s.outputs.get(about["last"])
        if source is not None and checksum[2] and value.nbytes >= 32:
            key = (*source, name)
            session.links[key] = session.links.get(key, 0) + 1
    _s.looked_ns += _clock() - begin


def _keep_inputs(session: Any, signature: Any, values: Any) -> None:
    """Keep a copy of the inputs of a call, where there is room for it."""
    signature["kept"] = ""
    # Of shapes that grow from call to call the first, second, fourth, eighth …
    if session.kept >= _MOST_KEPT or len(session.signatures) < 1 << session.kept:
        return
    arrays = {}
    with suppress(Exception):  # of an OrtValue that has no array
        arrays = {name: it.numpy() if hasattr(it, "data_ptr") else it for name, it in values}
    is_whole = len(arrays) == len(signature["inputs"])
    if not is_whole or not all(hasattr(it, "strides") and it.dtype != object for it in arrays.values()):
        return
    size = sum(it.nbytes for it in arrays.values())
    if size <= _s.budget:
        _s.budget -= size
        session.kept += 1
        signature["kept"] = f"{os.path.basename(_s.file)}-{session.number}-{session.kept}.npz"
        _s.to_keep.append((signature["kept"], {name: it.copy("C") for name, it in arrays.items()}))


def _write_kept() -> None:
    """Write what is to be kept into files of this user alone."""
    while _s.to_keep:
        name, content = _s.to_keep.pop(0)
        number = os.open(os.path.join(os.path.dirname(_s.file), name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(number, "wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                sys.modules["numpy"].savez(file, **content)


def _look_at_outputs(session: Any, outputs: Any, names: Any, end: int) -> None:
    begin = _clock()
    pending = []
    for name, value in zip(names or (), outputs or ()):  # noqa: B905 - of Python 3.10
        checksum = _checksum(value)
        about = session.outputs.setdefault(name, {"bytes": 0, "looked": 0, "unread": 0})
        about["looked"] += 1
        about["bytes"] += getattr(value, "nbytes", 0) if hasattr(value, "strides") else 0
        if checksum is not None:
            if len(_s.outputs) > 64:
                _s.outputs.clear()
            _s.outputs[checksum[:2]] = (session.number, name)
            pending.append((about, value))
    _s.to_look -= 1
    done = _clock()
    _s.looked_ns += done - begin
    _s.watched = []
    if not _s.to_look:
        _s.outputs.clear()
        _s.next_look_ns = done + max(_s.looked_ns * _SHARE, 100_000_000)
    if len(outputs or ()) > 1:
        _s.watched = [weakref.ref(value, functools.partial(_is_gone, about)) for about, value in pending]


def _is_gone(about: Any, gone: Any) -> None:
    """An output that dies where the list of outputs is subscripted, while another lives, was in nobody's hand."""
    if _clock() - _s.returned_ns > _SOON_NS or not any(it() is not None for it in _s.watched if it is not gone):
        return
    frame = sys._getframe(1)
    code, offset = frame.f_code.co_code, frame.f_lasti
    name = opcode.opname[code[offset]]
    operations = getattr(opcode, "_nb_ops", ())  # of BINARY_OP, which subscripts too from Python 3.14 on
    if name == "BINARY_OP" and code[offset + 1] < len(operations):
        name = operations[code[offset + 1]][0]
    about["unread"] += name in ("BINARY_SUBSCR", "BINARY_SLICE", "NB_SUBSCR")


# What is put around the calls of the library


def _around_open(original: Any) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, path_or_bytes: Any, *more: Any, **named: Any) -> None:
        before, start = _thread_clocks() if _s.file else set(), _clock()
        original(self, path_or_bytes, *more, **named)
        took = _clock() - start
        if _s.file and not _s.fault:
            given = {**dict(zip(("sess_options", "providers", "provider_options"), more)), **named}  # noqa: B905 - of Python 3.10
            _note_session(self, path_or_bytes, given, start, took, _thread_clocks() - before)

    return __init__


def _note_after(owner: Any, name: str, note: Any, *about: Any) -> None:
    """Have a method followed by `note`, which gets what it is `about`, the object, what the method gave, and its arguments."""
    original, guarded = getattr(owner, name), _guard(note)

    @functools.wraps(original)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        returned = original(self, *arguments, **named)
        guarded(*about, self, returned, *arguments, **named)
        return returned

    setattr(owner, name, call)


def _note_entry(options: Any, _: Any, key: str, value: str) -> None:
    _note_options(options)["entries"][key] = value


def _note_devices(options: Any, _: Any, devices: Any, *more: Any, **named: Any) -> None:
    _note_options(options)["devices"] = devices


def _new_note() -> Any:
    return {"entries": {}, "devices": (), "is_read": False}


def _note_options(options: Any) -> Any:
    return _s.noted.setdefault(options, _new_note())


def _model_checksum(model: Any) -> int:
    """Of the start, the end and some bytes between; by an odd step, which meets all bytes of numbers."""
    if len(model) <= 3 * _WHOLE_BYTES:
        return zlib.crc32(model)
    between = model[:: len(model) // _WHOLE_BYTES | 1]
    return zlib.crc32(model[-_WHOLE_BYTES:], zlib.crc32(between, zlib.crc32(model[:_WHOLE_BYTES])))


def _thread_clocks() -> Any:
    """The CPU clocks of this process's threads, as Linux numbers them."""
    try:
        return {~int(tid) << 3 | 6 for tid in os.listdir("/proc/self/task")}
    except OSError:
        return set()


@_guard
def _note_session(session: Any, model: Any, given: Any, start: int, took: int, clocks: Any) -> Any:
    """Note a session that was opened; `took` 0: before the recording."""
    given_options = given.get("sess_options")
    noted = _new_note() if given_options is None else _note_options(given_options)
    options, asked, got = session.get_session_options(), given.get("providers") or (), session.get_providers()
    names = "intra_op_num_threads inter_op_num_threads execution_mode graph_optimization_level enable_mem_pattern enable_profiling"
    about = {
        "model": os.path.abspath(os.fspath(model)) if isinstance(model, (str, os.PathLike)) else "",
        "asked": [it if isinstance(it, str) else it[0] for it in asked],
        "got": got,
        "options": {name: str(getattr(options, name, "")).rsplit(".", 1)[-1] for name in names.split()},
        "entries": {},
        "output_names": [it.name for it in session.get_outputs()],
        "library": "",  # of a plugin EP
        "ep_options": {},
    }
    if given_options is None:  # of a session from before the recording they may have been given
        if len(_s.entries) > _MOST_SESSIONS:
            _s.entries.clear()
        noted = _s.entries.setdefault(about["model"], noted) if took else noted
    if not noted["is_read"]:  # how threads spin, whoever set it; to ask for what is not set takes long
        for name in ("intra_op.allow_spinning", "force_spinning_stop", "intra_op.spin_duration_us"):
            with suppress(Exception):  # not set
                noted["entries"][f"session.{name}"] = options.get_session_config_entry(f"session.{name}")
        noted["is_read"] = True
    about["entries"] = {**noted["entries"]}
    devices: Any = noted.get("devices", ())
    if not took and got[:1] != ["CPUExecutionProvider"]:  # ONNX Runtime looks for devices, and may print what it finds
        devices = getattr(sys.modules.get("onnxruntime"), "get_ep_devices", list)()
    paths = [it.ep_metadata.get("library_path", "") for it in devices if [it.ep_name] == got[:1]]
    about["library"] = paths[0] if paths else ""
    if about["library"]:
        about["ep_options"] = session.get_provider_options().get(got[0], {})
    else:  # of those that ONNX Runtime brings it names defaults too
        options_of = zip(about["asked"], given.get("provider_options") or ())  # noqa: B905 - of Python 3.10
        pairs = [*(it for it in asked if not isinstance(it, str)), *options_of]
        own = [its for name, its in pairs if [name] == got[:1]]
        about["ep_options"] = {str(key): str(value) for its in own for key, value in its.items()}
    if about["model"]:
        about["bytes"] = os.path.getsize(about["model"]) if os.path.exists(about["model"]) else 0
    elif isinstance(model, (bytes, bytearray)):
        about["bytes"], about["checksum"] = len(model), _model_checksum(model)
    key = json.dumps(about, sort_keys=True)
    with _s.lock:
        found = _s.sessions.get(key)
        if found is None:
            if len(_s.sessions) >= _MOST_SESSIONS:
                return None
            found = _s.sessions[key] = _Session(about, len(_s.sessions))
            _s.to_look = _FIRST
            if isinstance(model, (bytes, bytearray)) and len(model) <= _s.budget:
                _s.budget -= len(model)
                found.copy = f"{os.path.basename(_s.file)}-{found.number}.onnx"
                _s.to_keep.append((found.copy, bytes(model)))
        if took and len(found.opens) < 20:
            found.opens.append([threading.get_ident(), start, start + took])
        found.opened += 1
        found.open_ns += took
        _s.changes += 1
        if clocks:
            found.ended_ns, found.used_ns, found.clocks = found.ended_ns + found.used_ns, 0, sorted(clocks)
    setattr(session, _OWN, found)
    if took:
        setattr(session, f"{_OWN}_closing", _Closing(session, found))
    _begin_writing()
    return found


def _session_of(session: Any) -> Any:
    """What is recorded of a session, of one that was there before the recording from now on; nothing while nothing is recorded."""
    if not _s.file:
        return None
    found = session.__dict__.get(_OWN)
    if found is None:
        return _note_session(session, getattr(session, "_model_path", None) or "", {}, 0, 0, set())
    return found


def _around_run(original: Any) -> Any:
    @functools.wraps(original)
    def run(self: Any, output_names: Any, *more: Any, **named: Any) -> Any:
        session = _session_of(self)
        feed = more[0] if more else named.get("input_feed") or named.get("input_dict_ort_values")
        if not session or (type(feed) is not dict and not isinstance(feed, Mapping)):
            return original(self, output_names, *more, **named)
        entered = _enter(session, feed, _key, lambda: _describe(feed.items()), feed.items)
        names = output_names or session.about["output_names"]
        outputs = _time_call(original, (self, output_names, *more), named, session, entered, names)
        if _s.watched:
            _s.returned_ns = _clock()
        return outputs

    return run


def _around_binding_run(original: Any) -> Any:
    @functools.wraps(original)
    def run_with_iobinding(self: Any, iobinding: Any, run_options: Any = None) -> None:
        session = _session_of(self)
        if not session:
            original(self, iobinding, run_options)
            return
        bound = iobinding.__dict__.get(_OWN) or {}
        inputs = bound.get("inputs", {})
        rows = lambda: [[name, *it] for name, it in inputs.items()]  # noqa: E731
        values = lambda: bound.get("values", {}).items()  # noqa: E731
        entered = _enter(session, inputs, lambda it: ("bound", *it.items()), rows, values)
        read = functools.partial(_bound_outputs, iobinding, entered)
        _time_call(original, (self, iobinding, run_options), {}, session, entered, [*bound.get("outputs", ())], read)
        _note_binding(session, bound)

    return run_with_iobinding


@_guard
def _bound_outputs(binding: Any, signature: Any) -> Any:
    """The outputs of a call that is looked at, or the first of its kind; empty what is not on the host."""
    if not _s.to_look and signature["n"]:
        return None
    return [*map(_array_of, binding.get_outputs())]


def _array_of(value: Any) -> Any:
    with suppress(Exception):  # of a type that NumPy has not, or none of a tensor
        return value.numpy() if value.device_name() == "cpu" else None
    return None


def _time_call(
    original: Any, arguments: Any, named: Any, session: Any, signature: Any, names: Any, read: Any = None
) -> Any:
    """Call it, and record the call under what `_enter` gave; None where that failed."""
    if signature is None:
        return original(*arguments, **named)
    start = _clock()
    try:
        outputs = original(*arguments, **named)
    except BaseException:
        _give_up(session)
        raise
    end = _clock()
    _leave(session, signature, start, end, read() if read else outputs, names)
    return outputs


@_guard
def _note_binding(session: Any, bound: Any) -> Any:
    counts = session.binding
    counts["calls"] = counts.get("calls", 0) + 1
    counts["outputs"] = dict(bound.get("outputs", {}))
    if bound.get("binds"):
        counts["binds"] = counts.get("binds", 0) + bound["binds"]
        bound["binds"] = 0
        for name, row in bound["inputs"].items():  # the next call copies only what is bound anew
            bound["inputs"][name] = ("bound" if row[0] == "cpu" else row[0], *row[1:])
    bound["values"], bound["session"] = {}, session


def _note_cleared(way: str, binding: Any, _: Any) -> None:
    binding.__dict__.get(_OWN, {}).get(way, {}).clear()


def _note_bound(way: str, where: Any, binding: Any, _: Any, name: str, *arguments: Any, **named: Any) -> None:
    """Of a value that was bound: `where` gives its memory and itself of the arguments."""
    if not _s.file or _s.fault:
        return
    bound = binding.__dict__.setdefault(_OWN, {"inputs": {}, "outputs": {}, "binds": 0, "values": {}})
    memory, value = where(arguments, named)
    bound["binds"] += 1
    if _s.to_look and way == "inputs" and value is not None:
        bound["values"][name] = value  # until the call
    if way == "outputs":
        bound[way][name] = memory
    elif value is None:
        bound[way][name] = (memory, "", (), 0, True)
    else:
        (row,) = _describe([(name, value)])
        bound[way][name] = (memory, row[2], tuple(row[3]), row[4], row[5])


def _note_copied(binding: Any, outputs: Any) -> None:
    bound = binding.__dict__.get(_OWN, {})
    if _s.file and not _s.fault and (session := bound.get("session")) is not None:
        rows = [*zip(bound["outputs"].items(), outputs)]  # noqa: B905 - of Python 3.10
        sizes = sum(
            getattr(value, "nbytes", 0) for (_, memory), value in rows if memory != "cpu"
        )  # the others a call has copied
        for count, number in (("copies", 1), ("copied_bytes", sizes)):
            session.binding[count] = session.binding.get(count, 0) + number
        for (name, _), value in rows * bool(_s.to_look):
            if (checksum := _checksum(value)) is not None:
                _s.outputs[checksum[:2]] = session.number, name


def _first(arguments: Any, named: Any, name: str) -> Any:
    return arguments[0] if arguments else named.get(name)


def _wrap(module: Any) -> None:
    """Put all that around the classes of the module, once."""
    sessions, binding = module.InferenceSession, module.IOBinding
    if getattr(sessions, "_ortbench_wrapped", False):
        return
    owner = next(it for it in sessions.__mro__ if "run" in it.__dict__)
    owner.run_with_iobinding = _around_binding_run(owner.run_with_iobinding)
    owner.run = _around_run(owner.run)
    if hasattr(owner, "run_with_ort_values"):
        owner.run_with_ort_values = _around_run(owner.run_with_ort_values)
    sessions.__init__ = _around_open(sessions.__init__)
    device = lambda args, named: (str(_first(args, named, "device_type") or "cpu"), None)  # noqa: E731
    value = lambda args, named: (lambda it: (it.device_name(), it))(_first(args, named, "ortvalue"))  # noqa: E731
    array = lambda args, named: ("cpu", _first(args, named, "arr_on_cpu"))  # noqa: E731
    for name, way, where in (
        ("bind_cpu_input", "inputs", array),
        ("bind_input", "inputs", device),
        ("bind_ortvalue_input", "inputs", value),
        ("bind_output", "outputs", device),
        ("bind_ortvalue_output", "outputs", value),
    ):
        _note_after(binding, name, _note_bound, way, where)
    for way in ("inputs", "outputs"):
        _note_after(binding, f"clear_binding_{way}", _note_cleared, way)
    _note_after(binding, "copy_outputs_to_cpu", _note_copied)
    options = module.C.SessionOptions
    _note_after(options, "add_session_config_entry", _note_entry)
    if hasattr(options, "add_provider_for_devices"):
        _note_after(options, "add_provider_for_devices", _note_devices)
    sessions._ortbench_wrapped = True


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module as others do, and has it wrapped once it is loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _TARGET or not _s.file:
            return None
        finders = [it for it in sys.meta_path if it is not self and hasattr(it, "find_spec")]
        spec = next(filter(None, (it.find_spec(name, path, target) for it in finders)), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                _guard(_wrap_loaded)(module)

            vars(spec.loader)["exec_module"] = exec_module
        return spec


def _wrap_loaded(module: Any) -> None:
    if os.environ.get("NVTX_INJECTION64_PATH"):
        with suppress(ImportError):  # without the package there are no ranges
            import nvtx

            _s.domain = nvtx.get_domain("ortbench")
    _wrap(module)
    _write()


# The records


def _write() -> None:
    """Write what is known so far, one thread at a time."""
    with _s.writing:
        if _s.file and _TARGET in sys.modules:
            _write_records()


def _write_records() -> None:
    with _s.lock:
        try:
            _s.written = [it.data() for it in _s.sessions.values()]
        except Exception as error:  # what was written last stays
            _s.fault = _s.fault or f"{type(error).__name__}: {error}"
        now = _clock()
        busy = _s.busy_ns + (now - _s.busy_from if _s.active else 0)
    module = sys.modules.get("onnxruntime")
    data = {
        "pid": os.getpid(), "parent": os.getppid(), "began_ns": _s.began_ns, "now_ns": now, "busy_ns": busy, "cpu_ns": time.process_time_ns(),
        "argv": sys.argv[:20] if hasattr(sys, "argv") else [],
        "onnxruntime": getattr(module, "__version__", ""), "fault": _s.fault, "calls": _s.calls, "threads": {**_s.threads},
    }  # fmt: skip
    sessions = ", ".join(map(json.dumps, _s.written))  # each at once, while nothing changes in it
    _write_kept()
    if _s.trace:
        with _s.lock:
            kept, _s.trace = _s.trace, array.array("Q")
        with open(f"{_s.file}.calls", "ab") as file:
            kept.tofile(file)
    with open(f"{_s.file}.new", "w", encoding="utf-8") as file:
        file.write(f'{json.dumps(data)[:-1]}, "sessions": [{sessions}]}}')
    os.replace(f"{_s.file}.new", f"{_s.file}.json")


def _keep_writing() -> None:
    before = None
    while _s.file and _s.thread is threading.current_thread():
        _s.ended.wait(_PERIOD_S)
        known = _s.busy_ns, _s.active, _s.changes, _s.fault
        if known != before:
            before = known
            _guard(_write)()


def _begin_writing() -> None:
    if _s.thread is None:
        _s.ended.clear()
        _s.thread = threading.Thread(target=_keep_writing, name="ortbench-watch", daemon=True)
        _s.thread.start()
        _write()  # of later sessions the thread


def _after_fork() -> None:
    """A child has records of its own, and no thread that writes them; sessions that it has from its parent go on."""
    if not _s.file:
        return
    _s.lock, _s.writing = threading.RLock(), threading.RLock()
    _s.thread, _s.ended = None, threading.Event()
    _begin(os.path.dirname(_s.file))
    for session in _s.sessions.values():
        session.clocks = []
    if _s.sessions:
        _guard(_begin_writing)()


def _begin(folder: str) -> None:
    """Begin records anew, with the sessions that are there."""
    _s.file, _s.began_ns, _s.fault = os.path.join(folder, f"{os.getpid()}-{time.time_ns()}"), _clock(), ""
    _s.active = _s.busy_ns = _s.traced = _s.calls = 0
    _s.trace = array.array("Q") if os.environ.get(TRACE) else None
    _s.to_keep, _s.watched, _s.to_look, _s.next_look_ns = [], [], _FIRST, 0
    for session in _s.sessions.values():
        clocks = session.clocks
        session.__init__(session.about, session.number)
        session.clocks = clocks


def start(folder: str, keep_bytes: int) -> None:
    """Record into a folder from now on, in this process and those that it forks."""
    _begin(folder)
    _s.budget = keep_bytes
    if not any(isinstance(it, _Finder) for it in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)
        atexit.register(_guard(_write))
        leave = os._exit

        @functools.wraps(leave)
        def _exit(status: Any) -> Any:
            _guard(_write)()  # children of multiprocessing end so
            leave(status)

        os._exit = _exit
    if _TARGET in sys.modules:
        _wrap_loaded(sys.modules[_TARGET])


def is_recording() -> bool:
    return bool(_s.file)


def stop() -> None:
    """Record no longer."""
    _guard(_write)()
    _s.file, _s.thread = "", None
    _s.ended.set()


def _hand_on() -> None:
    """Load the ``sitecustomize`` that there was without this one."""
    own, here = sys.modules.pop("sitecustomize"), os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [it for it in sys.path if os.path.abspath(it or ".") != here]
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", own)


if __name__ == "sitecustomize":
    if os.environ.get(FOLDER):
        try:
            open(os.path.join(os.environ[FOLDER], SEEN), "a").close()
            start(os.environ[FOLDER], int(os.environ.get(KEEP) or 0))
        except Exception:  # the program runs, and nothing is recorded
            _s.file = ""
    _hand_on()
