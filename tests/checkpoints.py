"""Checkpoint directories in Hugging Face's form, made with numpy alone, of the cases of tiny.py and architectures.py.

    checkpoint = Checkpoint.of(tiny.CASES["llama"])     # or a case of architectures.py
    checkpoint.write(folder)                            # config.json, model.safetensors, tokenizer files
    checkpoint.write(folder, dtype="BF16", shards=3)
"""

import dataclasses
import io
import json
import pathlib
import struct

import architectures
import architectures_encoders
import architectures_moe
import numpy as np
import tiny
from checkpoint_forms import FORMS

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"

# ---- Safetensors ----------------------------------------------------------------------------------------------------

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "U8": "u1"}


def to_bf16(array):
    """To nearest even."""
    bits = np.ascontiguousarray(array, "<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def encode(array, dtype):
    """The bytes of an array of floats in one of the format's types; arrays of bytes stay as they are."""
    if dtype == "BF16":
        return to_bf16(array).tobytes()
    return array.tobytes() if dtype.startswith("F8") else np.ascontiguousarray(array, DTYPES[dtype]).tobytes()


def safetensors(tensors):
    """A file of {name: (array, type)}."""
    header, data, at = {}, [], 0
    for name, (array, dtype) in tensors.items():
        data.append(encode(array, dtype))
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    return pack(json.dumps({"__metadata__": {"format": "pt"}} | header), b"".join(data))


def pack(header, data=b""):
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header)) + header + data


# ---- Tokenizers -----------------------------------------------------------------------------------------------------

SPLITS = {
    "llama-bpe": (
        [
            {
                "type": "Split",
                "pattern": {
                    "Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
                },
                "behavior": "Isolated",
                "invert": False,
            },
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        ],
        True,
    ),
    "smollm": (
        [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        ],
        False,
    ),
}


def byte_level(n_vocab, pre="llama-bpe", pairs=False, added=("<|begin|>", "<|end|>", "<pad>", "user text")):
    """(tokenizer.json, tokenizer_config.json) of a byte-level BPE: letters, some merges, special tokens at the end."""
    stages, ignore_merges = SPLITS[pre]
    tokens = [chr(c) for c in range(33, 33 + min(94, n_vocab - 20))] + ["\u0120"]
    letters = [t for t in tokens if t.isalpha()][:8] or tokens[:8]
    merges = [(a, b) for a in letters for b in letters][: n_vocab - len(tokens) - 5]
    tokens += [a + b for a, b in merges]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": len(tokens) + i,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": i < 2,
            }
            for i, text in enumerate(added)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": stages},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [
                {"SpecialToken": {"id": "<|begin|>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "<|begin|>", "type_id": 1}},
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [len(tokens)], "tokens": ["<|begin|>"]}},
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": ignore_merges,
            "vocab": {text: i for i, text in enumerate(tokens)},
            "merges": [list(pair) for pair in merges] if pairs else [" ".join(pair) for pair in merges],
        },
    }
    config = {
        "tokenizer_class": "GPT2Tokenizer" if pre == "smollm" else "PreTrainedTokenizerFast",
        "bos_token": "<|begin|>",
        "eos_token": {"__type": "AddedToken", "content": "<|end|>", "lstrip": False, "normalized": False, "rstrip": False},
        "pad_token": "<pad>",
        "unk_token": "<|end|>",
        "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}",
        "clean_up_tokenization_spaces": False,
    }
    return tokenizer, config


TEXT = """The cat sat on the mat and the dog ran to the hat. A hen in the den had ten eggs; then the men met her again.
Rain fell on the plain, and the train ran late. See the sea, the tea, the tree: three in all! Is it so? It is."""


