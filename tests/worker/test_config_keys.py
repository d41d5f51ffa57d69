"""Entries of the configuration that do nothing: what is said of each."""

from __future__ import annotations

from ortbench.worker.session.config_keys import RUN, SESSION, sentences, undocumented


def test_an_entry_that_does_nothing_is_named_with_what_does_it() -> None:
    for option, key, said in [
        (SESSION, "session.intra_op_num_threads", "does nothing: it is an attribute of SessionOptions and no entry; --intra-op-threads sets it"),
        (SESSION, "intra_op_num_threads", "does nothing: it is an attribute of SessionOptions and no entry; --intra-op-threads sets it"),
        (SESSION, "session.graph_optimization_level", "does nothing: it is an attribute of SessionOptions and no entry; --opt-level sets it"),
        (SESSION, "session.enable_cpu_mem_arena", "does nothing: it is an attribute of SessionOptions and no entry; --no-cpu-mem-arena sets it"),
        (SESSION, "inter_op_num_threads", "does nothing: it is an attribute of SessionOptions and no entry; --inter-op-threads sets it"),
        (SESSION, "session.log_severity_level", "does nothing: it is an attribute of SessionOptions and no entry; ortbench has no option for it"),
        (SESSION, "session.inter_op.allow_spinning", "does nothing: it is about threads between operators, which --execution-mode parallel alone has"),
        (SESSION, "memory.enable_memory_arena_shrinkage", "does nothing: it is an entry of RunOptions, which --run-config sets"),
        (SESSION, "ep.dynamic.workload_type", "does nothing: it is set on a session that is open (set_ep_dynamic_options); ortbench has no option for it"),
        (SESSION, "session.intra_op.allow_spining", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry; the nearest that it knows is session.intra_op.allow_spinning"),
        (SESSION, "allow_spinning", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry; the nearest that it knows is session.intra_op.allow_spinning"),
        (SESSION, "ep.contxt_enable", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry; the nearest that it knows is ep.context_enable"),
        (SESSION, "session.intra_op_num_thread", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry; the nearest is session.intra_op_num_threads, which is an attribute of SessionOptions and no entry; --intra-op-threads sets it"),
        (SESSION, "k", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry"),
        (RUN, "session.disable_prepacking", "does nothing: it is an entry of SessionOptions, which --session-config sets"),
        (RUN, "terminate", "does nothing: it is an attribute of RunOptions and no entry; ortbench has no option for it"),
        (RUN, "memory.enable_arena_shrinkage", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry; the nearest that it knows is memory.enable_memory_arena_shrinkage"),
    ]:  # fmt: skip
        assert sentences(option, {key: "1"}, (), "1.31.1") == [f"{option} {key} {said}"]


def test_documented_entries_and_those_that_a_library_holds_are_not_judged() -> None:
    for option, key in [
        (SESSION, "session.intra_op.allow_spinning"),
        (SESSION, "ep.context_enable"),
        (SESSION, "ep.someexecutionprovider.any_key"),
        (SESSION, "ep.cuda.use_arena"),
        (RUN, "memory.enable_memory_arena_shrinkage"),
        (RUN, "qnn.htp_perf_mode"),
    ]:
        assert undocumented(option, [key]) == []
        assert sentences(option, {key: "1"}, (), "1.31.1") == []
    entries = {"session.brand_new": "1", "session.brand_ne": "1"}
    assert undocumented(SESSION, entries) == [*entries]
    assert sentences(SESSION, entries, {"session.brand_new"}, "1.40.0") == [
        "--session-config session.brand_ne probably does nothing: ONNX Runtime 1.40.0 knows no such entry; "
        "the nearest that it knows is session.brand_new"
    ]
    assert sentences(SESSION, {"session.enable_profiling": "1"}, {"session.enable_profiling"}, "1.40.0") == [
        "--session-config session.enable_profiling does nothing: it is an attribute of SessionOptions and no entry; "
        "ortbench run --measure-nodes profiles some runs"
    ]
