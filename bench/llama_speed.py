"""What tern-speed (bench/speed.c) times, with llama.cpp through llama-cpp-python's ctypes interface.

    llama_speed.py MODEL THREADS KV TEST...    ppN: N tokens in one llama_decode; tgN: N llama_decodes of one token; tgNxB: of B
                                               tokens, all their logits computed; @D behind them: after D positions
    llama_speed.py MODEL THREADS KV first      load, a prompt of one token and the next token, without Python's own start

Prints "system CPU FEATURES", "version LIBRARY", "TEST SECONDS" and "resident BYTES". Requires llama-cpp-python; run by
bench/peers.
"""

import ctypes
import os
import pathlib
import re
import sys
import time

import llama_cpp as llama

KV_TYPES = {"f32": llama.GGML_TYPE_F32, "f16": llama.GGML_TYPE_F16, "q8_0": llama.GGML_TYPE_Q8_0}
WARM_UP = 8  # tokens before a timed decode
FILL = 512  # tokens of one llama_decode that fills a depth, its own default for prefill


def quiet():
    """llama.cpp logs to stderr unless it is given a callback that does not."""
    callback = llama.llama_log_callback(lambda level, text, user: None)
    llama.llama_log_set(callback, ctypes.c_void_p(0))
    return callback


def open_context(path, n_threads, n_ctx, n_batch, kv="f16", flash_attention=llama.LLAMA_FLASH_ATTN_TYPE_AUTO):
    llama.llama_backend_init()
    params = llama.llama_model_default_params()
    params.n_gpu_layers = 0
    model = llama.llama_model_load_from_file(path.encode(), params)
    if not model:
        sys.exit(f"llama_speed: cannot load {path}")
    options = llama.llama_context_default_params()
    options.n_ctx, options.n_batch, options.n_ubatch = n_ctx, n_batch, min(n_batch, 512)
    options.n_threads = options.n_threads_batch = n_threads
    options.type_k = options.type_v = KV_TYPES[kv]
    options.flash_attn_type = flash_attention  # AUTO: llama.cpp's choice, as its users get it
    context = llama.llama_init_from_model(model, options)
    if not context:
        sys.exit(f"llama_speed: no context for {path}")
    return model, context


def token_id(i, n_vocab):
    return 256 + ((i * 2654435761 & 0xFFFFFFFF) >> 8) % (n_vocab - 256)


def parse_test(text):
    """(decode, tokens, tokens a step, depth)"""
    kind, n, step, depth = re.fullmatch(r"(pp|tg)(\d+)(?:x(\d+))?(?:@(\d+))?", text).groups()
    n = int(n)
    return kind == "tg", n, int(step or 1) if kind == "tg" else n, int(depth or 0)


class Runner:
    def __init__(self, context, ids):
        self.context, self.ids, self.position = context, ids, 0
        self.batch = llama.llama_batch_init(max(FILL, len(ids)), 0, 1)

    def fill_batch(self, at, n, all_logits):
        batch = self.batch
        batch.n_tokens = n
        for i in range(n):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = self.ids[at + i], at + i, 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = all_logits or i == n - 1

    def eval(self, n, step, all_logits):
        """The time of n tokens from here, in steps; making the batches is not part of it."""
        spent = 0.0
        for _ in range(n // step):
            self.fill_batch(self.position, step, all_logits)
            start = time.perf_counter()
            if llama.llama_decode(self.context, self.batch) != 0:
                sys.exit("llama_speed: llama_decode failed")
            llama.llama_get_logits(self.context)  # waits for the result
            spent += time.perf_counter() - start
            self.position += step
        return spent

    def go_to(self, depth):
        llama.llama_memory_seq_rm(llama.llama_get_memory(self.context), 0, depth, -1)
        self.position = min(self.position, depth)
        while self.position < depth:
            n = min(FILL, depth - self.position)
            self.eval(n, n, False)

    def time_once(self, n, step, depth, all_logits):
        self.go_to(depth)
        return self.eval(n, step, all_logits)

    def time_test(self, decode, n, step, depth):
        if decode:
            self.time_once(min(n, -(-WARM_UP // step) * step), step, depth, True)
        else:  # filling the depth has warmed a prefill up
            some = min(n, WARM_UP) if depth else n
            self.time_once(some, some, depth, False)
        return self.time_once(n, step, depth, decode)


def resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def first_token(path, n_threads, kv):
    start = time.perf_counter()
    model, context = open_context(path, n_threads, 512, 512, kv)
    first = token_id(0, llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model)))
    Runner(context, [first]).time_once(1, 1, 0, True)
    llama.llama_sampler_sample(llama.llama_sampler_init_greedy(), context, -1)
    print(f"first {time.perf_counter() - start:.6f}", flush=True)
    os._exit(0)  # nothing to tear down, as in a program that ends


def main():
    path, n_threads, kv, tests = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    callback = quiet()  # kept alive
    if tests == ["first"]:
        first_token(path, n_threads, kv)
    tests = {test: parse_test(test) for test in tests}
    n_ctx = max(depth + n for _, n, _, depth in tests.values())
    n_batch = max(FILL, *(n for decode, n, _, _ in tests.values() if not decode), 0)
    model, context = open_context(path, n_threads, n_ctx, n_batch, kv)
    n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    runner = Runner(context, [token_id(i, n_vocab) for i in range(n_ctx)])
    print("system", llama.llama_print_system_info().decode().strip(" |\n"))
    print("version llama-cpp-python", llama.__version__)
    for name, test in tests.items():
        print(name, f"{runner.time_test(*test):.6f}", flush=True)
    print("resident", resident_bytes())
    del callback


if __name__ == "__main__":
    main()
