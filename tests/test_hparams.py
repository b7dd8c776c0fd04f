"""Model files with wrong hyper-parameters, tensors or vocabularies end in one clean error; odd but right ones load.

Each row writes a tiny model with one defect and runs `tern logits` and `tern inspect` on it. A clean error is a refusal
(refusals.py) that names the file and the key or tensor and leaves no output file. A file that must load gives finite
logits, the same as the sound file's where the defect is harmless.
"""

import dataclasses
import pathlib
import sys
import tempfile

try:
    import numpy as np

    TESTS = pathlib.Path(__file__).resolve().parent
    sys.path[:0] = [str(TESTS), str(TESTS / "golden")]
    import forward
    import tiny
    from refusals import Runner, refusal
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

IDS = [1, 280, 287, 66, 222, 107, 165, 41]
NAN, INF = float("nan"), float("inf")
BASE = tiny.Case("base", "llama", n_layers=2)


@dataclasses.dataclass
class Row:
    what: str
    expect: str  # "error", "loads", "same" (loads, with the sound file's logits), "either" (error or loads)
    names: tuple = ()  # the error holds one of these
    meta: dict = dataclasses.field(default_factory=dict)
    tensors: dict = dataclasses.field(default_factory=dict)
    raw: dict = dataclasses.field(default_factory=dict)
    drop: tuple = ()
    options: tuple = ()
    base: str = "llama"
    warning: str = ""  # a warning that must be there
    ids: tuple = tuple(IDS)
    no_text: bool = False  # ids can be computed with, but `tern tokenize` must refuse


def llama(**keys):
    """Metadata of the architecture, key parts joined by "__" for "."."""
    return {"llama." + key.replace("__", "."): value for key, value in keys.items()}


def head_rows():
    heads, kv = ("attention.head_count",), ("attention.head_count_kv",)
    either = heads + ("n_heads",)
    yield Row("head count 0", "error", heads, llama(attention__head_count=("u32", 0)))
    yield Row("head count missing", "error", heads, drop=("llama.attention.head_count",))
    yield Row("head count a string", "error", heads, llama(attention__head_count=("str", "4")))
    yield Row("head count a float", "error", heads, llama(attention__head_count=("f32", 4.0)))
    yield Row("head count true", "error", ("n_heads",), llama(attention__head_count=("bool", True)))
    yield Row("head count 2^64 - 1", "error", heads, llama(attention__head_count=("u64", 2**64 - 1)))
    yield Row("head count -4", "error", heads, llama(attention__head_count=("i32", -4)))
    yield Row("head count 2^32 + 4 does not wrap", "error", heads, llama(attention__head_count=("u64", 2**32 + 4)))
    yield Row("KV heads 0", "error", kv, llama(attention__head_count_kv=("u32", 0)))
    yield Row("3 heads, 2 KV heads", "error", either, llama(attention__head_count=("u32", 3)))
    yield Row("4 heads, 3 KV heads", "error", either, llama(attention__head_count_kv=("u32", 3)))
    yield Row("more KV heads than heads", "error", either, llama(attention__head_count_kv=("u32", 8)))
    for what, key in (
        ("head counts", "attention__head_count"),
        ("KV head counts", "attention__head_count_kv"),
        ("widths", "feed_forward_length"),
    ):
        value, name = (
            {"attention__head_count": 4, "attention__head_count_kv": 2, "feed_forward_length": 96}[key],
            (key.replace("__", "."),),
        )
        yield Row(f"{what} a layer: one for each", "same", meta=llama(**{key: ("u32[]", [value] * 2)}))
        yield Row(f"{what} a layer: one too few", "error", name, llama(**{key: ("u32[]", [value])}))
        yield Row(f"{what} a layer: one too many", "error", name, llama(**{key: ("u32[]", [value] * 3)}))
        yield Row(f"{what} a layer: none", "error", name, llama(**{key: ("u32[]", [])}))
        yield Row(f"{what} a layer: the second 0", "error", name, llama(**{key: ("u32[]", [value, 0])}))
        yield Row(f"{what} a layer: strings", "error", name, llama(**{key: ("str[]", ["4", "4"])}))
    yield Row(
        "an array where one value is meant", "error", ("context_length",), llama(context_length=("u32[]", [128, 128]))
    )
    yield Row("head size 0", "error", ("key_length",), llama(attention__key_length=("u32", 0)))
    yield Row("head size 2^31", "error", ("key_length",), llama(attention__key_length=("u32", 2**31)))
    yield Row(
        "head size 12",
        "error",
        ("key_length", "head_dim"),
        llama(attention__key_length=("u32", 12), rope__dimension_count=("u32", 12)),
    )
    yield Row(
        "value size unlike key size", "error", ("value_length", "value_dim"), llama(attention__value_length=("u32", 32))
    )


