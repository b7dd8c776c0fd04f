/* The vocabulary in a file's metadata, checked for shape and laid out as the tokenizer wants it. */
#ifndef TN_MODEL_VOCAB_H
#define TN_MODEL_VOCAB_H

#include <stdint.h>

#include "../../formats/format.h"
#include "../base/arena.h"
#include "../base/status.h"
#include "../base/vocab.h"

/* Strings stay in the file; arrays come from the arena. A file without "tokenizer.ggml.model", or with "no_vocab" there, gives an
 * empty vocabulary. */
tn_status tn_vocab_read(const tn_file *file, tn_arena *arena, tn_vocab_source *out, tn_error *err);

#endif
