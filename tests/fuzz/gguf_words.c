/* Keys and values of models' metadata, and names of their tensors. */
#include <stddef.h>

#include "fuzz.h"

const char fuzz_gguf_words[] =
    "`general.architecture`general.alignment`general.name`general.file_type`general.sampling.sequence"
    "`general.sampling.temp`general.sampling.top_k`split.no`split.count`split.tensors.count`llama`gemma3"
    "`qwen2`qwen3moe`bert`gpt2`t5`rwkv`gemma4`no_vocab`default`llama-bpe`llama.block_count"
    "`llama.embedding_length`llama.feed_forward_length`llama.attention.head_count"
    "`llama.attention.head_count_kv`llama.attention.key_length`llama.attention.value_length"
    "`llama.attention.sliding_window`llama.attention.layer_norm_rms_epsilon`llama.context_length"
    "`llama.vocab_size`llama.expert_count`llama.expert_used_count`llama.rope.dimension_count"
    "`llama.rope.freq_base`llama.rope.scaling.type`llama.rope.scaling.factor`llama.pooling_type"
    "`llama.rope.scaling.original_context_length`linear`yarn`longrope`none`tokenizer.ggml.model"
    "`tokenizer.ggml.pre`tokenizer.ggml.tokens`tokenizer.ggml.scores`tokenizer.ggml.token_type"
    "`tokenizer.ggml.merges`tokenizer.ggml.bos_token_id`tokenizer.ggml.eos_token_id"
    "`tokenizer.ggml.eot_token_id`tokenizer.ggml.unknown_token_id`tokenizer.ggml.seperator_token_id"
    "`tokenizer.ggml.padding_token_id`tokenizer.ggml.add_bos_token`tokenizer.ggml.add_eos_token"
    "`tokenizer.ggml.add_sep_token`tokenizer.ggml.add_space_prefix"
    "`tokenizer.ggml.remove_extra_whitespaces`tokenizer.ggml.precompiled_charsmap"
    "`tokenizer.ggml.normalizer.lowercase`tokenizer.ggml.normalizer.strip_accents`tokenizer.chat_template"
    "`<0x0A>`<0xZZ>`<unk>`<s>`</s>`a b`\xE2\x96\x81`\xC4\xA0`##a`[UNK]`[CLS]`b'\\x00'`token_embd.weight"
    "`output.weight`output_norm.weight`rope_freqs.weight`blk.0.attn_norm.weight`blk.0.attn_q.weight"
    "`blk.0.attn_q.bias`blk.0.attn_k.weight`blk.0.attn_v.weight`blk.0.attn_output.weight"
    "`blk.0.ffn_norm.weight`blk.0.ffn_gate.weight`blk.0.ffn_up.weight`blk.0.ffn_down.weight"
    "`blk.0.ffn_down.scale`blk.0.ffn_gate_inp.weight`blk.1.attn_q.weight`blk.0.attn_q.weight.in_sum2"
    "`blk.0.attn_q.weight.counts`general.type`imatrix`imatrix.datasets`imatrix.chunk_count"
    "`imatrix.chunk_size";