def embedding_rows():
    pooling = ("pooling_type",)
    yield Row("pooling type 1", "same", meta=llama(pooling_type=("u32", 1)))
    yield Row("pooling type 5", "error", pooling, llama(pooling_type=("u32", 5)))
    yield Row("pooling type -1", "error", pooling, llama(pooling_type=("i32", -1)))
    yield Row("pooling types in an array", "error", pooling, llama(pooling_type=("u32[]", [1])))
    yield Row("pooling type a string", "error", pooling, llama(pooling_type=("str", "mean")))


def layer_rows():
    blocks = ("block_count",)
    yield Row("block count 0", "error", blocks, llama(block_count=("u32", 0)))
    yield Row("block count 513", "error", blocks, llama(block_count=("u32", 513)))
    yield Row("block count 2^31", "error", blocks, llama(block_count=("u32", 2**31)))
    yield Row("block count 2^63", "error", blocks, llama(block_count=("u64", 2**63)))
    yield Row("block count -1", "error", blocks, llama(block_count=("i32", -1)))
    yield Row("block count missing", "error", blocks, drop=("llama.block_count",))
    yield Row("block count 512 with two layers", "error", ("blk.2.",), llama(block_count=("u32", 512)))
    for name in (
        "attn_norm",
        "attn_q",
        "attn_k",
        "attn_v",
        "attn_output",
        "ffn_norm",
        "ffn_gate",
        "ffn_up",
        "ffn_down",
    ):
        yield Row(f"{name} of a layer missing", "error", (f"blk.1.{name}.weight",), drop=(f"blk.1.{name}.weight",))
    yield Row("token embeddings missing", "error", ("token_embd.weight",), drop=("token_embd.weight",))
    yield Row("last norm missing", "error", ("output_norm.weight",), drop=("output_norm.weight",))
    yield Row("one layer more than the count", "loads", meta=llama(block_count=("u32", 1)), warning="blk.1.")
    yield Row(
        "a tensor that nothing uses",
        "same",
        tensors={"blk.0.surprise.weight": np.ones(4, np.float32)},
        warning="blk.0.surprise.weight",
    )


