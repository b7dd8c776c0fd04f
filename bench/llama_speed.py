"""What tern-speed (bench/speed.c) times, with llama.cpp through llama-cpp-python's ctypes interface.

    llama_speed.py MODEL THREADS TEST...    ppN: N tokens in one llama_decode; tgN: N llama_decodes of one token
    llama_speed.py MODEL THREADS first      load, a prompt of one token and the next token, without Python's own start

Prints "system CPU FEATURES", "version LIBRARY" and "TEST SECONDS". Requires llama-cpp-python; run by bench/peers.
"""

import ctypes
import os
import sys
import time

import llama_cpp as llama


def quiet():
    """llama.cpp logs to stderr unless it is given a callback that does not."""
    callback = llama.llama_log_callback(lambda level, text, user: None)
    llama.llama_log_set(callback, ctypes.c_void_p(0))
    return callback


def open_context(path, n_threads, n_ctx, n_batch, flash_attention=llama.LLAMA_FLASH_ATTN_TYPE_AUTO):
    llama.llama_backend_init()
    params = llama.llama_model_default_params()
    params.n_gpu_layers = 0
    model = llama.llama_model_load_from_file(path.encode(), params)
    if not model:
        sys.exit(f"llama_speed: cannot load {path}")
    options = llama.llama_context_default_params()
    options.n_ctx, options.n_batch, options.n_ubatch = n_ctx, n_batch, min(n_batch, 512)
    options.n_threads = options.n_threads_batch = n_threads
    options.flash_attn_type = flash_attention  # AUTO: llama.cpp's choice, as its users get it
    return model, llama.llama_init_from_model(model, options)


def token_id(i, n_vocab):
    return 256 + ((i * 2654435761 & 0xFFFFFFFF) >> 8) % (n_vocab - 256)


def time_once(context, ids, decode, n):
    llama.llama_memory_clear(llama.llama_get_memory(context), True)
    step = 1 if decode else n
    batches = [
        llama.llama_batch_get_one(ctypes.cast(ctypes.byref(ids, at * 4), ctypes.POINTER(llama.llama_token)), step)
        for at in range(0, n, step)
    ]
    start = time.perf_counter()
    for batch in batches:
        if llama.llama_decode(context, batch) != 0:
            sys.exit("llama_speed: llama_decode failed")
        llama.llama_get_logits(context)  # waits for the result
    return time.perf_counter() - start


def first_token(path, n_threads):
    start = time.perf_counter()
    model, context = open_context(path, n_threads, 512, 512)
    ids = (llama.llama_token * 1)(token_id(0, llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))))
    time_once(context, ids, False, 1)
    llama.llama_sampler_sample(llama.llama_sampler_init_greedy(), context, -1)
    print(f"first {time.perf_counter() - start:.6f}", flush=True)
    os._exit(0)  # nothing to tear down, as in a program that ends


def main():
    path, n_threads, tests = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    callback = quiet()  # kept alive
    if tests == ["first"]:
        first_token(path, n_threads)
    n_max = max(int(test[2:]) for test in tests)
    model, context = open_context(path, n_threads, n_max, n_max)
    n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    ids = (llama.llama_token * n_max)(*(token_id(i, n_vocab) for i in range(n_max)))
    print("system", llama.llama_print_system_info().decode().strip(" |\n"))
    print("version llama-cpp-python", llama.__version__)
    for test in tests:
        decode, n = test.startswith("tg"), int(test[2:])
        time_once(context, ids, decode, min(n, 8) if decode else n)
        print(test, f"{time_once(context, ids, decode, n):.6f}", flush=True)
    del callback


if __name__ == "__main__":
    main()
