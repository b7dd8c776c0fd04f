"""Tiny random-weight models for the tests, made with numpy and the gguf package alone.

A case (CASES) holds the hyper-parameters of one small model. Weights are made in Hugging Face's layout and names, each
tensor from its own seed, by integer arithmetic on PCG64's raw output: they never depend on the order of the tensors, the
numpy version or the machine. Model.write() stores them as a converter would. The GGUF names come from the gguf package
and not from models/*.yaml, so that a wrong name there is found.

    model = tiny.Model(tiny.CASES["llama"])
    model.write("m.gguf", dtype="Q8_0")                       # every matrix of that type
    model.write("m.gguf", meta={"llama.block_count": ("u32", 0)}, drop=["blk.1.ffn_up.weight"])
"""

import dataclasses
import hashlib
import math
import os
import subprocess
import tempfile

import gguf
import numpy as np

N_VOCAB = 300

# Weight types that the engine multiplies by; those in RANDOM_BLOCKS are not written by the gguf package, so their blocks
# are random bytes with the given fields (byte offsets of scale and min, f16 but for NVFP4) set to give weights of normal
# size.
DTYPES = [
    "F32",
    "F16",
    "BF16",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "IQ4_NL",
    "MXFP4",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "IQ4_XS",
    "IQ2_XXS",
    "IQ2_XS",
    "IQ2_S",
    "IQ3_XXS",
    "IQ3_S",
    "IQ1_S",
    "IQ1_M",
    "TQ1_0",
    "TQ2_0",
    "NVFP4",
]
RANDOM_BLOCKS = {
    "Q2_K": (80, 82),
    "Q3_K": (108, None),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208, None),
    "IQ4_NL": (0, None),
    "IQ4_XS": (0, None),
    "IQ2_XXS": (0, None),
    "IQ2_XS": (0, None),
    "IQ2_S": (0, None),
    "IQ3_XXS": (0, None),
    "IQ3_S": (0, None),
    "IQ1_S": (0, None),
    "IQ1_M": (48, None),
    "NVFP4": (0, None),
}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    arch: str  # as in general.architecture
    n_layers: int = 3
    n_embd: int = 64
    n_ff: int = 96
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 16
    n_ctx: int = 128
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    local_theta: float = 10000.0
    window: int = 0  # 0: none
    pattern: int = 0  # every pattern-th layer is global; 0: all layers alike
    tied: bool = True
    linear: float = 0.0  # linear rope scaling: positions divided by this; 0: none
    llama3: tuple = ()  # Llama 3 rope scaling: factor, low and high frequency factor, original context
    rope_dim: int = 0  # rotated part of a head; 0: all of it
    causal: bool = True
    n_ids: int = 24


CASES = {
    case.name: case
    for case in [
        Case("llama", "llama", n_kv_heads=1),
        Case("llama-untied", "llama", n_embd=96, head_dim=24, n_ff=160, n_kv_heads=4, tied=False),
        Case("mistral-window", "llama", window=16, tied=False, n_ids=56),
        Case("llama3-scaling", "llama", llama3=(8.0, 1.0, 4.0, 32), n_ids=60),
        Case("llama-linear", "llama", linear=4.0, n_ids=48),
        Case("qwen2", "qwen2", rope_theta=1000000.0, norm_eps=1e-4),
        Case("qwen3", "qwen3", head_dim=32, rope_theta=1000000.0, norm_eps=1e-3),
        Case(
            "gemma3",
            "gemma3",
            n_layers=7,
            n_embd=96,
            n_kv_heads=1,
            head_dim=32,
            window=16,
            pattern=6,
            rope_theta=1000000.0,
            norm_eps=1e-2,
            n_ids=60,
        ),
        Case(
            "gemma3-linear",
            "gemma3",
            n_layers=6,
            n_embd=96,
            head_dim=32,
            window=8,
            pattern=3,
            linear=8.0,
            rope_theta=1000000.0,
            norm_eps=1e-2,
        ),
    ]
}

# Longer than the chunks in which attention walks the cache, and than what a windowed layer keeps of it.
LONG_CASES = [
    Case("long", "llama", n_layers=2, n_embd=80, n_heads=2, n_kv_heads=1, head_dim=40, n_ctx=512, n_ids=300),
    Case("long-window", "llama", n_layers=2, window=70, n_ctx=2048, n_ids=900),
    Case(
        "long-gemma3",
        "gemma3",
        n_layers=3,
        n_embd=96,
        head_dim=32,
        window=24,
        pattern=3,
        rope_theta=1000000.0,
        norm_eps=1e-3,
        n_ctx=2048,
        n_ids=900,
    ),
]

# Widths that are multiples of 256, so that every weight type fits, and rows that leave tails of 4 and 16.
WIDE = Case(
    "wide", "llama", n_layers=2, n_embd=256, n_ff=768, n_heads=4, n_kv_heads=1, head_dim=64, tied=False, n_ids=40
)