def shape_rows():
    def of(*shape):
        return np.ones(shape, np.float32)

    yield Row("embedding length unlike the tensors", "error", (".weight",), llama(embedding_length=("u32", 96)))
    yield Row("embedding length 0", "error", ("embedding_length",), llama(embedding_length=("u32", 0)))
    yield Row("embedding length 2^31", "error", ("embedding_length",), llama(embedding_length=("u32", 2**31)))
    yield Row("width unlike the tensors", "error", ("ffn_",), llama(feed_forward_length=("u32", 128)))
    yield Row("width 0", "error", ("feed_forward_length",), llama(feed_forward_length=("u32", 0)))
    yield Row(
        "fewer heads than the tensors have",
        "error",
        ("attn_q.weight",),
        llama(attention__head_count=("u32", 2), attention__key_length=("u32", 16)),
    )
    more = tiny.vocabulary()["tokenizer.ggml.tokens"][1] + ["more"]
    extended = {
        "tokenizer.ggml.tokens": ("str[]", more),
        "tokenizer.ggml.scores": ("f32[]", [0.0] * 301),
        "tokenizer.ggml.token_type": ("i32[]", [1] * 301),
    }
    yield Row("one token more than embeddings", "error", ("token_embd.weight", "tokenizer.ggml.tokens"), extended)
    yield Row("one output row too few", "error", ("output.weight",), tensors={"output.weight": of(299, 64)})
    yield Row("a matrix transposed", "error", ("blk.1.ffn_up.weight",), tensors={"blk.1.ffn_up.weight": of(64, 96)})
    yield Row(
        "a matrix with one dimension", "error", ("token_embd.weight",), tensors={"token_embd.weight": of(300 * 64)}
    )
    yield Row(
        "a matrix with a third dimension",
        "error",
        ("blk.0.attn_v.weight",),
        tensors={},
        raw={"blk.0.attn_v.weight": (of(2, 32, 64), "F32")},
    )
    yield Row("a norm too short", "error", ("blk.0.attn_norm.weight",), tensors={"blk.0.attn_norm.weight": of(63)})
    yield Row(
        "a matrix of integers",
        "error",
        ("blk.0.ffn_up.weight",),
        raw={"blk.0.ffn_up.weight": (np.ones((96, 64), np.int32), "I32")},
    )
    yield Row(
        "a matrix of doubles",
        "error",
        ("blk.0.ffn_up.weight",),
        raw={"blk.0.ffn_up.weight": (np.ones((96, 64)), "F64")},
    )
    yield Row(
        "a norm of integers",
        "error",
        ("blk.0.attn_norm.weight",),
        raw={"blk.0.attn_norm.weight": (np.ones(64, np.int32), "I32")},
    )
    yield Row(
        "a norm in Q8_0",
        "either",
        ("blk.0.attn_norm.weight",),
        raw={"blk.0.attn_norm.weight": (np.ones((1, 68), np.uint8).reshape(68), "Q8_0")},
    )
    yield Row("a bias of a wrong length", "error", ("blk.0.attn_q.bias",), tensors={"blk.0.attn_q.bias": of(63)})
    nan = of(96, 64)
    nan[7, 3] = NAN
    yield Row("a weight that is not a number", "error", ("finite",), tensors={"blk.0.ffn_up.weight": nan})
    weights = tiny.Model(BASE).tensors
    for name in ("blk.0.attn_q", "blk.1.attn_output", "blk.1.ffn_up"):
        factor = {f"{name}.weight": 2 * weights[f"{name}.weight"], f"{name}.scale": np.array([0.5], np.float32)}
        yield Row(f"a factor of {name}, whose weights are twice as large", "same", tensors=factor)
    yield Row("a factor of activations", "same", tensors={"blk.0.ffn_up.input_scale": np.array([0.5], np.float32)})
    yield Row("a factor of the embedding", "error", ("token_embd", "factor"), tensors={"token_embd.scale": np.array([0.5], np.float32)})
    yield Row("two factors of a matrix", "error", ("ffn_up.scale",), tensors={"blk.0.ffn_up.scale": of(2)})
    half = np.array([0.5], np.float16)
    yield Row("a factor in F16", "error", ("ffn_up.scale",), raw={"blk.0.ffn_up.scale": (half, "F16")})