def sentencepiece(n_vocab):
    """tokenizer.model of a SentencePiece BPE, trained on the spot."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.split(". ")),
        model_writer=model,
        model_type="bpe",
        vocab_size=min(n_vocab - 4, 150),
        character_coverage=1.0,
        hard_vocab_limit=True,
        user_defined_symbols=["<mask>"],
        minloglevel=2,
    )
    return model.getvalue()


def sentencepiece_config(n_vocab):
    added = {"0": ("<unk>", True), "1": ("<s>", True), "2": ("</s>", True), str(n_vocab - 3): ("<|im_end|>", True)}
    added[str(n_vocab - 2)] = ("a\u2581b", False)
    return {
        "tokenizer_class": "LlamaTokenizer",
        "add_bos_token": True,
        "add_eos_token": False,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "added_tokens_decoder": {
            i: {"content": text, "special": special, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
            for i, (text, special) in added.items()
        },
    }


def wordpiece(n_vocab):
    """(tokenizer.json, tokenizer_config.json) as BERT's: letters at the beginning of a word and within one, and some words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    tokens = special + letters + [f"##{c}" for c in letters] + ["the", "cat", "##ing", "##at", ".", ",", "h\u00e9", "\u65e5"]
    tokens = tokens[: n_vocab - 2]
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    ends = {text: {"SpecialToken": {"id": text, "type_id": 0}} for text in ("[CLS]", "[SEP]")}
    first, second = ({"Sequence": {"id": part, "type_id": i}} for i, part in enumerate("AB"))
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": text} | added for i, text in enumerate(special)],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [ends["[CLS]"], first, ends["[SEP]"]],
            "pair": [ends["[CLS]"], first, ends["[SEP]"], second, ends["[SEP]"]],
            "special_tokens": {text: {"id": text, "ids": [special.index(text)], "tokens": [text]} for text in ends},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {text: i for i, text in enumerate(tokens)},
        },
    }
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return tokenizer, names | {"tokenizer_class": "BertTokenizer", "do_lower_case": True}


# ---- Checkpoints ----------------------------------------------------------------------------------------------------

MODEL_TYPES = {
    "GPT2LMHeadModel": "gpt2",
    "GPTNeoXForCausalLM": "gpt_neox",
    "CohereForCausalLM": "cohere",
    "Ernie4_5ForCausalLM": "ernie4_5",
    "SeedOssForCausalLM": "seed_oss",
    "HunYuanDenseV1ForCausalLM": "hunyuan_v1_dense",
    "Gemma3ForCausalLM": "gemma3_text",
    "PhiForCausalLM": "phi",
    "DeepseekV3ForCausalLM": "deepseek_v3",
}


ACTIVATIONS = {
    "gemma": {"hidden_act": "gelu_pytorch_tanh"},
    "gemma2": {"hidden_activation": "gelu_pytorch_tanh"},
    "gemma3": {"hidden_activation": "gelu_pytorch_tanh"},
    "gemma3-linear": {"hidden_activation": "gelu_pytorch_tanh"},
    "gpt2": {"activation_function": "gelu_new"},
    "falcon-7b": {"activation": "gelu"},
    "falcon-40b": {"activation": "gelu"},
    "bert": {"hidden_act": "gelu"},
    "jina-bert-v2": {"hidden_act": "gelu"},
    "jina-bert-v2-code": {"hidden_act": "gelu"},
    "modern-bert": {"hidden_activation": "gelu"},
}
MORE = {"gemma3-linear": {"sliding_window_pattern": 3}}
SENTENCEPIECE = ("gemma", "gemma2", "gemma3", "gemma-embedding", "nemotron", "internlm2", "ernie4_5", "ernie4_5-moe")
WORDPIECE = ("bert", "nomic-bert", "jina-bert-v2")


