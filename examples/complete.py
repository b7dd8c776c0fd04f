"""Text that follows a prompt, from Python by ctypes alone: python3 complete.py MODEL.gguf PROMPT [TOKENS]

TERN_LIBRARY is the library's path if it is not where the system looks."""

import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_uint, c_uint64, c_void_p

tern = ctypes.CDLL(os.environ.get("TERN_LIBRARY", "libtern.so.0.1"))

class Error(ctypes.Structure):
    _fields_ = [("code", c_int), ("message", ctypes.c_char * 512)]

class GeneratorOptions(ctypes.Structure):
    # The beginning of tern_generator_options, and room for the rest.
    _fields_ = [("size", c_size_t), ("sampling", c_void_p), ("max_tokens", c_uint64), ("rest", c_uint64 * 64)]

SIGNATURES = {
    "tern_model_open": [c_char_p, c_void_p, c_void_p, c_void_p],
    "tern_tokenize": [c_void_p, c_char_p, c_size_t, c_uint, c_void_p, c_void_p, c_void_p],
    "tern_session_new": [c_void_p] * 4,
    "tern_session_eval": [c_void_p, c_void_p, c_size_t, ctypes.c_uint32, c_void_p],
    "tern_generator_new": [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p],
    "tern_generator_next": [c_void_p] * 5,
}
for name, types in SIGNATURES.items():
    getattr(tern, name).argtypes = types
for name in ("generator_options_defaults", "generator_free", "session_free", "free", "model_close"):
    getattr(tern, "tern_" + name).argtypes, getattr(tern, "tern_" + name).restype = [c_void_p], None

def call(name, *args):
    error = Error()
    if getattr(tern, name)(*args, byref(error)):
        raise RuntimeError(error.message.decode())

def complete(path, prompt, n_tokens):
    """Yields the text piece by piece."""
    model, session, generator, ids = c_void_p(), c_void_p(), c_void_p(), POINTER(c_int32)()
    n_ids, text, n, stop = c_size_t(), c_void_p(), c_size_t(), c_int()
    try:
        call("tern_model_open", path.encode(), None, byref(model))
        call("tern_tokenize", model, prompt.encode(), len(prompt.encode()), 1, byref(ids), byref(n_ids))
        call("tern_session_new", model, None, byref(session))
        call("tern_session_eval", session, ids, n_ids, 1)
        options = GeneratorOptions()
        tern.tern_generator_options_defaults(byref(options))
        options.max_tokens = n_tokens
        call("tern_generator_new", session, byref(options), ids, n_ids, byref(generator))
        while not stop.value:
            call("tern_generator_next", generator, byref(text), byref(n), byref(stop))
            yield ctypes.string_at(text, n.value).decode() if n.value else ""
    finally:
        tern.tern_generator_free(generator), tern.tern_session_free(session)
        tern.tern_free(ids), tern.tern_model_close(model)

if __name__ == "__main__":
    for piece in complete(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 64):
        print(piece, end="", flush=True)
    print()