def rope_rows():
    base, factor = ("rope.freq_base",), ("rope.scaling.factor",)
    for what, value in (("0", 0.0), ("-1", -1.0), ("not a number", NAN), ("infinite", INF)):
        yield Row(f"rope base {what}", "error", base, llama(rope__freq_base=("f32", value)))
        yield Row(
            f"rope factor {what}",
            "error",
            factor,
            llama(rope__scaling__type=("str", "linear"), rope__scaling__factor=("f32", value)),
        )
    yield Row("rope base a string", "error", base, llama(rope__freq_base=("str", "10000")))
    yield Row("rope base missing: the published default", "same", drop=("llama.rope.freq_base",))
    yield Row("rope base a double", "same", meta=llama(rope__freq_base=("f64", 10000.0)))
    fast = ("turn by more than",)
    yield Row("rope base 1e-30", "error", fast, llama(rope__freq_base=("f32", 1e-30)))
    yield Row("rope base 1e-3: a thousand radians a position", "loads", meta=llama(rope__freq_base=("f32", 1e-3)))
    tiny_factor = llama(rope__scaling__type=("str", "linear"), rope__scaling__factor=("f32", 1e-30))
    yield Row("rope factor 1e-30", "error", fast, tiny_factor)
    few = {"rope_freqs.weight": np.array([1, 1, 1e-30, 1, 1, 1, 1, 1], np.float32)}
    yield Row("rope factor of a pair 1e-30", "error", fast, tensors=few)
    near = llama(rope__scaling__type=("str", "yarn"), rope__scaling__factor=("f32", 2.0), rope__freq_base=("f64", 1 + 2**-52))
    yield Row("yarn over a base just above 1", "loads", meta=near)
    yield Row("unknown rope scaling", "error", ("rope.scaling.type",), llama(rope__scaling__type=("str", "warp")))
    yield Row(
        "rope scaling that this version lacks",
        "error",
        ("rope.scaling.type",),
        llama(rope__scaling__type=("str", "longrope")),
    )
    yield Row("rope scaling a number", "error", ("rope.scaling.type",), llama(rope__scaling__type=("u32", 1)))
    yield Row("rope scaling none", "same", meta=llama(rope__scaling__type=("str", "none")))
    yield Row(
        "rope scaling linear by 1",
        "same",
        meta=llama(rope__scaling__type=("str", "linear"), rope__scaling__factor=("f32", 1.0)),
    )
    dim = ("rope.dimension_count", "rope_dim")
    for value in (0, 1, 15, 18, 2**31):
        yield Row(f"rope dimension {value} of 16", "error", dim, llama(rope__dimension_count=("u32", value)))
    yield Row("rope dimension 8 of 16", "loads", meta=llama(rope__dimension_count=("u32", 8)))
    factors = "rope_freqs.weight"
    yield Row("rope factors too few", "error", (factors,), tensors={factors: np.ones(7, np.float32)})
    yield Row("rope factors of 1", "same", tensors={factors: np.ones(8, np.float32)})
    for what, value in (("0", 0), ("negative", -1), ("not a number", NAN)):
        yield Row(
            f"a rope factor {what}",
            "error",
            (factors,),
            tensors={factors: np.array([1, 1, value, 1, 1, 1, 1, 1], np.float32)},
        )


def number_rows():
    eps = ("layer_norm_rms_epsilon",)
    key = "llama.attention.layer_norm_rms_epsilon"
    yield Row("norm epsilon missing", "error", eps, drop=(key,))
    for what, value in (("0", 0.0), ("not a number", NAN), ("infinite", INF), ("negative", -1e-5)):
        yield Row(f"norm epsilon {what}", "error", eps, {key: ("f32", value)})
    yield Row("norm epsilon a string", "error", eps, {key: ("str", "1e-5")})
    yield Row("norm epsilon a double", "same", meta={key: ("f64", float(np.float32(1e-5)))})
    context = ("context_length",)
    yield Row("context length 0", "error", context, llama(context_length=("u32", 0)))
    yield Row("context length missing", "error", context, drop=("llama.context_length",))
    yield Row("context length 2^32 - 1", "either", context, llama(context_length=("u32", 2**32 - 1)))
    yield Row("context length 2^30", "same", meta=llama(context_length=("u32", 2**30)))
    yield Row("sliding window 0: none", "same", meta=llama(attention__sliding_window=("u32", 0)))
    yield Row("sliding window longer than the text", "same", meta=llama(attention__sliding_window=("u32", 2**30)))
    yield Row("sliding window 1", "loads", meta=llama(attention__sliding_window=("u32", 1)))
    yield Row(
        "sliding window 2^32 - 1", "either", ("sliding_window",), llama(attention__sliding_window=("u32", 2**32 - 1))
    )
    integers = {
        "block_count": 2,
        "embedding_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "feed_forward_length": 96,
        "context_length": 127,
        "rope.dimension_count": 16,
    }
    for kind in ("u8", "i8", "u16", "i16", "i32", "u64", "i64"):
        yield Row(
            f"integers stored as {kind}",
            "same",
            meta={"llama." + name: (kind, value) for name, value in integers.items()},
        )