@dataclasses.dataclass
class Checkpoint:
    name: str
    arch: str  # as in general.architecture
    config: dict
    tensors: dict  # float32
    golden: np.ndarray
    ids: list
    embeds: bool  # golden rows are not logits

    @staticmethod
    def of(case):
        wide = isinstance(case, architectures.Case)
        folder = GOLDEN / "arch" if wide else GOLDEN
        record = json.loads((folder / f"{case.name}.json").read_text())
        golden = np.fromfile(folder / f"{case.name}.f32", "<f4").reshape(len(record["ids"]), -1)
        config, model = dict(record["config"]), record["model"]
        tensors = architectures.checkpoint(case, record["checkpoint"]) if wide else tiny.hf_weights(case)
        model_type = MODEL_TYPES.get(model, model.split("For")[0].lower())
        config |= ACTIVATIONS.get(case.name, {} if "hidden_act" in config else {"hidden_act": "silu"})
        published, form, more = FORMS.get(case.name, FORMS.get(case.arch, (None, None, {})))
        if form:
            tensors, config = form(tensors, config), config | more
        if published:
            model, model_type = published, case.arch
        config |= MORE.get(case.name, {}) | {"architectures": [model], "model_type": model_type}
        if case.arch in SENTENCEPIECE:
            config |= {"bos_token_id": 1, "eos_token_id": 2}
        return Checkpoint(case.name, case.arch, config, tensors, golden, record["ids"], wide and case.embeds)

    @property
    def n_vocab(self):
        return self.config["vocab_size"]

    def tokenizer_files(self):
        if self.arch in SENTENCEPIECE:
            config = sentencepiece_config(self.n_vocab)
            return {"tokenizer.model": sentencepiece(self.n_vocab), "tokenizer_config.json": config}
        if self.arch == "glm4":
            tokenizer, config = byte_level(self.n_vocab, added=("<|begin|>", "<|endoftext|>", "<|user|>", "<pad>"))
            return {"tokenizer.json": tokenizer, "tokenizer_config.json": config | {"unk_token": None, "eos_token": "<|user|>"}}
        if self.arch in WORDPIECE:
            return dict(zip(("tokenizer.json", "tokenizer_config.json"), wordpiece(self.n_vocab)))
        tokenizer, config = byte_level(self.n_vocab, "smollm" if self.arch in ("phi3", "phimoe", "gpt2") else "llama-bpe")
        return {"tokenizer.json": tokenizer, "tokenizer_config.json": config}

    def write(self, folder, dtype="F32", shards=1, config=None, files=None, tensors=None):
        """config: changes of config.json, None drops a key; files: {name: JSON, text or bytes; None: left out}; tensors replaces
        all of them by {name: (array, type)}."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = config or {}
        changed = {key: value for key, value in (self.config | config).items() if value is not None or key not in config}
        contents = {"config.json": changed} | self.tokenizer_files() | (files or {})
        items = tensors or {name: (array, dtype) for name, array in self.tensors.items()}
        names = list(items)
        if shards == 1:
            contents["model.safetensors"] = safetensors(items)
        else:
            parts = [names[i::shards] for i in range(shards)]
            files_of = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
            for part, file in zip(parts, files_of):
                contents[file] = safetensors({name: items[name] for name in part})
            index = {name: file for part, file in zip(parts, files_of) for name in part}
            contents["model.safetensors.index.json"] = {"metadata": {"total_size": 0}, "weight_map": index}
        for name, content in contents.items():
            (folder / name).parent.mkdir(exist_ok=True)
            if content is None:
                (folder / name).unlink(missing_ok=True)
            elif isinstance(content, bytes):
                (folder / name).write_bytes(content)
            else:
                (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return folder


def beside(checkpoint):
    """What published checkpoints have beside: each file says something that is in the converted one."""
    config = {key: value for key, value in checkpoint.tokenizer_files()["tokenizer_config.json"].items() if key != "chat_template"}
    return {
        "README.md": "---\nlicense: mit\ntags: [tiny, test]\nbase_model: some-lab/Base-Model-v2-1B\n---\n# A model\n",
        "tokenizer_config.json": config,
        "chat_template.jinja": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
        "additional_chat_templates/tool_use.jinja": "{{ tools }}",
        "generation_config.json": {"temperature": 0.5, "top_p": 0.9},
    }


def cases():
    return list(tiny.CASES.values()) + architectures.CASES + architectures_encoders.CASES + architectures_moe.CASES