def random_ints(label, n):
    """n raw 64-bit integers that depend on the label alone."""
    seed = int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "little")
    return np.random.PCG64(seed).random_raw(n)


def random_normal(label, shape):
    """About standard normal: the sum of four 16-bit uniforms (Irwin-Hall), exact in integers but for one division."""
    raw = random_ints(label, int(np.prod(shape)))
    total = sum(((raw >> np.uint64(16 * i)) & np.uint64(0xFFFF)).astype(np.int64) for i in range(4))
    deviation = math.sqrt(4 * (2.0**32 - 1) / 12)
    return ((total - 2 * 65535) / deviation).reshape(shape).astype(np.float32)


def token_ids(case):
    """The ids of the case's text: any token but <unk>, with BOS first."""
    ids = 1 + random_ints(case.name + "/ids", case.n_ids) % np.uint64(N_VOCAB - 1)
    return [1] + [int(i) for i in ids[1:]]


def llama3_factors(case):
    """What each rotary frequency is divided by: Llama 3.1's published rule. Wavelengths below orig/high stay, those
    above orig/low are divided by the factor, those between are interpolated in 1/wavelength."""
    factor, low, high, original = case.llama3
    wavelength = 2 * math.pi * case.rope_theta ** (np.arange(0, case.head_dim, 2) / case.head_dim)
    smooth = np.clip((original / wavelength - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def hf_weights(case):
    """The checkpoint: {Hugging Face name: float32 array in its layout}, in file order."""
    gemma = case.arch == "gemma3"
    q_dim, kv_dim = case.n_heads * case.head_dim, case.n_kv_heads * case.head_dim
    out = {}

    def make(name, shape, scale, mean=0.0):
        out[name] = np.float32(mean) + np.float32(scale) * random_normal(case.name + "/" + name, shape)

    def matrix(name, rows, columns, gain=1.0):
        make(name, (rows, columns), gain / math.sqrt(columns))

    def norm(name, n, mean=1.0):
        make(name, (n,), 0.2, mean - 1 if gemma else mean)

    # Gemma multiplies these by sqrt(n_embd).
    make("model.embed_tokens.weight", (N_VOCAB, case.n_embd), 0.1 if gemma else 0.3)
    for i in range(case.n_layers):
        layer = f"model.layers.{i}."
        norm(layer + "input_layernorm.weight", case.n_embd)
        # Large enough that attention prefers some positions clearly.
        matrix(layer + "self_attn.q_proj.weight", q_dim, case.n_embd, 1.6)
        matrix(layer + "self_attn.k_proj.weight", kv_dim, case.n_embd, 1.6)
        matrix(layer + "self_attn.v_proj.weight", kv_dim, case.n_embd)
        if case.arch == "qwen2":
            for part, n in (("q", q_dim), ("k", kv_dim), ("v", kv_dim)):
                make(layer + f"self_attn.{part}_proj.bias", (n,), 0.5)
        if case.arch in ("qwen3", "gemma3"):
            norm(layer + "self_attn.q_norm.weight", case.head_dim, 1.4)
            norm(layer + "self_attn.k_norm.weight", case.head_dim, 1.4)
        matrix(layer + "self_attn.o_proj.weight", case.n_embd, q_dim)
        norm(layer + "post_attention_layernorm.weight", case.n_embd)
        if gemma:
            norm(layer + "pre_feedforward_layernorm.weight", case.n_embd)
        matrix(layer + "mlp.gate_proj.weight", case.n_ff, case.n_embd, 3)
        matrix(layer + "mlp.up_proj.weight", case.n_ff, case.n_embd)
        matrix(layer + "mlp.down_proj.weight", case.n_embd, case.n_ff)
        if gemma:
            norm(layer + "post_feedforward_layernorm.weight", case.n_embd)
    norm("model.norm.weight", case.n_embd)
    if not case.tied:
        make("lm_head.weight", (N_VOCAB, case.n_embd), 0.3)
    return out


def weights_sha256(case):
    digest = hashlib.sha256()
    for name, array in hf_weights(case).items():
        digest.update(name.encode() + array.astype("<f4").tobytes())
    return digest.hexdigest()


def stored_form(case, name, array):
    """A checkpoint tensor as GGUF stores it."""
    heads = {"q_proj": case.n_heads, "k_proj": case.n_kv_heads}.get(name.split(".")[-2])
    if case.arch == "llama" and heads:
        # Rotary pairs: halves of a head in the checkpoint, adjacent in the file.
        shape = array.shape
        return array.reshape(heads, 2, case.head_dim // 2, -1).swapaxes(1, 2).reshape(shape)
    if case.arch == "gemma3" and array.ndim == 1:
        return array + np.float32(1)
    return array


def gguf_names(case, names):
    arch = {text: number for number, text in gguf.MODEL_ARCH_NAMES.items()}[case.arch]
    table = gguf.get_tensor_name_map(arch, case.n_layers)
    return {name: table.get_name(name, try_suffixes=(".weight", ".bias")) for name in names}


def random_blocks(label, shape, dtype, deviation):
    """Blocks of random bytes whose weights have mean 0 (where there are mins) and the given standard deviation."""
    kind = gguf.GGMLQuantizationType[dtype]
    block_elems, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    n_blocks = shape[1] // block_elems
    raw = random_ints(label, shape[0] * n_blocks * ((block_bytes + 7) // 8)).astype("<u8").view(np.uint8)
    blocks = raw.reshape(shape[0], n_blocks, -1)[:, :, :block_bytes].copy()
    d_offset, min_offset = RANDOM_BLOCKS[dtype]

    def set_fields(d, minimum):
        for offset, value in ((d_offset, d), (min_offset, minimum)):
            if dtype == "IQ1_M" and offset is not None:  # the high nibbles of four words from there on, the lowest first
                parts = np.float16(value).view(np.uint16) >> np.array([0, 4, 8, 12], np.uint16) & 15
                blocks[:, :, offset + 1 :: 2] = blocks[:, :, offset + 1 :: 2] & 15 | (parts << 4).astype(np.uint8)
            elif dtype == "NVFP4" and offset is not None:  # four E4M3 of this size, their mantissas random
                exponent = int(np.clip(np.floor(np.log2(value)) + 7, 0, 14))
                blocks[:, :, offset : offset + 4] = blocks[:, :, offset : offset + 4] & 7 | exponent << 3
            elif offset is not None:
                blocks[:, :, offset : offset + 2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)
        return blocks.reshape(shape[0], -1)

    def values(d, minimum):
        return gguf.dequantize(set_fields(d, minimum), kind)

    ratio = 0.0 if min_offset is None else -values(1, 0).mean() / values(0, 1).mean()
    d = deviation / values(1, ratio).std()
    return set_fields(d, d * ratio)


def encode(label, array, dtype):
    """(bytes of each row, GGUF type) of a tensor; vectors, biases, routers and the weights of norms stay F32."""
    if array.ndim == 1 or label.endswith(("_norm.weight", ".bias", "ffn_gate_inp.weight")):
        return array.astype("<f4"), gguf.GGMLQuantizationType.F32
    kind = gguf.GGMLQuantizationType[dtype]
    if dtype in RANDOM_BLOCKS:
        return random_blocks(label, array.shape, dtype, float(array.std())), kind
    return gguf.quantize(array, kind), kind


def vocabulary():
    """Metadata of a SentencePiece-like vocabulary: 3 special tokens, 256 bytes, pieces."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    tokens += ["\u2581", "\u2581t", "\u2581a", "he", "in", "re", "on", "\u2581the", "er", "\u2581s", "at"]
    tokens += list("etaoinsrhldcumfpgwybvkxjqz.,")[: N_VOCAB - len(tokens)]
    tokens += [f"x{i}" for i in range(N_VOCAB - len(tokens))]
    types = [2, 3, 3] + [6] * 256 + [1] * (N_VOCAB - 259)
    return {
        "tokenizer.ggml.model": ("str", "llama"),
        "tokenizer.ggml.tokens": ("str[]", tokens),
        "tokenizer.ggml.scores": ("f32[]", [0.0] * 259 + [-float(i) for i in range(N_VOCAB - 259)]),
        "tokenizer.ggml.token_type": ("i32[]", types),
        "tokenizer.ggml.bos_token_id": ("u32", 1),
        "tokenizer.ggml.eos_token_id": ("u32", 2),
        "tokenizer.ggml.unknown_token_id": ("u32", 0),
        "tokenizer.ggml.add_bos_token": ("bool", True),
    }


def hyper_parameters(case):
    keys = {
        "context_length": ("u32", case.n_ctx),
        "embedding_length": ("u32", case.n_embd),
        "block_count": ("u32", case.n_layers),
        "feed_forward_length": ("u32", case.n_ff),
        "attention.head_count": ("u32", case.n_heads),
        "attention.head_count_kv": ("u32", case.n_kv_heads),
        "attention.layer_norm_rms_epsilon": ("f32", case.norm_eps),
        "rope.freq_base": ("f32", case.rope_theta),
    }
    if case.arch == "llama":
        keys["rope.dimension_count"] = ("u32", case.rope_dim or case.head_dim)
    if case.head_dim * case.n_heads != case.n_embd:
        keys["attention.key_length"] = ("u32", case.head_dim)
        keys["attention.value_length"] = ("u32", case.head_dim)
    if case.window:
        keys["attention.sliding_window"] = ("u32", case.window)
    if case.pattern and case.pattern != 6:  # published Gemma 3 files leave the pattern out
        keys["attention.sliding_window_pattern"] = ("u32", case.pattern)
    if case.linear:
        keys["rope.scaling.type"] = ("str", "linear")
        keys["rope.scaling.factor"] = ("f32", case.linear)
    return {f"{case.arch}.{key}": value for key, value in keys.items()}


META_TYPES = {
    "u8": "UINT8",
    "i8": "INT8",
    "u16": "UINT16",
    "i16": "INT16",
    "u32": "UINT32",
    "i32": "INT32",
    "u64": "UINT64",
    "i64": "INT64",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "bool": "BOOL",
    "str": "STRING",
}


def finish(writer, path=None):
    """Writes all that a writer of the gguf package was given, to the path that it was given where there is none, and closes it."""
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Writer(gguf.GGUFWriter):
    """The gguf package's writer, which also writes empty arrays."""

    def _pack_val(self, val, vtype, add_vtype, sub_type=None):
        if vtype == gguf.GGUFValueType.ARRAY and len(val) == 0:
            head = self._pack("I", vtype) if add_vtype else b""
            return head + self._pack("I", sub_type) + self._pack("Q", 0)
        return super()._pack_val(val, vtype, add_vtype, sub_type)


class Model:
    """A case with its weights, ready to be written in any type and with any defect."""

    def __init__(self, case):
        self.case = case
        checkpoint = hf_weights(case)
        names = gguf_names(case, checkpoint)
        self.tensors = {names[name]: stored_form(case, name, array) for name, array in checkpoint.items()}
        if case.llama3:
            self.tensors["rope_freqs.weight"] = llama3_factors(case)
        self.meta = {"general.architecture": ("str", case.arch), "general.name": ("str", "tiny " + case.name)}
        self.meta |= hyper_parameters(case) | vocabulary()

    def write(self, path, dtype="F32", meta=None, tensors=None, drop=(), raw=None):
        """meta and tensors replace or add entries, drop removes some of either by name, raw gives tensors as
        (array of bytes, type name)."""
        writer = Writer(None, self.case.arch)
        writer.kv_data[0].clear()
        for key, (kind, value) in (self.meta | (meta or {})).items():
            if key in drop:
                continue
            base = gguf.GGUFValueType[META_TYPES[kind.removesuffix("[]")]]
            array = kind.endswith("[]")
            writer.kv_data[0][key] = gguf.GGUFValue(
                value, gguf.GGUFValueType.ARRAY if array else base, base if array else None
            )
        encoded = {
            name: encode(self.case.name + "/" + name, array, dtype)
            for name, array in (self.tensors | (tensors or {})).items()
        }
        encoded |= {name: (array, gguf.GGMLQuantizationType[kind]) for name, (array, kind) in (raw or {}).items()}
        for name, (array, kind) in encoded.items():
            if name not in drop:
                writer.add_tensor(name, array, raw_dtype=kind)
        finish(writer, path)
        return path

    def dequantized(self, dtype):
        """The weights that a file of this type holds, as float32."""
        out = {}
        for name, array in self.tensors.items():
            data, kind = encode(self.case.name + "/" + name, array, dtype)
            out[name] = gguf.dequantize(data, kind).reshape(array.shape)
        return out


def tern():
    """The program under test."""
    return os.environ.get("TERN", "build/tern")


def relative(found, expected):
    """Largest difference over the largest |expected|; infinite where the shapes differ or a value is not finite."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return np.inf
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def logits(path, ids, *options, env=None, n_vocab=N_VOCAB):
    """Rows of logits that `tern logits` writes, as an array [row][n_vocab]."""
    return floats("logits", path, ids, *options, env=env).reshape(-1, n_vocab)


def embeddings(path, ids, width, *options, env=None):
    """Vectors that `tern embed` writes, as an array [vector][width]."""
    return floats("embed", path, ids, "--raw", *options, env=env).reshape(-1, width)


def floats(name, path, ids, *options, env=None):
    """The float32 output of a command that takes ids."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.f32")
        command = [tern(), name, "-m", str(path), "--ids", " ".join(map(str, ids)), *map(str, options), "-o", out]
        done = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, **(env or {})})
        if done.returncode != 0:
            raise RuntimeError(
                f"{' '.join(command)}: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()}"
            )
        return np.fromfile(out, "<f4")


def run(*args, code=0, env=None, text=None):
    """tern's standard output, or its standard error where it shall end with another code than 0."""
    done = subprocess.run(
        [tern(), *map(str, args)], capture_output=True, text=True, input=text, timeout=300, env={**os.environ, **(env or {})}
    )
    assert done.returncode == code, f"exit {done.returncode}, expected {code}: {args}: {done.stderr}"
    return done.stderr if code else done.stdout


def log_softmax(logits):
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