def architecture_rows():
    arch = "general.architecture"
    yield Row(
        "unknown architecture of known steps", "error", ("missing: a description alone",), {arch: ("str", "gpt9000")}
    )
    yield Row(
        "unknown architecture with experts, which are known, a recurrent step and a step of its own",
        "error",
        ("missing: a state-space step (tensor 'blk.0.ssm_in.weight')", "no description has (tensor 'blk.0.ffn_own.weight')"),
        {arch: ("str", "gpt9000")},
        tensors={f"blk.0.{name}.weight": np.zeros((32, 64), np.float32) for name in ("ffn_gate_exps", "ssm_in", "ffn_own")},
    )
    yield Row("unknown architecture: the error names it", "error", ("'gpt9000'",), {arch: ("str", "gpt9000")})
    yield Row("unknown architecture: the error names others", "error", ("known: bert bloom ",), {arch: ("str", "gpt9000")})
    yield Row("no architecture", "error", (arch,), drop=(arch,))
    yield Row("architecture a number", "error", (arch,), {arch: ("u32", 7)})
    yield Row("architecture empty", "error", (arch,), {arch: ("str", "")})
    yield Row(
        "architecture with terminal escapes", "error", (arch, "unknown architecture"), {arch: ("str", "\x1b[2Jllama")}
    )
    yield Row("architecture with a NUL behind it", "error", (arch, "unknown architecture"), {arch: ("str", "llama\0x")})
    yield Row(
        "gemma3: pattern 0",
        "error",
        ("sliding_window_pattern",),
        {"gemma3.attention.sliding_window_pattern": ("u32", 0)},
        base="gemma3",
    )
    yield Row(
        "gemma3: local rope base 0",
        "error",
        ("freq_base_swa",),
        {"gemma3.rope.freq_base_swa": ("f32", 0.0)},
        base="gemma3",
    )
    yield Row(
        "gemma3: pattern as published, written out",
        "same",
        meta={"gemma3.attention.sliding_window_pattern": ("u32", 6)},
        base="gemma3",
    )
    yield Row(
        "gemma3: a norm missing",
        "error",
        ("blk.3.post_ffw_norm.weight",),
        drop=("blk.3.post_ffw_norm.weight",),
        base="gemma3",
    )
    yield Row(
        "qwen3: a head norm missing",
        "error",
        ("blk.2.attn_q_norm.weight",),
        drop=("blk.2.attn_q_norm.weight",),
        base="qwen3",
    )
    yield Row(
        "qwen3: head size missing",
        "error",
        ("attn_q",),
        drop=("qwen3.attention.key_length", "qwen3.attention.value_length"),
        base="qwen3",
    )
    yield Row(
        "qwen2: keys of another architecture",
        "error",
        ("qwen2.",),
        drop=("qwen2.block_count",),
        meta=llama(block_count=("u32", 3)),
        base="qwen2",
    )


def vocabulary_rows():
    t = "tokenizer.ggml."
    sound = {key.removeprefix(t): value for key, (_, value) in tiny.vocabulary().items()}
    tokens, scores, types = sound["tokens"], sound["scores"], sound["token_type"]

    def changed(**at):
        return [at.get(f"t{i}", token) for i, token in enumerate(tokens)]

    yield Row("tokens missing", "error", (t + "tokens",), drop=(t + "tokens",))
    yield Row("tokens empty", "error", (t + "tokens",), {t + "tokens": ("str[]", [])})
    yield Row("tokens a string", "error", (t + "tokens",), {t + "tokens": ("str", "abc")})
    yield Row("tokens numbers", "error", (t + "tokens",), {t + "tokens": ("u32[]", [1] * 300)})
    yield Row("scores shorter", "error", (t + "scores",), {t + "scores": ("f32[]", scores[:-1])})
    yield Row("scores empty", "error", (t + "scores",), {t + "scores": ("f32[]", [])})
    yield Row("scores as bytes", "error", (t + "scores",), {t + "scores": ("u8[]", [0] * 300)})
    yield Row("scores one float", "error", (t + "scores",), {t + "scores": ("f32", 0.0)})
    yield Row("a score not a number", "either", (t + "scores",), {t + "scores": ("f32[]", scores[:-1] + [NAN])})
    yield Row("types shorter", "error", (t + "token_type",), {t + "token_type": ("i32[]", types[:-1])})
    yield Row("types as too few bytes", "error", (t + "token_type",), {t + "token_type": ("u8[]", types[:75])})
    yield Row("types as bytes", "either", (t + "token_type",), {t + "token_type": ("u8[]", types)})
    yield Row("types floats", "error", (t + "token_type",), {t + "token_type": ("f32[]", [1.0] * 300)})
    yield Row(
        "types out of range",
        "either",
        (t + "token_type",),
        {t + "token_type": ("i32[]", [2**31 - 1] * 150 + [-(2**31)] * 150)},
    )
    yield Row("duplicate tokens", "same", meta={t + "tokens": ("str[]", changed(t270="he", t271="he"))})
    yield Row("an empty token", "same", meta={t + "tokens": ("str[]", changed(t290=""))})
    yield Row("a token with a NUL", "same", meta={t + "tokens": ("str[]", changed(t290="a\0b"))})
    yield Row("a token that is not UTF-8", "same", meta={t + "tokens": ("str[]", changed(t290=b"\xff\xfe"))})
    yield Row(
        "a token of 100 MiB", "error", (t + "tokens",), {t + "tokens": ("str[]", changed(t290="x" * (100 << 20)))}
    )
    yield Row("byte token <0x-1>", "either", (t + "tokens", "<0x-1>"), {t + "tokens": ("str[]", changed(t10="<0x-1>"))})
    yield Row("byte token <0xZZ>", "either", (t + "tokens", "<0xZZ>"), {t + "tokens": ("str[]", changed(t10="<0xZZ>"))})
    yield Row("a byte token missing", "either", (t + "tokens", "<0x"), {t + "tokens": ("str[]", changed(t10="y"))})
    for key in ("bos", "eos", "unknown", "padding", "eot"):
        name = f"{t}{key}_token_id"
        for kind, value in (("u32", 300), ("u32", 2**32 - 1), ("i32", -1), ("u64", 2**63), ("str", "1")):
            yield Row(f"{key} id {value!r} as {kind}", "either", (name,), {name: (kind, value)})
    yield Row(
        "no special ids",
        "either",
        (t,),
        drop=(t + "bos_token_id", t + "eos_token_id", t + "unknown_token_id", t + "add_bos_token"),
    )
    yield Row("add BOS without a BOS", "either", (t + "add_bos_token", t + "bos_token_id"), drop=(t + "bos_token_id",))
    yield Row("tokenizer missing: ids alone", "same", (t + "model",), drop=(t + "model",), no_text=True)
    for flag in (
        "add_bos_token",
        "add_eos_token",
        "add_sep_token",
        "add_space_prefix",
        "normalizer.lowercase",
        "normalizer.strip_accents",
        "remove_extra_whitespaces",
    ):
        yield Row(f"{flag} a number", "error", (t + flag,), {t + flag: ("u32", 1)})
    yield Row("separator id out of range", "error", (t + "seperator_token_id",), {t + "seperator_token_id": ("u32", 300)})
    chars = t + "precompiled_charsmap"
    for kind, value in (("str", "abc"), ("u32[]", [1, 2]), ("u8", 1)):
        yield Row(f"a map of characters of {kind}", "error", (chars,), {chars: (kind, value)})
    yield Row("merges a string", "error", (t + "merges",), {t + "merges": ("str", "a b")})
    without = (t + "model", t + "tokens")
    yield Row("no vocabulary", "error", ("no vocabulary, and key 'llama.vocab_size' is missing",), drop=without)
    for kind, value in (("u32", 0), ("u64", 2**31), ("str", "300"), ("i32", -1)):
        size = llama(vocab_size=(kind, value))
        yield Row(f"no vocabulary, its size {value!r}", "error", ("vocab_size",), size, drop=without)
    yield Row("no vocabulary, its size alone", "same", meta=llama(vocab_size=("u32", 300)), drop=without, no_text=True)
    yield Row("tokenizer 'no_vocab': ids alone", "same", meta={t + "model": ("str", "no_vocab")}, no_text=True)
    yield Row("tokenizer unknown", "error", (t + "model",), {t + "model": ("str", "abacus")})
    yield Row("tokenizer a number", "error", (t + "model",), {t + "model": ("u32", 3)})
    short = {
        t + "tokens": ("str[]", ["a", "b"]),
        t + "scores": ("f32[]", [0.0, 0.0]),
        t + "token_type": ("i32[]", [1, 1]),
    }
    special = (t + "bos_token_id", t + "eos_token_id", t + "unknown_token_id", t + "add_bos_token")
    yield Row(
        "two tokens, no special ids",
        "either",
        (t, "token_embd"),
        short,
        tensors={"token_embd.weight": np.ones((2, 64), np.float32)},
        drop=special,
        ids=(0, 1),
    )


def byte_characters():
    """GPT-2's printable stand-ins for the 256 bytes, in its order."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in kept] + [chr(256 + i) for i in range(256 - len(kept))]


def bpe_rows():
    t = "tokenizer.ggml."
    pairs = [(a, b) for a in "etaoin" for b in "rshldcu"]
    tokens = ["<|endoftext|>"] + byte_characters() + [a + b for a, b in pairs]
    merges = [f"{a} {b}" for a, b in pairs]
    tokens += ["<|im_end|>"] * (tiny.N_VOCAB - len(tokens))
    sound = {
        t + "model": ("str", "gpt2"),
        t + "pre": ("str", "gpt-2"),
        t + "tokens": ("str[]", tokens),
        t + "merges": ("str[]", merges),
        t + "token_type": ("i32[]", [3] + [1] * (len(tokens) - 2) + [3]),
        t + "bos_token_id": ("u32", 0),
        t + "eos_token_id": ("u32", 0),
    }
    drop = (t + "scores", t + "unknown_token_id", t + "add_bos_token")

    def row(what, expect, name, change=None, without=(), options=()):
        return Row(what, expect, (t + name,), sound | (change or {}), drop=drop + without, options=options)

    yield row("bpe: sound", "same", "pre")
    yield row("bpe: pre-tokenizer absent", "error", "pre", without=(t + "pre",))
    yield row(
        "bpe: pre-tokenizer absent, given by --pre", "same", "pre", without=(t + "pre",), options=("--pre", "gpt-2")
    )
    yield row("bpe: pre-tokenizer unknown", "error", "pre", {t + "pre": ("str", "quux")})
    yield row(
        "bpe: pre-tokenizer unknown, given by --pre",
        "same",
        "pre",
        {t + "pre": ("str", "quux")},
        options=("--pre", "gpt-2"),
    )
    yield row("bpe: pre-tokenizer a number", "error", "pre", {t + "pre": ("u32", 1)})
    yield row("bpe: merges missing", "error", "merges", without=(t + "merges",))
    yield row("bpe: merges numbers", "error", "merges", {t + "merges": ("u32[]", [1, 2])})
    for what, merge in (
        ("without a space", "er"),
        ("empty", ""),
        ("of three parts", "e r s"),
        ("starting with a space", " er"),
        ("of parts outside the vocabulary", "zq qz"),
        ("whose result is outside", "z q"),
        ("twice", "e r"),
    ):
        yield row(f"bpe: a merge {what}", "either", "merges", {t + "merges": ("str[]", merges + [merge])})
    yield row("bpe: a byte missing", "either", "tokens", {t + "tokens": ("str[]", tokens[:65] + ["yy"] + tokens[66:])})


class Bench:
    """Runs the program under test, and keeps the failures."""

    def __init__(self, folder):
        self.folder = folder
        self.failures = []
        self.runner = Runner()

    def run(self, path, *arguments, text=b""):
        """The finished run, and the limit that it went over or None."""
        done = self.runner.run(*arguments, text=text)
        return done, self.runner.over(done, path.stat().st_size)

    def clean_error(self, run, path=None, names=()):
        """What is wrong with a failed run, or None. Without a path the error is about something else than the file."""
        why = refusal(run, [path.name] if path else [])
        if not why and names and not any(name in run.stderr.replace(str(path), "") for name in names):
            return f"the error names none of {names}"
        return why

    def complain(self, row, command, run, why):
        if why:
            self.failures.append(row.what)
            print(f"  FAILED: {row.what}: {command}: {why}\n          exit {run.code}: {run.stderr.strip()[:600]}")


def check_logits(bench, row, path, sound):
    """Returns whether the file loaded as it should or may."""
    out = bench.folder / "logits.f32"
    out.unlink(missing_ok=True)
    run, why = bench.run(path, "logits", "-m", path, "--ids", " ".join(map(str, row.ids)), "--all", "-o", out, *row.options)
    loads = row.expect in ("loads", "same") or (row.expect == "either" and run.code == 0)
    if not why and not loads:
        why = bench.clean_error(run, path, row.names) or ("an output file was left" if out.exists() else None)
    elif not why and run.code != 0:
        why = "expected to load"
    elif not why:
        rows = np.fromfile(out, "<f4")
        if not np.isfinite(rows).all() or rows.size == 0:
            why = "logits are not finite"
        elif row.expect == "same" and rows.tobytes() != sound:
            why = "other logits than the sound file's"
        elif row.warning and not any(
            row.warning in line for line in run.stderr.splitlines() if line.startswith("tern: warning: ")
        ):
            why = f"no warning that names {row.warning}"
    bench.complain(row, "logits", run, why)
    return loads


def check_row(bench, row, models, sound):
    path = models[row.base].write(
        bench.folder / "defect.gguf", meta=row.meta, tensors=row.tensors, drop=row.drop, raw=row.raw
    )
    loads = check_logits(bench, row, path, sound[row.base])
    # Metadata can be shown of a file that cannot be computed with, so a defect may pass here.
    run, why = bench.run(path, "inspect", path)
    why = why or (None if run.code == 0 else bench.clean_error(run, path, row.names))
    bench.complain(row, "inspect", run, why or ("expected to load" if loads and run.code else None))
    if loads:
        run, over = bench.run(path, "tokenize", "-m", path, *row.options, text=b"he in the\xff\n")
        refused = row.no_text or (row.expect == "either" and run.code != 0)
        why = bench.clean_error(run) if refused else (f"exit {run.code}" if run.code else None)
        bench.complain(row, "tokenize", run, over or why)


def check_numpy(bench, what, case, tensors, meta):
    """A model that is odd but right, against numpy: that it loads alone would say little."""
    model = tiny.Model(case)
    tensors = model.tensors | tensors
    path = model.write(bench.folder / "odd.gguf", tensors=tensors, meta=meta)
    try:
        found = tiny.logits(path, IDS, "--all", "--kv", "f32")
        expected = forward.logits(case, tensors, IDS)
        good = found.shape == expected.shape and np.abs(found - expected).max() <= 2e-5 * np.abs(expected).max()
        why = None if good else "logits differ from numpy's"
    except RuntimeError as error:
        why = str(error)
    if why:
        bench.failures.append(what)
        print(f"  FAILED: {what}: {why}")


def check_odd_models(bench, case):
    layer = "blk.1.ffn_"
    whole = tiny.Model(case).tensors
    narrow = {
        layer + "gate.weight": whole[layer + "gate.weight"][:32],
        layer + "up.weight": whole[layer + "up.weight"][:32],
        layer + "down.weight": whole[layer + "down.weight"][:, :32].copy(),
    }
    check_numpy(bench, "layers of different widths", case, narrow, llama(feed_forward_length=("u32[]", [96, 32])))
    partial = dataclasses.replace(case, rope_dim=8)
    check_numpy(bench, "a rotary part of 8 of 16", partial, {}, {})
    factors = np.linspace(1, 4, case.head_dim // 2, dtype=np.float32)
    both = llama(rope__scaling__type=("str", "linear"), rope__scaling__factor=("f32", 2.0))
    check_numpy(
        bench,
        "rope factors and linear scaling",
        dataclasses.replace(case, linear=2.0),
        {"rope_freqs.weight": factors},
        both,
    )
    bias = {
        f"blk.{i}.attn_{part}.bias": tiny.random_normal(f"bias {i} {part}", (n,))
        for i in range(case.n_layers)
        for part, n in (("q", 64), ("k", 32), ("v", 32), ("output", 64))
    }
    check_numpy(bench, "biases of attention", case, bias, {})


def main():
    chosen = sys.argv[1:]
    sections = [head_rows, layer_rows, shape_rows, rope_rows, number_rows, embedding_rows]
    sections += [architecture_rows, vocabulary_rows, bpe_rows]
    models = {name: tiny.Model(tiny.CASES[name]) for name in ("qwen2", "qwen3", "gemma3")}
    models["llama"] = tiny.Model(BASE)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(pathlib.Path(name))
        sound = {
            base: tiny.logits(model.write(bench.folder / "sound.gguf"), IDS, "--all").tobytes()
            for base, model in models.items()
        }
        n_rows = 0
        for section in sections:
            for row in section():
                if chosen and not any(word in row.what for word in chosen):
                    continue
                check_row(bench, row, models, sound)
                n_rows += 1
        check_odd_models(bench, models["llama"].case)
        print(f"{n_rows + 4} files, {len(bench.failures)} failures")
        return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
